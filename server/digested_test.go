package server_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// A turn that is made apart from the end of its exchange takes a commit of its own, and an answer that is read twice takes
// as long as the search for credentials in it.
func TestOrdinaryAnswersAreDigestedWithTheirEndAndReadOnce(t *testing.T) {
	const short, burst = `text "All is well."`, "events 200 ; size 12"
	type digested struct{ withEnd, read bool }
	var h *harness
	seen := make(chan digested, 1)
	h = build(t, func(p *plan) {
		p.store.Digest = func(x *record.Exchange) (record.Digest, error) {
			stored, err := h.store.Archive().Exchange(x.Account, x.ID)
			ended := err == nil && stored.Outcome != record.OutcomeOpen // there may not even be its opening
			seen <- digested{!ended, x.Answer != nil || x.Reader != nil}
			return digest.Exchange(x)
		}
	})
	ask := func(s surface, script string, stream bool) digested {
		if a := h.post(s.path, s.body(script, stream)); a.status != 200 {
			t.Fatalf("%d: %s", a.status, a.body)
		}
		return <-seen
	}
	eventually(t, func() error {
		if !ask(chat, short, false).withEnd {
			return errors.New("the digester is looking for what the last start has left")
		}
		return nil
	})
	crossed := chat
	crossed.model = messages.model
	for _, s := range append(slices.Clone(generating), crossed) {
		if got := ask(s, short, false); !got.withEnd || !got.read {
			t.Errorf("a short answer to %s from %s: %+v", s.name, s.model, got)
		}
		if got := ask(s, burst, true); !got.withEnd || !got.read {
			t.Errorf("a stream to %s from %s: %+v", s.name, s.model, got)
		}
	}
}
