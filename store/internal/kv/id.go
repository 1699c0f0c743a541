package kv

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"strings"
	"sync"
	"time"

	"github.com/zeebo/blake3"
)

// TimeID is 48 bits of milliseconds since 1970 and 80 random bits, the first 16 of which may name a node, so that byte order is time order.
// Within a process ids strictly ascend, also inside one millisecond.
type TimeID [16]byte

// ExchangeID is the id of an exchange.
type ExchangeID TimeID

// SessionID is the id of a session.
type SessionID TimeID

// What the texts of ids begin with.
const (
	ExchangePrefix = "exch_"
	SessionPrefix  = "sess_"
)

// IDEncoding writes ids in Crockford's alphabet, in lower case: byte order of the text is byte order of the id.
var IDEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// String is the id as clients see it.
func (id ExchangeID) String() string { return TimeID(id).Text(ExchangePrefix) }

// Time is when the exchange began, or later where ids of that time were given out already.
func (id ExchangeID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

// String is the id as clients see it.
func (id SessionID) String() string { return TimeID(id).Text(SessionPrefix) }

// Text is an id with its prefix, as clients see it. It allocates nothing but the text.
func (id TimeID) Text(prefix string) string {
	var room [32]byte
	return string(IDEncoding.AppendEncode(append(room[:0], prefix...), id[:]))
}

// ParseExchangeID reads an id as [ExchangeID.String] writes it.
func ParseExchangeID(text string) (ExchangeID, bool) {
	id, ok := ParseID(ExchangePrefix, text)
	return ExchangeID(id), ok
}

// ParseSessionID reads an id as [SessionID.String] writes it.
func ParseSessionID(text string) (SessionID, bool) {
	id, ok := ParseID(SessionPrefix, text)
	return SessionID(id), ok
}

// ParseID reads an id as [TimeID.Text] writes it, and in no other spelling.
func ParseID(prefix, text string) (id TimeID, ok bool) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok || len(digits) != IDEncoding.EncodedLen(len(id)) {
		return id, false
	}
	n, err := IDEncoding.Decode(id[:], []byte(digits))
	return id, err == nil && n == len(id) && IDEncoding.EncodeToString(id[:]) == digits
}

// DerivedID is an id of the time t that is the same each time for the same names, and no other for others.
func DerivedID(t time.Time, names []string) TimeID {
	id := TimeIDAt(t)
	sum := blake3.Sum256([]byte(strings.Join(names, "\x00")))
	copy(id[6:], sum[:])
	return id
}

// namedTime is in the place of the time in ids that have none: no other id has it.
var namedTime = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// FirstNamed is below all ids that have no time, and above all others.
var FirstNamed = TimeID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// NamedSessionID is the id of a session that is the same wherever it is made of these names. It has no time.
func NamedSessionID(names ...string) (id SessionID) {
	sum := blake3.Sum256([]byte(strings.Join(names, "\x00")))
	copy(id[copy(id[:], namedTime[:]):], sum[:])
	return id
}

// IsNamed reports whether an id was made by [NamedSessionID].
func (id SessionID) IsNamed() bool { return [6]byte(id[:6]) == namedTime }

// Position is where a session that has no time in its id stands among the others, if it began at t.
func (id SessionID) Position(t time.Time) TimeID {
	at := TimeIDAt(t)
	copy(at[6:], id[6:])
	return at
}

// TimeIDAt is the lowest id of a time.
func TimeIDAt(t time.Time) (id TimeID) {
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16)
	return id
}

// IDSource gives out ascending ids.
type IDSource struct {
	Node uint16 // that ids name in their bytes 6 and 7; 0: they name none, and these are random

	mu   sync.Mutex
	last TimeID
}

// Next gives an id for the time t, or the successor of the last id where that would be no smaller.
func (s *IDSource) Next(t time.Time) TimeID {
	id := TimeIDAt(t)
	_, _ = rand.Read(id[6:]) // never fails: crypto/rand ends the program instead
	if s.Node != 0 {
		binary.BigEndian.PutUint16(id[6:8], s.Node)
	}
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
