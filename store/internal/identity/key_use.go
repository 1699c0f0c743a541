package identity

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// useInterval is how often the use of keys is written: a killed process loses at most that much.
const useInterval = 10 * time.Second

// KeyUse counts the use of a key. It is counted in memory, and written every ten seconds if it has changed, and when
// the store is closed. All methods may be called from any goroutine; those of a nil KeyUse do nothing.
type KeyUse struct {
	minute  atomic.Int64 // of the last use, since 1970; 0: never
	holders atomic.Int32 // holders that keep the key valid beyond its expiry, see [Keys.Hold]; not stored

	mu      sync.Mutex
	month   month
	tokens  int64 // used in month
	changed atomic.Bool
}

// month counts the months of UTC since the year 0.
type month int

func monthOf(t time.Time) month {
	t = t.UTC()
	return month(t.Year()*12 + int(t.Month()) - 1)
}

// begin returns the first moment of the month.
func (m month) begin() time.Time {
	return time.Date(int(m)/12, time.Month(m%12+1), 1, 0, 0, 0, 0, time.UTC)
}

// NextMonth returns when the count of a month's tokens restarts.
func NextMonth(now time.Time) time.Time { return (monthOf(now) + 1).begin() }

// seen records a use to the minute, so that many uses in one minute are written once.
func (u *KeyUse) seen(now time.Time) {
	if minute := now.Unix() / 60; u.minute.Load() != minute {
		u.minute.Store(minute)
		u.changed.Store(true)
	}
}

// AddTokens counts tokens that were used at the time now.
func (u *KeyUse) AddTokens(now time.Time, n int64) {
	if u == nil || n <= 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if m := monthOf(now); u.month != m {
		u.month, u.tokens = m, 0
	}
	u.tokens = codec.AddCounts(u.tokens, n)
	u.changed.Store(true)
}

// Tokens returns how many were used in the month of now.
func (u *KeyUse) Tokens(now time.Time) int64 {
	if u == nil {
		return 0
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.month != monthOf(now) {
		return 0
	}
	return u.tokens
}

// useRecord is the stored form of a [KeyUse].
type useRecord struct {
	LastUsed time.Time `json:"last_used,omitzero"` // to the minute
	Month    string    `json:"month,omitempty"`    // of UTC, "2006-01"
	Tokens   int64     `json:"tokens,omitempty"`   // used in Month
}

const monthFormat = "2006-01"

func (u *KeyUse) record() useRecord {
	u.mu.Lock()
	defer u.mu.Unlock()
	r := useRecord{LastUsed: u.lastUsed(), Tokens: u.tokens}
	if u.tokens > 0 {
		r.Month = u.month.begin().Format(monthFormat)
	}
	return r
}

func (u *KeyUse) lastUsed() time.Time {
	minute := u.minute.Load()
	if minute == 0 {
		return time.Time{}
	}
	return time.Unix(minute*60, 0).UTC()
}

func newKeyUse(r useRecord) *KeyUse {
	u := &KeyUse{tokens: r.Tokens}
	if !r.LastUsed.IsZero() {
		u.minute.Store(r.LastUsed.Unix() / 60)
	}
	if t, err := time.Parse(monthFormat, r.Month); err == nil {
		u.month = monthOf(t)
	}
	return u
}

func loadUses(db kv.DB) (map[string]*KeyUse, error) {
	uses := make(map[string]*KeyUse)
	err := kv.EachRecord(db, []byte{kv.SpaceKeyUse}, func(key, value []byte) error {
		var r useRecord
		if kv.DecodeRecord(value, &r) == nil { // otherwise it starts at zero: a lost count must not keep the store from opening
			uses[string(key[1:])] = newKeyUse(r)
		}
		return nil
	})
	return uses, err
}

// useWriter is the goroutine that writes the use of keys.
type useWriter struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Start starts to write the use of keys, until [KeyTable.Stop].
func (t *KeyTable) Start() {
	u := &t.writer
	var ctx context.Context
	ctx, u.cancel = context.WithCancel(context.Background())
	u.done = make(chan struct{})
	go func() {
		defer close(u.done)
		tick := time.NewTicker(useInterval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				t.writeUses()
				return
			case <-tick.C:
				t.writeUses()
			}
		}
	}()
}

// Stop writes pending changes and ends the goroutine.
func (t *KeyTable) Stop() {
	t.writer.cancel()
	<-t.writer.done
}

// writeUses writes the use of every key that has changed. After an error it is retried with the next change.
func (t *KeyTable) writeUses() { t.putUses(t.changedUses()) }

func (t *KeyTable) putUses(changed map[string]*KeyUse) {
	if len(changed) == 0 {
		return
	}
	err := t.db.Update(context.Background(), func(tx kv.Txn) error {
		for id, use := range changed {
			if !t.owned(id) { // deleted with its account in the meantime
				continue
			}
			value, err := kv.EncodeRecord(use.record())
			if err != nil {
				return err
			}
			tx.Put(kv.NameKey(kv.SpaceKeyUse, id), value)
		}
		return nil
	})
	if err != nil {
		t.log.Error("the use of service keys could not be written; it is tried again", "error", err)
		for _, use := range changed {
			use.changed.Store(true)
		}
	}
}

// owned reports whether the key and its account still exist.
func (t *KeyTable) owned(key string) bool {
	t.mu.RLock()
	k, ok := t.byID[key]
	t.mu.RUnlock()
	if ok {
		_, ok = t.accounts.Find(k.Account)
	}
	return ok
}

// changedUses returns the uses to be written, and marks them as written.
func (t *KeyTable) changedUses() map[string]*KeyUse {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var changed map[string]*KeyUse
	for id, k := range t.byID {
		if k.use.changed.Swap(false) {
			if changed == nil {
				changed = make(map[string]*KeyUse)
			}
			changed[id] = k.use
		}
	}
	return changed
}
