package storetest

import (
	"context"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

// Recollections stores what was recalled at places of conversations.
type Recollections interface {
	Recollections(account string, keys []record.RecollectionKey) ([]*record.Recollection, error)
	Recollect(ctx context.Context, account string, keys []record.RecollectionKey, r record.Recollection) (*record.Recollection, error)
}

// RunRecollections tests a memory in which texts are recalled.
func RunRecollections(t *testing.T, open func(*testing.T) (Memory, Recollections)) {
	for _, property := range []struct {
		name string
		test func(*recalling)
	}{
		{"a place is decided once, for its account alone", decidedOnce},
		{"what is recalled is erased with any exchange that it quotes, and with its own", erasedWithQuotes},
		{"what is decided after an erasure outlives what was quoted before it", decidedAgain},
		{"the last decision of a session outlives what earlier ones quote", lastOfASession},
	} {
		t.Run(property.name, func(t *testing.T) {
			m, s := open(t)
			property.test(&recalling{t, m, s})
		})
	}
}

// recalling is a memory in which texts are recalled.
type recalling struct {
	*testing.T
	memory Memory
	places Recollections
}

// said returns an exchange that is in the memory.
func (r *recalling) said(text string) (id string) {
	r.Helper()
	id = stored(r.T, r.memory, text, text, "yes")
	sessionOf(r.T, r.memory, id)
	return id
}

func (r *recalling) erase(exchange string) {
	r.Helper()
	erase(r.T, r.memory, owner, exchange)
}

// decide stores a text at places, and returns what holds there.
func (r *recalling) decide(text, own string, quotes []string, places ...record.RecollectionKey) string {
	r.Helper()
	holds, err := r.places.Recollect(r.Context(), owner, places, record.Recollection{Exchange: own, Text: text, Quotes: quotes})
	check(r.T, err)
	return holds.Text
}

// want checks the texts at the first places of conversations; "-" where nothing is decided.
func (r *recalling) want(what, account, texts string) {
	r.Helper()
	var keys []record.RecollectionKey
	for i := range strings.Fields(texts) {
		keys = append(keys, record.RecollectionKey{byte(i)})
	}
	found, err := r.places.Recollections(account, keys)
	check(r.T, err)
	var got []string
	for _, at := range found {
		if at == nil {
			at = &record.Recollection{Text: "-"}
		}
		got = append(got, at.Text)
	}
	if got := strings.Join(got, " "); got != texts {
		r.Errorf("%s: the places have %q, want %q", what, got, texts)
	}
}

func decidedOnce(r *recalling) {
	own, quoted := r.said("own"), r.said("quoted")
	if got := r.decide("first", own, []string{quoted}, record.RecollectionKey{0}, record.RecollectionKey{1}); got != "first" {
		r.Errorf("%q holds, want what was decided", got)
	}
	if got := r.decide("second", own, nil, record.RecollectionKey{0}); got != "first" {
		r.Errorf("%q holds after a second decision", got)
	}
	r.want("to its account", owner, "first first -")
	r.want("to another account", stranger, "- - -")
	r.erase(quoted)
	if got := r.decide("late", own, []string{quoted}, record.RecollectionKey{2}); got != "" {
		r.Errorf("%q quotes what is erased", got)
	}
}

func erasedWithQuotes(r *recalling) {
	own, other, one, two := r.said("own"), r.said("other"), r.said("one"), r.said("two")
	r.decide("both", own, []string{one, two}, record.RecollectionKey{0}, record.RecollectionKey{1})
	r.decide("second", own, []string{two}, record.RecollectionKey{2})
	r.decide("none", other, nil, record.RecollectionKey{3})
	r.erase(one)
	r.want("after an exchange that it quotes", owner, "- - second none")
	r.erase(own)
	r.want("after its own exchange", owner, "- - - none")
}

func decidedAgain(r *recalling) {
	first, second, one, two := r.said("first"), r.said("second"), r.said("one"), r.said("two")
	r.decide("former", first, []string{one, two}, record.RecollectionKey{0})
	r.erase(one)
	r.want("after the first erasure", owner, "-")
	r.decide("again", second, nil, record.RecollectionKey{0})
	r.erase(two)
	r.erase(first)
	r.want("after the former quotes", owner, "again")
	r.erase(second)
	r.want("after its own exchange", owner, "-")
}

func lastOfASession(r *recalling) {
	first, second, one, two := r.said("first"), r.said("second"), r.said("one"), r.said("two")
	session := record.RecollectionKey{2}
	r.decide("former", first, []string{one}, record.RecollectionKey{0}, session)
	r.decide("latter", second, []string{two}, record.RecollectionKey{1}, session)
	r.want("before an erasure", owner, "former latter latter")
	r.erase(one)
	r.want("after the former quote", owner, "- latter latter")
	r.erase(two)
	r.want("after the latter quote", owner, "- - -")
}
