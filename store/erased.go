package store

import (
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/shipping"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Data erased by request at a centre has to be erased at its edges too, and must not come back from them. The centre
// keeps a log of erased exchanges, which each edge applies in order and at its own pace. An exchange that began before
// an erasure and arrives after it is checked against the erasure's selection, because an edge may have been
// disconnected: see [shipped.Exchange.MeantBy].

// Erased carries out at an edge what was erased by request at the centre.
type Erased struct{ *core }

// Erased returns the part that propagates erasures through a cluster.
func (s *Store) Erased() Erased { return Erased{s.core} }

// erasedMark is an edge's recorded position in the centre's log.
type erasedMark struct {
	Number   uint64 `json:"number"`
	Exchange []byte `json:"exchange"`
}

var erasedMarkKey = kv.NameKey(kv.SpaceMeta, "erased")

// UpTo returns how far an edge has applied the centre's log.
func (e Erased) UpTo() (mark ship.ErasedMark, err error) {
	err = e.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, erasedMarkKey)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		var noted erasedMark
		if err == nil {
			err = record.Decode(value, &noted)
		}
		mark.Number = noted.Number
		copy(mark.Tail[:], noted.Exchange)
		return err
	})
	if err != nil {
		return mark, kv.StorageError(err, "how far erasures of the centre were carried out cannot be read; run mneme check")
	}
	return mark, nil
}

// Carry erases at an edge what was erased at the centre, and records its position in the log. It returns when nothing
// of it is left here. After an interruption the edge applies the same entries again.
func (e Erased) Carry(ctx context.Context, page []ship.ErasedExchange, upTo ship.ErasedMark) error {
	for account, exchanges := range e.here(page) {
		r, err := e.keeper.Erasures.Begin(ctx, account, record.Selection{Exchanges: exchanges}, record.ErasedByCenter)
		if err != nil {
			return err
		}
		if err := e.untilDone(ctx, account, r.ID); err != nil {
			return err
		}
	}
	value, err := kv.EncodeRecord(erasedMark{upTo.Number, upTo.Tail[:]})
	if err == nil {
		err = e.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
			g.Put(w, erasedMarkKey, value)
			return nil
		})
	}
	if err != nil {
		return kv.AsStorageError(err, "how far erasures of the centre were carried out could not be stored")
	}
	return nil
}

// here returns the exchanges that are in this store, by account.
func (e Erased) here(page []ship.ErasedExchange) map[kv.AccountNumber][]string {
	here := make(map[kv.AccountNumber][]string)
	for _, x := range page {
		number, known := e.accounts.Find(x.Account)
		if _, err := Archive(e).ExchangeInfo(x.Account, x.Exchange); known && codec.AsError(err, "").Kind != codec.KindNotFound {
			here[number] = append(here[number], x.Exchange)
		}
	}
	return here
}

// erasureLook is how often the progress of an erasure is checked.
const erasureLook = 50 * time.Millisecond

func (e Erased) untilDone(ctx context.Context, account kv.AccountNumber, id string) error {
	tick := time.NewTicker(erasureLook)
	defer tick.Stop()
	for {
		r, err := e.keeper.Erasures.Receipt(account, id)
		if err != nil || r.State == record.ErasureDone {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// mostLookedThrough is how many exchanges may wait for the centre before Clean gives up on reading when they began.
const mostLookedThrough = 10_000

// Clean returns a time, now at the latest, before which everything that began at an edge has ended and been confirmed by the
// centre; zero: too much is waiting to tell.
func (e Erased) Clean(now time.Time) (clean time.Time, err error) {
	clean = now
	if e.shipping.Waiting() > mostLookedThrough {
		return time.Time{}, nil
	}
	began := func(id kv.ExchangeID) {
		if at := id.Time().Add(-time.Second); at.Before(clean) { // an id may be later than its exchange
			clean = at
		}
	}
	err = e.db.View(func(tx *badger.Txn) error {
		err := kv.EachItem(context.Background(), tx, []byte{kv.SpaceOpen}, func(item *badger.Item) error {
			if _, first, ok := kv.SplitExchangeKey(item.Key()); ok {
				began(first)
			}
			return nil
		})
		if err != nil {
			return err
		}
		return shipping.Each(context.Background(), tx, func(at kv.ExchangeRef) { began(at.ID) })
	})
	if err != nil {
		return time.Time{}, kv.StorageError(err, "what is open and what is shipped cannot be read; run mneme check")
	}
	return clean, nil
}
