package record

import (
	"sync"
	"time"
)

// Event reports a commit.
type Event struct {
	Seq      uint64    `json:"seq"` // ascending over all accounts, from 1 when the store is opened
	Kind     EventKind `json:"kind"`
	Exchange string    `json:"exchange,omitempty"`
	Session  string    `json:"session,omitempty"`
	KeyID    string    `json:"key_id,omitempty"` // the service key of the exchange
	Outcome  Outcome   `json:"outcome"`
	Erasure  string    `json:"erasure,omitempty"`
	Time     time.Time `json:"time"`

	Account AccountNumber `json:"-"`
}

// EventKind is the kind of an event.
type EventKind string

// Kinds of events.
const (
	ExchangeCreated   EventKind = "exchange.created"
	ExchangeCompleted EventKind = "exchange.completed" // it ended, with any outcome
	TurnDigested      EventKind = "turn.digested"
	ErasureCompleted  EventKind = "erasure.done"
	eventHistory                = 4096 // events kept for returning subscribers
	EventBacklog                = 256  // events that a subscriber may lag behind
)

// EventHub passes events on to subscribers. It never waits for them. The zero value is ready for use.
type EventHub struct {
	mu          sync.Mutex
	seq         uint64
	history     []Event // a ring: the event with number seq is at seq % eventHistory
	subscribers map[*Subscription]struct{}
	closed      bool
}

// Subscription receives the events of one account as they are committed.
type Subscription struct {
	Events <-chan Event // closed if the subscriber fell too far behind, or when the hub or the subscription is closed
	Missed bool         // events after the requested one are no longer known

	hub     *EventHub
	events  chan Event
	account AccountNumber
	ended   bool // guarded by hub.mu
}

// Subscribe subscribes to the events of an account after the one with number after; 0 means from now on. The subscriber
// closes it.
func (h *EventHub) Subscribe(account AccountNumber, after uint64) *Subscription {
	h.mu.Lock()
	defer h.mu.Unlock()
	var past []Event
	missed := after > h.seq || after > 0 && after+eventHistory < h.seq
	for seq := max(after, h.seq-min(h.seq, eventHistory)) + 1; after > 0 && !missed && seq <= h.seq; seq++ {
		if e := h.history[seq%eventHistory]; e.Account == account {
			past = append(past, e)
		}
	}
	events := make(chan Event, len(past)+EventBacklog)
	for _, e := range past {
		events <- e
	}
	sub := &Subscription{Events: events, Missed: missed, hub: h, events: events, account: account}
	if h.subscribers == nil {
		h.subscribers = make(map[*Subscription]struct{})
	}
	h.subscribers[sub] = struct{}{}
	if h.closed {
		sub.end()
	}
	return sub
}

// Close ends the subscription. It may be called more than once.
func (sub *Subscription) Close() {
	sub.hub.mu.Lock()
	defer sub.hub.mu.Unlock()
	sub.end()
}

// end closes the channel once; the caller holds hub.mu.
func (sub *Subscription) end() {
	delete(sub.hub.subscribers, sub)
	if !sub.ended {
		sub.ended = true
		close(sub.events)
	}
}

// Publish numbers events and passes them on.
func (h *EventHub) Publish(events []Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.history == nil {
		h.history = make([]Event, eventHistory)
	}
	for _, e := range events {
		h.seq++
		e.Seq = h.seq
		h.history[h.seq%eventHistory] = e
		for sub := range h.subscribers {
			if sub.account != e.Account {
				continue
			}
			select {
			case sub.events <- e:
			default:
				sub.end()
			}
		}
	}
}

// Miss is called after events may have been lost. It ends all subscriptions; those who subscribe again after an earlier event
// have missed some.
func (h *EventHub) Miss() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.history = make([]Event, eventHistory)
	h.seq += 2 * eventHistory
	h.end()
}

// Close ends all subscriptions, later ones included.
func (h *EventHub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.end()
}

func (h *EventHub) end() {
	for sub := range h.subscribers {
		sub.end()
	}
}
