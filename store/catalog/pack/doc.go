// Package pack stores values in packs: objects in a bucket of an S3-compatible service that are written once and read
// by range.
//
// A pack holds values of one account, each with its name and a checksum of both. A value that was truncated, changed or
// swapped is an error of its own; the other values of its pack stay readable. The place of a value ([Entry]) is stored
// elsewhere: a pack has no index.
package pack
