package turns

import (
	"encoding/binary"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// GenerationsKey is the key of the list of generations; there are never more than a few.
var GenerationsKey = kv.NameKey(kv.SpaceMeta, "generations")

// VectorKey returns the key of the vector of a turn.
func VectorKey(account kv.AccountNumber, generation uint32, id kv.ExchangeID) []byte {
	return append(VectorPrefix(account, generation), id[:]...)
}

// VectorPrefix begins the keys of the vectors of an account in a generation.
func VectorPrefix(account kv.AccountNumber, generation uint32) []byte {
	return binary.BigEndian.AppendUint32(kv.SpaceKeyOf(kv.SpaceVector, account), generation)
}

// SplitVectorKey takes such a key apart.
func SplitVectorKey(key []byte) (generation uint32, id kv.ExchangeID, ok bool) {
	if len(key) != 1+4+4+len(id) {
		return 0, id, false
	}
	return binary.BigEndian.Uint32(key[5:]), kv.ExchangeID(key[9:]), true
}

// Generations returns the list as seen by the group.
func Generations(g *writing.Group) (list []record.Generation) {
	if value := g.Get(GenerationsKey); value != nil && g.Err() == nil {
		g.Fail(record.Decode(value, &list))
	}
	return list
}

// EraseVectors deletes the vectors of a turn.
func EraseVectors(g *writing.Group, w *commit.Op, account kv.AccountNumber, id kv.ExchangeID) {
	for _, generation := range Generations(g) {
		if key := VectorKey(account, generation.Number, id); g.Has(key) {
			g.Put(w, key, nil)
		}
	}
}
