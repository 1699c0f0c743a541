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
