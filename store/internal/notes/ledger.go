package notes

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The ledger keeps what models send with their answers and want back with the next request (signatures, reasoning
// text), for clients whose format has no place for it. It is not part of the record of an exchange. An entry is useful
// while its conversation goes on, and losing one costs the model some reasoning, not the conversation.
//
// An account has a fixed number of slots, and the hash of a name selects one. An entry is lost when another one takes
// its slot, or when it is too old. That bounds the ledger without counting, and makes each access one point read or
// write.
const (
	ledgerSlots = 1 << 14            // per account; far more than the calls in an account's running conversations
	ledgerAge   = 7 * 24 * time.Hour // since it was kept
	ledgerValue = 64 << 10           // bytes of the largest value kept
)

// ledgerHead precedes a value: the time it was kept (milliseconds since 1970), and the hash of its name.
const ledgerHead = 8 + 16

func ledgerHash(name string) (h [16]byte) {
	sum := blake3.Sum256([]byte(name))
	return [16]byte(sum[:16])
}

func ledgerKey(account kv.AccountNumber, h [16]byte) []byte {
	slot := binary.BigEndian.Uint16(h[:2]) % ledgerSlots
	return binary.BigEndian.AppendUint16(kv.SpaceKeyOf(kv.SpaceLedger, account), slot)
}

// Keep stores a value under a name in the account's ledger. It does not wait for the commit; the end of an exchange
// that finishes later is committed with or after it. The value is dropped under pressure and while the store is
// closing, and if it holds a credential: masked, it would be useless to the model.
func (n *Notes) Keep(account, name string, value []byte) {
	number, ok := n.accounts.Find(account)
	if !ok || len(value) == 0 || len(value) > ledgerValue || n.credentials.Redactor(account).Holds(value) {
		return
	}
	h := ledgerHash(name)
	record := make([]byte, 0, ledgerHead+1+len(value))
	record = binary.BigEndian.AppendUint64(record, uint64(time.Now().UnixMilli()))
	record = append(record, h[:]...)
	record = append(record, blob.Encode(value)...)
	n.db.Try(number, func(tx kv.Txn) { tx.Put(ledgerKey(number, h), record) })
}

// Recall returns the value under a name in the account's ledger; nil if there is none.
func (n *Notes) Recall(account, name string) (value []byte) {
	number, ok := n.accounts.Find(account)
	if !ok {
		return nil
	}
	h := ledgerHash(name)
	err := n.db.View(func(tx *badger.Txn) error {
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

// expiredTogether is how many entries are freed in one operation.
const expiredTogether = 1000

// Expire frees entries of an account's ledger that are too old to be recalled.
func (n *Notes) Expire(ctx context.Context, account kv.AccountNumber, now time.Time) error {
	var expired [][]byte
	err := n.db.View(func(tx *badger.Txn) error {
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
		batch := expired[:min(len(expired), expiredTogether)]
		expired = expired[len(batch):]
		err = n.db.Update(ctx, func(tx kv.Txn) error {
			for _, key := range batch {
				if record := tx.Get(key); len(record) >= ledgerHead && ledgerExpired(record, now) {
					tx.Put(key, nil)
				}
			}
			return nil
		})
	}
	return err
}
