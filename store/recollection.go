package store

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/dgraph-io/badger/v4"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// RecollectionKey identifies a place in a conversation by all text before it.
type RecollectionKey [16]byte

// Recollection is what was recalled at a place in a conversation, or silence. It is decided once, and its text is in
// every later request at the same place. It is erased with the exchange that it was decided for, and with each exchange
// that it quotes.
type Recollection struct {
	Exchange string   `json:"exchange"`
	Text     string   `json:"text,omitempty"` // "": silence
	Quotes   []string `json:"quotes,omitempty"`
	Reason   string   `json:"reason,omitempty"` // of silence
	Coverage float64  `json:"coverage,omitempty"`
	Tokens   int      `json:"tokens,omitempty"`
}

// maxRecollection is the longest text of a recollection, in bytes.
const maxRecollection = 8 << 10

func recollectionKey(account kv.AccountNumber, key RecollectionKey) []byte {
	return append(kv.SpaceKeyOf(kv.SpaceRecollection, account), key[:]...)
}

// quotedKey returns the key that leads from an exchange to a recollection that quotes it.
func quotedKey(account kv.AccountNumber, id kv.ExchangeID, key RecollectionKey) []byte {
	return append(kv.ExchangeKey(kv.SpaceQuoted, account, id), key[:]...)
}

// Recollections returns what was decided at places of an account's conversations, nil for those without a decision.
// They must not be changed.
func (s Notes) Recollections(account string, keys []RecollectionKey) ([]*Recollection, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	found := make([]*Recollection, len(keys))
	missing, erasures := s.recollected.find(number, keys, found)
	if len(missing) == 0 {
		return found, nil
	}
	err = s.view(func(tx *badger.Txn) error {
		for _, i := range missing {
			item, err := tx.Get(recollectionKey(number, keys[i]))
			if errors.Is(err, badger.ErrKeyNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			r := new(Recollection)
			if err := item.Value(func(value []byte) error { return decodeRecord(value, r) }); err != nil {
				return err
			}
			if found[i], err = r.allThere(tx, number); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, kv.StorageError(err, "what was recalled cannot be read; run mneme check")
	}
	for _, i := range missing {
		if found[i] != nil {
			s.recollected.add(number, keys[i], found[i], erasures)
		}
	}
	return found, nil
}

// allThere returns the recollection, or silence if an exchange that it quotes is gone: it may have been erased in the
// very commit that kept the recollection.
func (r *Recollection) allThere(tx *badger.Txn, account kv.AccountNumber) (*Recollection, error) {
	for _, text := range r.Quotes {
		id, _ := kv.ParseExchangeID(text)
		_, err := tx.Get(kv.ExchangeKey(kv.SpaceExchange, account, id))
		if errors.Is(err, badger.ErrKeyNotFound) {
			erased := r.Erased()
			return &erased, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// Erased returns the silence that remains of a recollection when an exchange that it quotes is gone.
func (r *Recollection) Erased() Recollection {
	return Recollection{Exchange: r.Exchange, Reason: reasonErased}
}

// Check returns the fault of a recollection that is to be stored.
func (r *Recollection) Check() error {
	if _, ok := kv.ParseExchangeID(r.Exchange); !ok {
		return codec.Invalid("exchange", "%q is not an exchange id", r.Exchange)
	}
	if len(r.Text) > maxRecollection {
		return codec.Invalid("text", "what is recalled has at most %d bytes", maxRecollection)
	}
	return nil
}

// reasonErased is the reason for silence if the recalled text was erased.
const reasonErased = "erased"

// Recollect stores what was decided at a place, under each of its keys, and returns the valid decision: the first one,
// if there was one before. If a quoted exchange is gone in the meantime, silence is stored, and nothing if the exchange
// itself was erased at a centre. It returns after the commit.
func (s Notes) Recollect(ctx context.Context, account string, keys []RecollectionKey, r Recollection) (*Recollection, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	own, _ := kv.ParseExchangeID(r.Exchange)
	holds := new(Recollection)
	err = s.updateOf(ctx, number, func(g *commitGroup, w *operation) error {
		if first := g.get(recollectionKey(number, keys[0])); first != nil {
			return decodeRecord(first, holds)
		}
		*holds = r
		quoted := make([]kv.ExchangeID, 0, len(r.Quotes)+1)
		for _, text := range r.Quotes {
			id, ok := kv.ParseExchangeID(text)
			if !ok || !g.has(kv.ExchangeKey(kv.SpaceExchange, number, id)) {
				*holds = r.Erased()
				quoted = quoted[:0]
				break
			}
			quoted = append(quoted, id)
		}
		value, err := kv.EncodeRecord(holds)
		if err != nil {
			return err
		}
		for _, key := range keys {
			g.put(w, recollectionKey(number, key), value)
			for _, id := range append(quoted, own) {
				g.put(w, quotedKey(number, id, key), []byte{})
			}
		}
		return nil
	})
	if err != nil {
		return nil, kv.AsStorageError(err, "what was recalled could not be kept")
	}
	return holds, nil
}

// eraseRecollections removes what was recalled for an exchange, and what quotes it. A key that leads to a place may be
// left of an earlier decision there.
func (g *commitGroup) eraseRecollections(w *operation, account kv.AccountNumber, id kv.ExchangeID) {
	g.erased = true // readers forget what they have read
	prefix := kv.ExchangeKey(kv.SpaceQuoted, account, id)
	for item := range kv.Items(g.read(), prefix, nil) {
		key := item.KeyCopy(nil)
		if n := len(prefix); len(key) == n+len(RecollectionKey{}) {
			place := recollectionKey(account, RecollectionKey(key[n:]))
			r := new(Recollection)
			if err := decodeRecord(g.get(place), r); err != nil || r.isOf(id.String()) {
				g.put(w, place, nil)
			}
		}
		g.put(w, key, nil)
	}
}

// isOf reports whether a recollection is erased with an exchange.
func (r *Recollection) isOf(exchange string) bool {
	return r.Exchange == exchange || slices.Contains(r.Quotes, exchange)
}

// RecallInfo is what an exchange's record says about recall.
type RecallInfo struct {
	Exchanges []string `json:"exchanges,omitempty"` // quoted
	Tokens    int      `json:"tokens,omitempty"`
	Coverage  float64  `json:"coverage,omitempty"`
	Reason    string   `json:"reason,omitempty"`   // of silence
	Replayed  int      `json:"replayed,omitempty"` // earlier places of the conversation whose texts were inserted again
}

func (r *RecallInfo) write(w *fieldWriter, field protowire.Number) {
	if r == nil {
		return
	}
	at := w.begin(field)
	w.texts(1, r.Exchanges)
	w.number(2, int64(r.Tokens))
	w.number(3, int64(math.Round(r.Coverage*1000)))
	w.text(4, r.Reason)
	w.number(5, int64(r.Replayed))
	w.end(at)
}

func (r *RecallInfo) readField(f *fieldReader) {
	switch f.field {
	case 1:
		r.Exchanges = append(r.Exchanges, f.string())
	case 2:
		r.Tokens = int(f.number())
	case 3:
		r.Coverage = float64(f.number()) / 1000
	case 4:
		r.Reason = f.string()
	case 5:
		r.Replayed = int(f.number())
	}
}
