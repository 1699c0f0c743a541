package store

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"sync"
	"time"
)

// exchangeID is 48 bits of milliseconds since 1970 and 80 random bits, so that byte order is time order.
// Within a process ids strictly ascend, also inside one millisecond.
type exchangeID [16]byte

const exchangePrefix = "exch_"

// Crockford's alphabet in lower case: byte order of the text is byte order of the id.
var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

func (id exchangeID) String() string { return exchangePrefix + idEncoding.EncodeToString(id[:]) }

func parseExchangeID(text string) (id exchangeID, ok bool) {
	digits, ok := strings.CutPrefix(text, exchangePrefix)
	if !ok || len(digits) != idEncoding.EncodedLen(len(id)) {
		return id, false
	}
	n, err := idEncoding.Decode(id[:], []byte(digits))
	return id, err == nil && n == len(id) && id.String() == text
}

// idSource gives out ascending ids.
type idSource struct {
	mu   sync.Mutex
	last exchangeID
}

// next gives an id for the time t, or the successor of the last id where that would be no smaller.
func (s *idSource) next(t time.Time) exchangeID {
	var id exchangeID
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16) //nolint:gosec // times before 1970 do not occur
	_, _ = rand.Read(id[6:])                                      // never fails: crypto/rand ends the program instead
	s.mu.Lock()
	defer s.mu.Unlock()
	if string(id[:]) <= string(s.last[:]) {
		id = s.last
		for i := len(id) - 1; i >= 0; i-- {
			id[i]++
			if id[i] != 0 {
				break
			}
		}
	}
	s.last = id
	return id
}
