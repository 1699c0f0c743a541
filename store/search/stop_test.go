package search

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/internal/contexttest"
	"github.com/mnemeproxy/mneme/store/record"
)

// openUnkept opens a store of so many turns, each of a session of its own, and an index without its goroutines that has
// seen none of them.
func openUnkept(t *testing.T, turns int, e Embedder) *Index {
	t.Helper()
	dir := t.TempDir()
	st, err := store.Open(store.Options{Dir: dir, MinFreeDisk: -1, Digest: readScript})
	if err != nil {
		t.Fatal(err)
	}
	x := newIndex(st, Options{Dir: filepath.Join(dir, "index"), Embedder: e})
	t.Cleanup(func() {
		close(x.done)
		if x.vectors != nil {
			close(x.vectors.done)
		}
		if err := errors.Join(x.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	if _, err = st.Accounts().Create("acme"); err == nil {
		err = x.follow(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	x.open(t.Context())
	close(x.opened)
	for i := range turns {
		_, err := captureScript(st, "acme", talk(fmt.Sprintf("question %d", i), "answer"), func(o *record.Opening) { o.ChatKey = fmt.Sprint(i) })
		if err != nil {
			t.Fatal(err)
		}
	}
	return x
}

// stopAnywhere stops a step at each look at its context, until it comes to its end with as many looks as it has things to do.
func stopAnywhere(t *testing.T, things int, step func(context.Context) (int, error)) {
	t.Helper()
	for look := 1; ; look++ {
		ctx := contexttest.EndingAt(look)
		done, err := step(ctx)
		if err == nil {
			if done < things || ctx.Looks() < things {
				t.Errorf("at the end it has done %d of %d, with %d looks", done, things, ctx.Looks())
			}
			return
		}
		if ctx.Looks() > look+onTheWayOut {
			t.Errorf("stopped at look %d, it has looked %d times", look, ctx.Looks())
		}
	}
}

const (
	stopped     = 40 // things that a stage is stopped at
	onTheWayOut = 2  // looks of callers, which tell the end of the context from a failure
)

func TestTheStageOfWordsStopsBetweenTwoTurns(t *testing.T) {
	x := openUnkept(t, stopped, nil)
	stopAnywhere(t, stopped, func(ctx context.Context) (int, error) {
		taken, _, err := x.takeUp(ctx)
		return taken, err
	})
}

func TestTheStageOfSessionsStopsBetweenTwoOfThem(t *testing.T) {
	x := openUnkept(t, stopped, nil)
	sessions, err := x.store.Archive().Sessions("acme", record.SessionQuery{Limit: stopped})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sessions.Data {
		title := "a title"
		if _, err := x.store.Archive().DescribeSession("acme", s.ID, record.Description{Title: &title}); err != nil {
			t.Fatal(err)
		}
	}
	stopAnywhere(t, stopped, x.takeUpSessions)
}

// A batch of texts that the embedder refuses is divided, so that one costs many calls.
func TestTheStageOfVectorsStopsBetweenTwoCalls(t *testing.T) {
	e := newSpeaker("refuses", 64)
	x := openUnkept(t, stopped, e)
	for taken := 1; taken > 0; {
		var err error
		if taken, _, err = x.takeUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.vectors.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for last, calls := 1, 1; calls >= last; last++ {
		ctx, stop := context.WithCancel(t.Context())
		calls = 0
		e.failing(func(string, Use, []string) error {
			if calls++; calls == last {
				stop()
			}
			return codec.Errorf(codec.KindInvalidRequest, "not this text")
		})
		worked, err := x.vectors.backfill(ctx)
		stop()
		switch {
		case calls > last:
			t.Errorf("stopped in call %d, it has made %d", last, calls)
		case calls < last && (err != nil || !worked):
			t.Errorf("it has not come to its end: %v", err)
		}
	}
}
