package record

import (
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Selection selects exchanges of an account. Exchanges and Sessions name them; the other members narrow the choice, or
// select among all exchanges if none is named. The zero Selection selects nothing; for everything, All must be set.
type Selection struct {
	Exchanges []string `json:"exchanges,omitempty"`
	Sessions  []string `json:"sessions,omitempty"`

	ChatKey         string    `json:"chat_key,omitempty"`
	ExternalSession string    `json:"external_session,omitempty"`
	Since           time.Time `json:"since,omitzero"` // begun at or after
	Until           time.Time `json:"until,omitzero"` // begun before
	All             bool      `json:"all,omitempty"`

	// After leaves out this exchange and those before it, in the order of ids: an export that was interrupted goes on after
	// its last one. Erasures have none.
	After string `json:"-"`

	// ByAge compares Until with the time the store got an exchange, as retention does: see [ExchangeInfo.KeptSince].
	ByAge bool `json:"by_age,omitempty"`
}

// Check returns an error for a selection that selects nothing or has an invalid id.
func (sel *Selection) Check() error {
	narrowed := sel.ChatKey != "" || sel.ExternalSession != "" || !sel.Since.IsZero() || !sel.Until.IsZero()
	if len(sel.Exchanges)+len(sel.Sessions) == 0 && !narrowed && !sel.All {
		return codec.Errorf(codec.KindInvalidRequest, "nothing is selected: name exchanges or sessions, give a filter, or say all")
	}
	for _, id := range sel.Exchanges {
		if _, ok := kv.ParseExchangeID(id); !ok {
			return codec.Invalid("exchanges", "%q is not an exchange id", id)
		}
	}
	for _, id := range sel.Sessions {
		if _, ok := kv.ParseSessionID(id); !ok {
			return codec.Invalid("sessions", "%q is not a session id", id)
		}
	}
	if sel.After != "" {
		if _, ok := kv.ParseExchangeID(sel.After); !ok {
			return codec.Invalid("after", "%q is not an exchange id", sel.After)
		}
		if len(sel.Exchanges) > 0 || len(sel.Sessions) > 1 { // these come one after the other, and not by their ids
			return codec.Invalid("after", "what follows an exchange is known of everything or of one session; name one, and no exchanges")
		}
	}
	return nil
}

// Matches reports whether an exchange passes the filters of the selection, whatever ids it names.
func (sel *Selection) Matches(info *ExchangeInfo) bool {
	began := info.Started
	if sel.ByAge {
		began = info.KeptSince()
	}
	return (sel.ChatKey == "" || sel.ChatKey == info.ChatKey) &&
		(sel.ExternalSession == "" || sel.ExternalSession == info.ExternalSession) &&
		(sel.After == "" || info.ID > sel.After) &&
		!info.Started.Before(sel.Since) && (sel.Until.IsZero() || began.Before(sel.Until))
}

// Follow returns the selection with the sessions into which its sessions were merged: their exchanges are there. merged
// returns the session that one was merged into; "" if it was not.
func (sel Selection) Follow(merged func(session string) string) Selection {
	named := slices.Clone(sel.Sessions)
	for _, id := range sel.Sessions {
		for range MaxMerges {
			if id = merged(id); id == "" || slices.Contains(named, id) {
				break
			}
			named = append(named, id)
		}
	}
	sel.Sessions = named
	return sel
}

// Erasure is the receipt of an erasure.
type Erasure struct {
	ID        string       `json:"id"`
	State     ErasureState `json:"state"`
	Selection Selection    `json:"selection"`
	Reason    string       `json:"reason"` // request, retention, or on an edge, centre
	DryRun    bool         `json:"dry_run,omitempty"`
	Exchanges int64        `json:"exchanges"`       // erased, or with DryRun: would be erased
	Sessions  int64        `json:"sessions"`        // gone with their last exchange
	Open      int64        `json:"open"`            // selected, but left alone because they are still running
	Late      int64        `json:"late,omitempty"`  // at a centre: began before the erasure at an edge, arrived after it, and were not kept
	Objects   int64        `json:"objects"`         // blocks and nodes that are no longer referenced
	Bytes     int64        `json:"bytes"`           // freed in the database; the volume gets them back at the next compaction
	Packs     int64        `json:"packs,omitempty"` // deleted in a centre's bucket, after the other contents were rewritten
	Created   time.Time    `json:"created"`
	Completed time.Time    `json:"completed,omitzero"`

	Places []ErasurePlace `json:"places,omitempty"` // at a centre: all places that had it, as far as known; not recorded
}

// ErasureState is the progress of an erasure.
type ErasureState string

// States of an erasure. Erased data is unreadable as soon as its exchange is gone, while the erasure still runs; done
// means that its blocks are freed too.
const (
	ErasureQueued  ErasureState = "queued"
	ErasureRunning ErasureState = "running"
	ErasureDone    ErasureState = "done"
)

// ErasurePrefix begins the ids of erasures.
const ErasurePrefix = "eras_"

// Reasons of erasures, as in [Erasure.Reason].
const (
	ErasedByRequest   = "request"
	ErasedByRetention = "retention"
	ErasedByCenter    = "centre"
)

// ErasurePlace is one of the places in a cluster that held erased data.
type ErasurePlace struct {
	Place string     `json:"place"` // "centre", "edge" and its number, "brokers", "reasoning state", "backups"
	State PlaceState `json:"state"`
	Seen  time.Time  `json:"seen,omitzero"`  // an edge: when it was last heard from
	Until time.Time  `json:"until,omitzero"` // when it will expire there by itself
}

// PlaceState is the state of an erasure at a place.
type PlaceState string

// States of a place.
const (
	PlaceErased     PlaceState = "erased"
	PlaceWaiting    PlaceState = "waiting"     // not erased yet, or unknown because the place is unreachable
	PlaceDestroyed  PlaceState = "destroyed"   // declared so by an operator
	PlaceNotReached PlaceState = "not_reached" // this erasure erases nothing there
)

// erasureIDs generates ids of erasures outside of a store.
var erasureIDs kv.IDSource

// NewErasureID returns an id for an erasure outside of a store.
func NewErasureID(now time.Time) string { return erasureIDs.Next(now).Text(ErasurePrefix) }

// FirstErasureID returns an id below those of all erasures requested at or after a time.
func FirstErasureID(t time.Time) string {
	return kv.TimeIDAt(time.UnixMilli(max(t.UnixMilli(), 0))).Text(ErasurePrefix)
}

// IsErasureID reports whether a text is an id of an erasure.
func IsErasureID(text string) bool {
	_, ok := kv.ParseID(ErasurePrefix, text)
	return ok
}

// EdgeErased is what a centre knows about erasures at an edge.
type EdgeErased struct {
	Node  uint16    `json:"node"`
	Seen  time.Time `json:"seen"`           // when it was last heard from
	Clean time.Time `json:"clean,omitzero"` // data erased before then is erased there, and everything that began there before then has arrived
	Gone  time.Time `json:"gone,omitzero"`  // when it was declared destroyed
}
