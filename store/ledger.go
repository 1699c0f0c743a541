package store

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The ledger keeps what models hand out with their answers and want back with the next request (signatures, reasoning
// text), for clients whose format has no place for it. It is not part of the record of an exchange: an entry is worth
// something for as long as a conversation goes on, and a lost one costs a model some of its thread, not the conversation.
//
// An account has a fixed number of slots, and the hash of a name says which one is its own: an entry goes when another one
// takes its slot, or when it is too old. That bounds the ledger without counting, and makes each access one point read or
// write.
const (
	ledgerSlots = 1 << 14            // per account; far more than the calls of an account's running conversations
	ledgerAge   = 7 * 24 * time.Hour // since it was kept
	ledgerValue = 64 << 10           // bytes of the largest value that is kept
)

// ledgerHead is what stands in front of a value: when it was kept (milliseconds since 1970), and the hash of its name.
const ledgerHead = 8 + 16

func ledgerHash(name string) (h [16]byte) {
	sum := blake3.Sum256([]byte(name))
	return [16]byte(sum[:16])
}

func ledgerKey(account kv.AccountNumber, h [16]byte) []byte {
	slot := binary.BigEndian.Uint16(h[:2]) % ledgerSlots
	return binary.BigEndian.AppendUint16(kv.SpaceKeyOf(kv.SpaceLedger, account), slot)
}

// Keep remembers a value under a name in the account's ledger. It does not wait for the commit; the end of an exchange
// that is finished afterwards is committed after it, or with it. Under pressure, and while the store is closing, the value
// is let go. So is one that holds a credential: masked, it would be of no use to the model.
func (s Notes) Keep(account, name string, value []byte) {
	number, ok := s.accounts.Find(account)
	if !ok || len(value) == 0 || len(value) > ledgerValue || s.credentials.Redactor(account).Holds(value) {
		return
	}
	h := ledgerHash(name)
	record := make([]byte, 0, ledgerHead+1+len(value))
	record = binary.BigEndian.AppendUint64(record, uint64(time.Now().UnixMilli()))
	record = append(record, h[:]...)
	record = append(record, blob.Encode(value)...)
	w := &write{change: func(g *gathering, w *write) error {
		g.put(w, ledgerKey(number, h), record)
		return nil
	}}
	s.planning.RLock() // as in [core.updateOf]
	defer s.planning.RUnlock()
	if now, ok := s.accounts.Find(account); ok && now == number {
		_, _ = s.queue.trySend(w)
	}
}

// Recall gives what was kept under a name in the account's ledger; nil when there is nothing, or nothing any more.
func (s Notes) Recall(account, name string) (value []byte) {
	number, ok := s.accounts.Find(account)
	if !ok {
		return nil
	}
	h := ledgerHash(name)
	err := s.view(func(tx *badger.Txn) error {
		item, err := tx.Get(ledgerKey(number, h))
		if err != nil {
			return err
		}
		return item.Value(func(record []byte) error {
			if len(record) < ledgerHead || [16]byte(record[8:ledgerHead]) != h || ledgerExpired(record, time.Now()) {
				return nil
			}
			value, err = blob.AppendDecoded(nil, record[ledgerHead:])
			return err
		})
	})
	if err != nil {
		return nil
	}
	return value
}

func ledgerExpired(record []byte, now time.Time) bool {
	return now.Sub(time.UnixMilli(int64(binary.BigEndian.Uint64(record)))) > ledgerAge
}

// expireLedger frees what is too old to be recalled.
func (s *core) expireLedger(ctx context.Context, account kv.AccountNumber, now time.Time) error {
	var expired [][]byte
	err := s.view(func(tx *badger.Txn) error {
		return kv.EachItem(ctx, tx, kv.SpaceKeyOf(kv.SpaceLedger, account), func(item *badger.Item) error {
			return item.Value(func(record []byte) error {
				if len(record) < ledgerHead || ledgerExpired(record, now) {
					expired = append(expired, item.KeyCopy(nil))
				}
				return nil
			})
		})
	})
	for len(expired) > 0 && err == nil {
		batch := expired[:min(len(expired), deleteBatch)]
		expired = expired[len(batch):]
		err = s.update(ctx, func(g *gathering, w *write) error {
			for _, key := range batch {
				if record := g.get(key); len(record) >= ledgerHead && ledgerExpired(record, now) {
					g.put(w, key, nil)
				}
			}
			return nil
		})
	}
	return err
}
