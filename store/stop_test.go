package store

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/store/internal/contexttest"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/record"
)

// A stage that is stopped only finishes its present work, whatever is waiting.

func TestTheDigesterStopsBetweenTwoExchanges(t *testing.T) {
	const waiting = 20
	var digested atomic.Int64
	s := openAlone(t, Options{Dir: t.TempDir(), Digest: func(x *record.Exchange) (record.Digest, error) {
		digested.Add(1)
		return digestTest(x)
	}})
	go s.writer.Run()
	t.Cleanup(func() {
		s.writer.Close()
	})
	st := &Store{s}
	mustAccount(t, st, "acme")
	for range waiting {
		capture(t, st, "acme", "q", strings.Repeat("more than is digested at once ", turns.ReadAtOnce/10))
	}
	if err := s.feed.FollowDigests(t.Context()); err != nil {
		t.Fatal(err)
	}
	for look := 1; ; look++ {
		before := digested.Load()
		ctx := contexttest.EndingAt(look)
		_, err := s.digester.DigestNext(ctx)
		done := digested.Load() - before
		if done > int64(look) {
			t.Errorf("stopped at look %d, it has digested %d exchanges", look, done)
		}
		if err == nil {
			break
		}
	}
	if turns := count(t, st, kv.SpaceTurn); turns != waiting {
		t.Errorf("there are %d turns", turns)
	}
}

func TestShippingStopsBetweenTwoExchanges(t *testing.T) {
	const waiting = 50
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	p := beginShipping(t, s)
	for range waiting {
		capture(t, s, "acme", "q", "a")
	}
	for look := 1; ; look++ {
		ctx := contexttest.EndingAt(look)
		f, err := p.Next(ctx, 0)
		if err == nil {
			if len(f.Entries) != waiting || ctx.Looks() < waiting {
				t.Errorf("at the end a frame has %d of %d exchanges, with %d looks", len(f.Entries), waiting, ctx.Looks())
			}
			return
		}
		if ctx.Looks() != look {
			t.Errorf("stopped at look %d, it has looked %d times", look, ctx.Looks())
		}
	}
}
