// Package identity keeps callers and their rights: accounts, their service keys, their provider credentials, and the
// audit record.
//
// Keys are stored as hashes of their secrets, credentials sealed under the master key; neither is ever in an error or a
// log. A change is durable before its method returns, and takes effect only then.
package identity
