package store

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// A check finds whatever is wrong with the log of changes, with what stages have put aside and with their cursors, and an exchange
// that no stage knows of. What a repair can put right is sound after it.
func TestACheckFindsWhatIsWrongWithTheFeed(t *testing.T) {
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
	for name, c := range map[string]struct {
		plant   func(last uint64, exchange kv.ExchangeID) commit.Entry
		problem string
		next    bool // the next start corrects it
	}{
		"a key that is cut off": {plant: func(uint64, kv.ExchangeID) commit.Entry {
			return entryOf([]byte{kv.SpaceChange, feed.Logged, 1}, make([]byte, feed.ChangeSize))
		}, problem: "malformed key"},
		"an unknown stage": {plant: func(uint64, kv.ExchangeID) commit.Entry {
			return entryOf(feed.Key('q', 1), make([]byte, feed.AsideSize))
		}, problem: "malformed key"},
		"half an entry": {plant: func(uint64, kv.ExchangeID) commit.Entry {
			return entryOf(feed.Key(feed.Logged, 1), make([]byte, feed.ChangeSize/2))
		}, problem: "record e 1 has 18 bytes, which is not a multiple of 36"},
		"nothing put aside": {plant: func(uint64, kv.ExchangeID) commit.Entry {
			return entryOf(feed.Key(byte(StageWords), 1), []byte{})
		}, problem: "record l 1 has 0 bytes"},
		"records that overlap": {plant: func(last uint64, _ kv.ExchangeID) commit.Entry {
			return entryOf(feed.Key(feed.Logged, last), make([]byte, int(last+1)*feed.ChangeSize))
		}, problem: "and the one before ends with"},
		"a number that was not given out": {plant: func(last uint64, _ kv.ExchangeID) commit.Entry {
			return entryOf(feed.Key(feed.Logged, last+1), make([]byte, feed.ChangeSize))
		}, problem: "and the last number given out is", next: true},
		"a cursor that is cut off": {plant: func(uint64, kv.ExchangeID) commit.Entry {
			return entryOf(feed.Cursor(StageWords, 0).Key, []byte{1, 2, 3})
		}, problem: "the cursor of stage l has 3 bytes"},
		"a cursor of no stage": {plant: func(uint64, kv.ExchangeID) commit.Entry {
			return entryOf(feed.Cursor('q', 0).Key, number(1))
		}, problem: `a cursor of "q"`},
		"a cursor behind the end": {plant: func(last uint64, _ kv.ExchangeID) commit.Entry {
			return entryOf(feed.Cursor(StageSessions, 0).Key, number(last+1))
		}, problem: "the cursor of stage s is at", next: true},
		"an exchange that is never digested": {plant: func(_ uint64, exchange kv.ExchangeID) commit.Entry {
			return entryOf(kv.ExchangeKey(kv.SpaceTurn, 1, exchange), nil)
		}, problem: "it has no turn, and does not wait for one"},
	} {
		t.Run(name, func(t *testing.T) {
			opts := Options{Dir: t.TempDir(), Digest: digestTest}
			x := beganToDigest(t, opts)
			x.follow(StageWords, StageSessions)
			id, _ := x.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
			x.do(StageWords)
			x.do(StageSessions)
			mustBeSound(t, x.s)
			exchange, _ := kv.ParseExchangeID(id)
			err := x.s.db.Update(func(tx *badger.Txn) error {
				r := c.plant(x.s.Feed().Last(), exchange)
				if r.Value == nil {
					return tx.Delete(r.Key)
				}
				return tx.Set(r.Key, r.Value)
			})
			if err != nil {
				t.Fatal(err)
			}
			var found []Finding
			for _, repair := range []bool{false, true} {
				found = nil
				if _, err := x.s.Upkeep().Check(t.Context(), repair, func(f Finding) { found = append(found, f) }); err != nil {
					t.Fatal(err)
				}
				if len(found) != 1 || !strings.Contains(found[0].Problem, c.problem) || found[0].Repaired != (repair && !c.next) {
					t.Fatalf("with repair %v a check finds %+v, want: %s", repair, found, c.problem)
				}
			}
			if c.next {
				x.reopen(opts)
			}
			x.settle()
			mustBeSound(t, x.s)
			if entry, err := x.s.Feed().TurnAt(1, id); err != nil || entry.Turn == nil {
				t.Errorf("the turn is %+v, %v", entry.Turn, err)
			}
		})
	}
}

// A file that is lost may hold a session together with turns of it. One repair brings back both.
func TestACheckFindsTheMissingTurnsOfALostSession(t *testing.T) {
	opts := Options{Dir: t.TempDir(), Digest: digestTest}
	x := beganToDigest(t, opts)
	x.follow(StageWords, StageSessions)
	id, session := x.exchange(say("where is the lock taken?"), record.OutcomeComplete, "in pkg/lock")
	x.do(StageWords)
	x.do(StageSessions)
	mustBeSound(t, x.s)
	exchange, _ := kv.ParseExchangeID(id)
	of, _ := kv.ParseSessionID(session)
	err := x.s.db.Update(func(tx *badger.Txn) error {
		return errors.Join(tx.Delete(kv.SessionKey(1, of)), tx.Delete(kv.ExchangeKey(kv.SpaceTurn, 1, exchange)))
	})
	if err != nil {
		t.Fatal(err)
	}
	x.reopen(opts)
	for _, repair := range []bool{false, true} {
		found := make(map[string][]string)
		if _, err := x.s.Upkeep().Check(t.Context(), repair, func(f Finding) {
			if found[f.Subject] = append(found[f.Subject], f.Problem); f.Repaired != repair {
				t.Errorf("with repair %v: %+v", repair, f)
			}
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(found[id], "it has no turn, and does not wait for one") || !slices.Contains(found[session], "1 exchanges belong to it, and it does not exist") {
			t.Errorf("with repair %v a check finds %q", repair, found)
		}
	}
	x.settle()
	mustBeSound(t, x.s)
	if entry, err := x.s.Feed().TurnAt(1, id); err != nil || entry.Turn == nil {
		t.Errorf("the turn is %+v, %v", entry.Turn, err)
	}
}

func entryOf(key, value []byte) commit.Entry { return commit.Entry{Key: key, Value: value} }
