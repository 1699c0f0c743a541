package store

import (
	"encoding/binary"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// NodeOf returns the cluster node in an exchange's id, see [Options.Node]. In ids from stores outside a cluster it is
// arbitrary.
func NodeOf(exchange string) (node uint16, ok bool) {
	id, ok := kv.ParseExchangeID(exchange)
	return binary.BigEndian.Uint16(id[6:8]), ok
}
