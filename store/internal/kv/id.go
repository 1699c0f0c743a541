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

// TimeID is 48 bits of milliseconds since 1970 and 80 random bits, the first 16 of which may identify a node. So byte
// order is time order. Within a process ids are strictly ascending, even within one millisecond.
type TimeID [16]byte

// ExchangeID is the id of an exchange.
type ExchangeID TimeID

// SessionID is the id of a session.
type SessionID TimeID

// Prefixes of ids as text.
const (
	ExchangePrefix = "exch_"
	SessionPrefix  = "sess_"
)

// IDEncoding encodes ids in Crockford's alphabet, in lower case. It preserves byte order.
var IDEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// String returns the id as clients see it.
func (id ExchangeID) String() string { return TimeID(id).Text(ExchangePrefix) }

// Time returns when the exchange began, or slightly later if ids of that time were already taken.
func (id ExchangeID) Time() time.Time {
	return time.UnixMilli(int64(binary.BigEndian.Uint64(id[:8]) >> 16))
}

// String returns the id as clients see it.
func (id SessionID) String() string { return TimeID(id).Text(SessionPrefix) }

// Text returns an id with its prefix, as clients see it. It allocates only the text.
func (id TimeID) Text(prefix string) string {
	var room [32]byte
	return string(IDEncoding.AppendEncode(append(room[:0], prefix...), id[:]))
}

// ParseExchangeID parses the result of [ExchangeID.String].
func ParseExchangeID(text string) (ExchangeID, bool) {
	id, ok := ParseID(ExchangePrefix, text)
	return ExchangeID(id), ok
}

// ParseSessionID parses the result of [SessionID.String].
func ParseSessionID(text string) (SessionID, bool) {
	id, ok := ParseID(SessionPrefix, text)
	return SessionID(id), ok
}

// ParseID parses the result of [TimeID.Text], in exactly that spelling.
func ParseID(prefix, text string) (id TimeID, ok bool) {
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok || len(digits) != IDEncoding.EncodedLen(len(id)) {
		return id, false
	}
	n, err := IDEncoding.Decode(id[:], []byte(digits))
	return id, err == nil && n == len(id) && IDEncoding.EncodeToString(id[:]) == digits
}

// DerivedID returns an id of the time t that is a function of t and the names: equal for equal names, and different for
// different ones.
func DerivedID(t time.Time, names []string) TimeID {
	id := TimeIDAt(t)
	sum := blake3.Sum256([]byte(strings.Join(names, "\x00")))
	copy(id[6:], sum[:])
	return id
}

// namedTime replaces the time in ids without one; no other id contains it.
var namedTime = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// FirstNamed is below all ids without a time and above all others.
var FirstNamed = TimeID{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// NamedSessionID returns a session's id that depends only on the names, so it is the same on every node. It has no
// time.
func NamedSessionID(names ...string) (id SessionID) {
	sum := blake3.Sum256([]byte(strings.Join(names, "\x00")))
	copy(id[copy(id[:], namedTime[:]):], sum[:])
	return id
}

// IsNamed reports whether an id was made by [NamedSessionID].
func (id SessionID) IsNamed() bool { return [6]byte(id[:6]) == namedTime }

// Position returns where a session without a time in its id is placed among the others, given that it began at t.
func (id SessionID) Position(t time.Time) TimeID {
	at := TimeIDAt(t)
	copy(at[6:], id[6:])
	return at
}

// TimeIDAt returns the lowest id of a time.
func TimeIDAt(t time.Time) (id TimeID) {
	binary.BigEndian.PutUint64(id[:8], uint64(t.UnixMilli())<<16)
	return id
}

// IDSource generates ascending ids.
type IDSource struct {
	Node uint16 // number in bytes 6 and 7 of ids; 0: these bytes are random

	mu   sync.Mutex
	last TimeID
}

// Next returns an id for the time t, or the successor of the last id if that is larger.
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
