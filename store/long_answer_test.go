package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// longAnswer returns an answer of that size that compresses like text.
func longAnswer(size int) []byte {
	words := rand.New(rand.NewPCG(1, 2))
	answer := make([]byte, 0, size+8)
	for len(answer) < size {
		answer = binary.BigEndian.AppendUint16(append(answer, "word "...), uint16(words.UintN(1<<10)))
	}
	return answer[:size]
}

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// An answer of four times the size copies about four times as much, not sixteen times.
func TestReadingAnAnswerIsLinearInItsSize(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	cost := func(size int) (bytesRead, bytesCounted uint64) {
		answer := longAnswer(size)
		id := capture(t, s, "acme", "{}", string(answer))
		bytesRead = allocated(func() {
			x, err := s.Archive().Exchange("acme", id)
			if err != nil || !bytes.Equal(x.RawResponse, answer) {
				t.Fatalf("%v", err)
			}
		})
		key, _ := kv.ParseExchangeID(id)
		bytesCounted = allocated(func() {
			err := s.db.View(func(tx *badger.Txn) error {
				n, err := journal.AnswerSize(context.Background(), tx, 1, key)
				if n != int64(size) {
					t.Errorf("the answer of %d bytes counts as %d", size, n)
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		return bytesRead, bytesCounted
	}
	read, _ := cost(4 << 20)
	longer, counted := cost(16 << 20)
	if longer > 6*read || longer > 3*16<<20 {
		t.Errorf("reading an answer of 4 MiB allocates %d bytes, one of 16 MiB %d", read, longer)
	}
	if counted > 4<<20 {
		t.Errorf("measuring an answer of 16 MiB allocates %d bytes", counted)
	}
}

func TestReadingAnAnswerEndsWithItsContext(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	id, _ := kv.ParseExchangeID(capture(t, s, "acme", "{}", string(longAnswer(1<<20))))
	ctx, cancel := context.WithCancel(context.Background())
	parts := 0
	err := s.db.View(func(tx *badger.Txn) error {
		return journal.EachPart(ctx, tx, 1, id, func(uint32, []byte) error {
			parts++
			cancel()
			return nil
		})
	})
	if !errors.Is(err, context.Canceled) || parts != 1 {
		t.Errorf("%d parts were read, and then %v", parts, err)
	}
}

func TestTheRecordOfAnExchangeIsReadWithoutItsAnswer(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	id := capture(t, s, "acme", "{}", string(longAnswer(8<<20)))
	read := allocated(func() {
		info, err := s.Archive().ExchangeInfo("acme", id)
		if err != nil || info.ID != id || info.ResponseSize != 8<<20 {
			t.Errorf("%+v, %v", info, err)
		}
	})
	if read > 1<<20 {
		t.Errorf("reading the record allocates %d bytes", read)
	}
	_, err := s.Archive().ExchangeInfo("other", id)
	wantKind(t, err, codec.KindNotFound)
}

// An answer is recorded up to a limit; the rest passes unrecorded, and the record says how much that was.
func TestTheRecordOfAnEndlessAnswerIsBounded(t *testing.T) {
	s := openStore(t, Options{AnswerBytes: 1 << 20, Digest: digestTest})
	mustAccount(t, s, "acme")
	answer := longAnswer(3 << 20)
	x, err := s.Archive().Exchange("acme", capture(t, s, "acme", "{}", string(answer)))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x.RawResponse, answer[:1<<20]) || x.ResponseSize != 1<<20 || x.ResponseUnrecorded != 2<<20 {
		t.Errorf("of %d bytes %d are kept; the record says %d, and %d that are not", len(answer), len(x.RawResponse), x.ResponseSize, x.ResponseUnrecorded)
	}
	x, err = s.Archive().Exchange("acme", capture(t, s, "acme", "{}", string(answer[:1<<20])))
	if err != nil || !bytes.Equal(x.RawResponse, answer[:1<<20]) || x.ResponseUnrecorded != 0 {
		t.Errorf("an answer that just fits: %d bytes, %d unrecorded, %v", len(x.RawResponse), x.ResponseUnrecorded, err)
	}
	if report, err := s.Upkeep().Check(context.Background(), false, func(Finding) {}); err != nil || report.Findings > 0 {
		t.Errorf("a check says %+v, %v", report, err)
	}
}

// The digest reads a bounded part of an answer, and the turn says how much was omitted.
func TestTheDigestReadsABoundedPartOfAnAnswer(t *testing.T) {
	read := make(chan int, 2)
	s := openStore(t, Options{Digest: func(x *record.Exchange) (record.Digest, error) {
		read <- len(x.RawResponse)
		begun := *x
		begun.RawResponse = x.RawResponse[:100] // all of it would be encoded once more, as the text of the turn
		return digestTest(&begun)
	}})
	mustAccount(t, s, "acme")
	c := talk{t, s}
	for _, size := range []int{1 << 20, conversation.MostDigested + 1<<20} {
		id := capture(t, s, "acme", `{}`, string(longAnswer(size)))
		c.settle()
		if got, want := <-read, min(size, conversation.MostDigested); got != want {
			t.Errorf("of %d bytes %d are digested, want %d", size, got, want)
		}
		entry, err := s.Feed().TurnAt(1, id)
		if err != nil || entry.Turn == nil {
			t.Fatalf("%+v, %v", entry, err)
		}
		if want := int64(max(size-conversation.MostDigested, 0)); entry.Turn.AnswerUnread != want {
			t.Errorf("of %d bytes %d are unread, says the turn", size, entry.Turn.AnswerUnread)
		}
	}
}

// Closing a store does not wait for an answer that is being read for the digest; the next start continues with it.
func TestClosingDoesNotWaitForALongAnswerToBeRead(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir, Digest: digestTest})
	mustAccount(t, s, "acme")
	id := capture(t, s, "acme", "{}", string(longAnswer(2<<20)))
	(&talk{t, s}).settle()
	s.digester.Stop()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	key, _ := kv.ParseExchangeID(id)
	if err := s.writer.Update(context.Background(), func(g *writing.Group, w *commit.Op) error {
		_, ref := g.Sessions.Belongs(1, key)
		turns.Erase(g, w, ref, key)
		g.Sessions.Changes.NoteEnded(ref, key)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.digester.DigestNext(ctx); err == nil {
		t.Error("an exchange was digested though the digester had been stopped")
	}
	if waiting := s.Stats().Undigested; waiting != 1 {
		t.Errorf("%d wait to be digested", waiting)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir, Digest: digestTest})
	(&talk{t, s}).settle()
	if entry, err := s.Feed().TurnAt(1, id); err != nil || entry.Turn == nil {
		t.Errorf("after the next start the turn is %+v, %v", entry.Turn, err)
	}
}
