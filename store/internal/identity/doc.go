// Package identity knows who calls, and what they may do: accounts, the service keys that speak for them, the credentials that
// they have at providers, and the record of administration.
//
// Of keys the hash of the secret is kept, credentials are sealed under the master key, and neither is ever in an error or a
// log. What has changed is durable before a method returns, and only then in effect.
package identity
