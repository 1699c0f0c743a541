package record

import (
	"time"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Usage is the disk usage of an account's memory, by cause.
type Usage struct {
	AsOf time.Time `json:"as_of,omitzero"` // when this was computed, if earlier than the request

	Exchanges     int64 `json:"exchanges"`
	Sessions      int64 `json:"sessions"`
	RequestBytes  int64 `json:"request_bytes"`  // as sent by clients
	ResponseBytes int64 `json:"response_bytes"` // as sent to clients

	// Their size in the database, by kind.
	StoredBlocks    int64 `json:"stored_blocks"`    // messages, tools and the like
	StoredResponses int64 `json:"stored_responses"` // answers
	StoredRecords   int64 `json:"stored_records"`   // records of exchanges and their skeletons
	StoredSessions  int64 `json:"stored_sessions"`  // sessions, their lists, histories and evidence
	StoredTurns     int64 `json:"stored_turns"`     // digested turns

	ErasedByRetention int64 `json:"erased_by_retention"` // exchanges, in total
}

// Stored returns the size of everything stored for the account's exchanges.
func (u *Usage) Stored() int64 {
	return u.StoredBlocks + u.StoredResponses + u.StoredRecords + u.StoredSessions + u.StoredTurns
}

// Generation is the vectors of turns by one embedder. Vectors of different generations are never compared. The store
// does not interpret the bytes of a vector; package search defines them.
type Generation struct {
	Number     uint32    `json:"number"`   // never reused
	Identity   string    `json:"identity"` // of the embedder
	Dimensions int       `json:"dimensions"`
	Started    time.Time `json:"started"`
	Live       bool      `json:"live,omitempty"`     // used by searches
	Complete   bool      `json:"complete,omitempty"` // every turn from before the stage followed is in it
	Retired    bool      `json:"retired,omitempty"`  // its vectors are being erased
	Cursor     []byte    `json:"cursor,omitempty"`   // of [store.Feed.TurnsAfter]: the turns from before are in it up to here
	Done       uint64    `json:"done"`               // number of turns up to Cursor
	Total      uint64    `json:"total"`              // number of turns when it began
}

// TurnVector is the vector of a turn. A nil Value deletes it.
type TurnVector struct {
	Account  AccountNumber
	Exchange string
	Value    []byte // not retained after [store.Vectors.Put] returns
}

// ExchangeID returns the text of an exchange's id.
func ExchangeID(id [16]byte) string { return kv.ExchangeID(id).String() }

// ParseExchangeID returns the bytes of an exchange's id.
func ParseExchangeID(text string) (id [16]byte, ok bool) {
	parsed, ok := kv.ParseExchangeID(text)
	return parsed, ok
}
