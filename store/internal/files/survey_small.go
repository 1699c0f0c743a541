package files

import (
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
	last, ended := uint64(0), false
	for at := 0; at < len(data); at += 16 {
		number, dead := beUint64(data[at:]), beUint64(data[at+8:])
		switch {
		case number == 0:
			ended = true
			if dead != 0 {
				return false
			}
		case ended, number <= last, number > 1<<32, dead > 1<<40:
			return false
		}
		last = max(last, number)
	}
	return true
}

func beUint64(b []byte) (v uint64) {
	for _, c := range b[:8] {
		v = v<<8 | uint64(c)
	}
	return v
}
