package codec

import (
	"strings"
	"testing"
)

// A request may have millions of pieces; what is noted of them before they are remembered has a bound.
func TestOfVeryManyPiecesNoMoreAreNotedThanAreRemembered(t *testing.T) {
	known := new(Succession)
	body := []byte(`{"model":"m","messages":[` + strings.Repeat(`{},`, 2*len(known.slots)) + `{}]}`)
	p := newPieceReader(body, "acme", known)
	defer p.release()
	var e Envelope
	if err := e.members(body, p); err != nil || !p.wellFormed() {
		t.Fatal(err)
	}
	if len(p.fresh) > len(known.slots) {
		t.Errorf("%d pieces are noted, and %d can be remembered", len(p.fresh), len(known.slots))
	}
	if want := 2*len(known.slots) + 1; len(e.Items) != want || len(p.prints) != want {
		t.Errorf("%d items and %d fingerprints, want %d", len(e.Items), len(p.prints), want)
	}
}

// "Done." stands in every session, and each goes on in its own way.
func TestWhatFollowsAPieceOfManySessionsIsRememberedForEach(t *testing.T) {
	known := new(Succession)
	fresh := func(session string) int {
		body := []byte(`{"model":"m","messages":[{"a":"first of ` + session + `"},{"a":"Done."},{"a":"next of ` + session + `"}]}`)
		p := newPieceReader(body, "acme", known)
		defer p.release()
		var e Envelope
		if err := e.members(body, p); err != nil || !p.wellFormed() {
			t.Fatal(err)
		}
		return len(p.fresh)
	}
	for _, session := range []string{"one", "two"} {
		fresh(session)
	}
	fresh("one") // its first message is not the first of that list that came last
	for _, session := range []string{"one", "two"} {
		if n := fresh(session); n > 1 {
			t.Errorf("session %s: %d messages are read again, want the first at most", session, n)
		}
	}
}
