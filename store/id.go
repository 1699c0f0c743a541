package store

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"
)

// timeID is 48 bits of milliseconds since 1970 and 80 random bits, so that byte order is time order.
// Within a process ids strictly ascend, also inside one millisecond.
type timeID [16]byte

type (
	exchangeID timeID
	sessionID  timeID
)

const (
	exchangePrefix = "exch_"
	sessionPrefix  = "sess_"
)

// Crockford's alphabet in lower case: byte order of the text is byte order of the id.
var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

func (id exchangeID) String() string { return timeID(id).text(exchangePrefix) }

// time is when the exchange began, or later where ids of that time were given out already.
func (id exchangeID) time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

func (id sessionID) String() string { return timeID(id).text(sessionPrefix) }

// text allocates nothing but the text.
func (id timeID) text(prefix string) string {
	var room [32]byte
	return string(idEncoding.AppendEncode(append(room[:0], prefix...), id[:]))
}

func parseExchangeID(text string) (exchangeID, bool) {
	id, ok := parseID(exchangePrefix, text)
	return exchangeID(id), ok
}

func parseSessionID(text string) (sessionID, bool) {
	id, ok := parseID(sessionPrefix, text)
	return sessionID(id), ok
}

func parseID(prefix, text string) (id timeID, ok bool) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok || len(digits) != idEncoding.EncodedLen(len(id)) {
		return id, false
	}
	n, err := idEncoding.Decode(id[:], []byte(digits))
	return id, err == nil && n == len(id) && idEncoding.EncodeToString(id[:]) == digits
}

// DerivedExchangeID is the id of an exchange from elsewhere, which is the same each time: it began at t, and names tell it from
// all others.
func DerivedExchangeID(t time.Time, names ...string) string {
	return derivedID(t, names).text(exchangePrefix)
}

// DerivedSessionID is the same for a session.
func DerivedSessionID(t time.Time, names ...string) string {
	return derivedID(t, names).text(sessionPrefix)
}

func derivedID(t time.Time, names []string) timeID {
	id := timeIDAt(t)
	sum := blake3.Sum256([]byte(strings.Join(names, "\x00")))
	copy(id[6:], sum[:])
	return id
}

// timeIDAt is the lowest id of a time.
func timeIDAt(t time.Time) (id timeID) {
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16)
	return id
}

// idSource gives out ascending ids.
type idSource struct {
	mu   sync.Mutex
	last timeID
}

// next gives an id for the time t, or the successor of the last id where that would be no smaller.
func (s *idSource) next(t time.Time) timeID {
	id := timeIDAt(t)
	_, _ = rand.Read(id[6:]) // never fails: crypto/rand ends the program instead
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
