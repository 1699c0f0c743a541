// Package volume looks at the disk that files are on, in the way of the operating system.
package volume

// Space is the size of a volume and what an ordinary user may still write to it, in bytes.
type Space struct{ Total, Free int64 }
