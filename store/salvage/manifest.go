package salvage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"

	"github.com/dgraph-io/badger/v4/pb"
	"google.golang.org/protobuf/proto"
)

// A manifest is "Bdgr", an outer version of two bytes (0 here), Badger's version (8), and sets of changes, each after
// its length and CRC-32C. A set is written at once, and applies as a whole.

// Manifest lists the tables of a database.
type Manifest struct {
	Tables  map[uint64]uint32   // their levels
	Removed map[uint64]struct{} // that were listed before
	Cut     int64               // bytes of an incomplete set at the end
}

const manifestVersion = 8

var errManifest = errors.New("it is not the manifest of a database")

// ReadManifest reads a manifest. An incomplete set at its end is not an error, since its tables may exist: the caller
// compares.
func ReadManifest(path string) (*Manifest, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(data) < 8 || string(data[:4]) != "Bdgr" || binary.BigEndian.Uint32(data[4:]) != manifestVersion {
		return nil, errManifest
	}
	m := &Manifest{Tables: make(map[uint64]uint32), Removed: make(map[uint64]struct{})}
	for at := 8; at < len(data); {
		rest := data[at:]
		if len(rest) < 8 || uint64(len(rest)-8) < uint64(binary.BigEndian.Uint32(rest)) {
			m.Cut = int64(len(rest))
			break
		}
		set := rest[8 : 8+int(binary.BigEndian.Uint32(rest))]
		if crc32.Checksum(set, castagnoli) != binary.BigEndian.Uint32(rest[4:]) {
			return nil, fmt.Errorf("its checksum does not match at byte %d", at)
		}
		var changes pb.ManifestChangeSet
		if err := proto.Unmarshal(set, &changes); err != nil {
			return nil, fmt.Errorf("the changes at byte %d cannot be read", at)
		}
		for _, c := range changes.GetChanges() {
			if c.GetOp() == pb.ManifestChange_CREATE {
				m.Tables[c.GetId()] = c.GetLevel()
				continue
			}
			delete(m.Tables, c.GetId())
			m.Removed[c.GetId()] = struct{}{}
		}
		at += 8 + len(set)
	}
	return m, nil
}
