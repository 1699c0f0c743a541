package journal

import (
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// clockSlack is how far the clock may have been set back without an exchange escaping a walk that ends early. The next
// walk of retention finds the ones that escape.
const clockSlack = 24 * time.Hour

// Selected is a selected exchange.
type Selected struct {
	ID      kv.ExchangeID
	Info    *record.ExchangeInfo
	Damaged error // the record is unreadable, and Info holds only what the id says
}

// Open reports whether the exchange is still running.
func (x *Selected) Open(tx *badger.Txn, account kv.AccountNumber) (bool, error) {
	if x.Damaged == nil {
		return x.Info.Outcome == record.OutcomeOpen, nil
	}
	return NotedOpen(tx, account, x.ID)
}

// EachSelected visits the selected exchanges of an account. An exchange named twice may be visited twice. If its record
// is unreadable, its id says when it began, and it matches no key or other filter. With inOrder the visit ends clockSlack
// after Until: ids say, within that, when exchanges began.
func EachSelected(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, sel *record.Selection, inOrder bool, visit func(Selected) error) error {
	one := func(id kv.ExchangeID) error {
		info, err := Info(tx, account, id)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			info = &record.ExchangeInfo{ID: id.String(), Started: id.Time()}
		}
		if !sel.Matches(info) {
			return nil
		}
		return visit(Selected{id, info, err})
	}
	last := func(item *badger.Item) error {
		return one(kv.ExchangeID(item.Key()[len(item.Key())-len(kv.ExchangeID{}):]))
	}
	for _, text := range sel.Exchanges {
		id, _ := kv.ParseExchangeID(text)
		if err := one(id); err != nil {
			return err
		}
	}
	for _, text := range sel.Sessions {
		id, _ := kv.ParseSessionID(text)
		if err := kv.EachItem(ctx, tx, kv.MemberPrefix(account, id), last); err != nil {
			return err
		}
	}
	if len(sel.Exchanges)+len(sel.Sessions) > 0 {
		return nil
	}
	end := sel.Until.Add(clockSlack)
	var from []byte
	if after, ok := kv.ParseExchangeID(sel.After); ok {
		from = kv.ExchangeKey(kv.SpaceExchange, account, after)
	}
	for item := range kv.Items(tx, kv.SpaceKeyOf(kv.SpaceExchange, account), from) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, id, ok := kv.SplitExchangeKey(item.Key()); ok && inOrder && !sel.Until.IsZero() && id.Time().After(end) {
			return nil
		}
		if err := last(item); errors.Is(err, kv.ErrEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}
