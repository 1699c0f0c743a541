package files

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
)

// Files that Badger keeps beside its data, and recreates if they are missing.
const (
	registryFile = "KEYREGISTRY" // keys of the unused encryption
	discardFile  = "DISCARD"     // how much of each value log is dead
)

// examineSmall checks files that hold no data, but that Badger fails on.
func (s *Survey) examineSmall() error {
	registry, err := os.ReadFile(s.path(registryFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && (len(registry) != 28 || string(registry[16:]) != "Hello Badger") {
		s.replace(registryFile, nil, "it is not as it was written; it is made again, and nothing is lost by it")
	}
	discard, err := os.ReadFile(s.path(discardFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !soundDiscards(discard) {
		s.replace(discardFile, nil, "it is not as it was written; it is made again, and nothing is lost by it")
	}
	return nil
}

// soundDiscards reports whether the counts of dead bytes, 16 bytes per value log, ascend by its number and end with
// zeros.
func soundDiscards(data []byte) bool {
	if len(data) < 1<<20 || len(data)%16 != 0 {
		return len(data) == 0
	}
	for last := uint64(0); len(data) > 0; data = data[16:] {
		number, dead := binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:])
		if number == 0 {
			return data[0] == 0 && bytes.Equal(data[1:], data[:len(data)-1]) // the first is zero, and each equals the next
		}
		if number <= last || number > 1<<32 || dead > 1<<40 {
			return false
		}
		last = number
	}
	return true
}
