// Package volume reports the free space of the disk that a file is on.
package volume

// Space is the size of a volume and what an ordinary user may still write to it, in bytes.
type Space struct{ Total, Free int64 }
