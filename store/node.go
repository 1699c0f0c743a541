package store

import (
	"encoding/binary"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// NodeOf gives the node of a cluster that the id of an exchange names, see [Options.Node]. The ids of stores that were in no
// cluster name any.
func NodeOf(exchange string) (node uint16, ok bool) {
	id, ok := kv.ParseExchangeID(exchange)
	return binary.BigEndian.Uint16(id[6:8]), ok
}
