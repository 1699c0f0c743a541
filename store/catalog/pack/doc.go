// Package pack keeps values in packs: objects of a bucket of an S3-compatible service that are written once, and read by the
// stretch.
//
// A pack holds values of one account, each with its name and a checksum of both. One that was cut, changed or swapped for
// another is an error of its own; the others of its pack are read all the same. Where a value stands ([Entry]) is kept
// elsewhere: a pack has no index.
package pack
