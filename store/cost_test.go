package store

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/record"
)

// What an exchange writes is most of what its record costs. Entries of the database are counted as often as they were
// put or deleted, from the opening to the digest.
func TestASmallExchangeWritesFewEntries(t *testing.T) {
	c := newConversation(t)
	c.idle()
	before := entries(t, c.s)
	const exchanges = 50
	for n := range exchanges {
		question := fmt.Sprintf("question %d", n)
		c.exchange(derived(say(question), question), record.OutcomeComplete, "in pkg/lock")
		c.idle()
	}
	written := entries(t, c.s)
	total := 0
	for kind := range written {
		written[kind] -= before[kind]
		total += written[kind]
	}
	// x, q, o, s, t, g, and l of the opening when it begins; x, o, h, u, c and i when it ends.
	// Each of the two commits also marks itself. Of several at a time one has o, i and marks for all of them.
	if total > 16*exchanges {
		t.Errorf("%d exchanges wrote %d entries: %v", exchanges, total, written)
	}
}

// One at a time they take 263, in larger groups 190: each of two commits has its own. Half of all are the database's.
func TestASmallExchangeAllocatesLittle(t *testing.T) {
	c, o := newConversation(t), say("where is the lock")
	o.ChatKey, o.Header = "chat-1", []record.HeaderField{{Name: "User-Agent", Value: "test/1"}}
	ctx, answer := context.Background(), []byte("in pkg/lock")
	got := testing.AllocsPerRun(200, func() {
		capture, err := c.s.Begin(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = capture.Write(answer)
		if err := errors.Join(capture.Recorded(ctx), capture.Finish(&record.Closing{Outcome: record.OutcomeComplete})); err != nil {
			t.Fatal(err)
		}
	})
	if got > 285 {
		t.Errorf("%v allocations", got)
	}
}

// entries counts what was written by its kind, in all versions.
func entries(t *testing.T, s *Store) map[string]int {
	t.Helper()
	count := make(map[string]int)
	err := s.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{AllVersions: true})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			count[string(it.Item().Key()[:1])]++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}
