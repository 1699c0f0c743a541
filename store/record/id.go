package record

import (
	"encoding/binary"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// AccountNumber identifies an account in the data of stages. A number is assigned once and never reused.
type AccountNumber = kv.AccountNumber

// NodeOf returns the cluster node in an exchange's id, see [store.Options.Node]. In ids from stores outside a cluster it is
// arbitrary.
func NodeOf(exchange string) (node uint16, ok bool) {
	id, ok := kv.ParseExchangeID(exchange)
	return binary.BigEndian.Uint16(id[6:8]), ok
}
