package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// rollupCheck compares the rollups of an account with its exchanges, hour by hour.
type rollupCheck struct {
	hours map[int64]*checkedHour
}

type checkedHour struct {
	made, erased, there record.Rollup
	rows                map[string]*record.Rollup // the expected rollups, if nothing was erased
	stored              [][]byte                  // keys of the stored ones
	unknown             bool                      // an exchange, or a rollup, cannot be read
	imported            bool                      // some of them were imported
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

func (c *rollupCheck) hour(hour int64) *checkedHour {
	h := c.hours[hour]
	if h == nil {
		h = &checkedHour{rows: make(map[string]*record.Rollup)}
		c.hours[hour] = h
	}
	return h
}

// add adds an ended exchange.
func (c *rollupCheck) add(account kv.AccountNumber, info *record.ExchangeInfo) {
	h, r := c.hour(hourOf(info.Started)), conversation.RollupOf(info)
	h.there.Add(&r)
	key := string(record.AppendRollupKey(nil, account, info))
	if row := h.rows[key]; row != nil {
		row.Add(&r)
		return
	}
	h.rows[key] = &r
}

// rollup adds a stored rollup.
func (c *checker) rollup(item *badger.Item) error {
	of, kind, ok := record.SplitRollupKey(item.Key())
	if !ok {
		c.find("usage", fmt.Sprintf("malformed key %x", item.Key()), drop(item.KeyCopy(nil)))
		return nil
	}
	h := c.rollups.hour(hourOf(of.Hour))
	return item.Value(func(value []byte) error {
		r, err := record.DecodeRollup(value)
		switch {
		case err != nil:
			h.made.Requests = -1 // makes the comparison fail
		case kind == record.RollupErased:
			h.erased.Add(&r)
			return nil
		default:
			h.imported = h.imported || of.KeyID == record.ImportedKey
			r.Forget(&of)
			h.made.Add(&r)
		}
		h.stored = append(h.stored, item.KeyCopy(nil))
		return nil
	})
}

// compareRollups finds the hours whose rollups do not add up to the existing and the erased exchanges.
func (c *checker) compareRollups() {
	for _, number := range slices.Sorted(maps.Keys(c.rollups.hours)) {
		h, hour := c.rollups.hours[number], time.Unix(number*3600, 0).UTC()
		if h.unknown {
			continue
		}
		want := h.there
		want.Add(&h.erased)
		if h.imported && h.erased.Requests > 0 { // earlier versions counted the times of imported ones that were erased
			want.FirstByte = h.made.FirstByte
		}
		if sameRollup(&want, &h.made) {
			continue
		}
		c.find("usage of "+hour.Format("2006-01-02 15:04"), fmt.Sprintf("%d exchanges for %v USD are rolled up, and there are, with those erased, %d for %v USD",
			h.made.Requests, h.made.Cost.USD, want.Requests, want.Cost.USD), h.fixes()...)
	}
}

func sameRollup(a, b *record.Rollup) bool {
	x, y := a.Numbers(), b.Numbers()
	for i := range x {
		if *x[i] != *y[i] {
			return false
		}
	}
	return a.FirstByte == b.FirstByte
}

// fixes rolls up the hour again. That is impossible with erased exchanges, whose owners are unknown.
func (h *checkedHour) fixes() (fixes []fix) {
	if h.erased.Requests > 0 {
		return nil
	}
	for _, key := range h.stored {
		if h.rows[string(key)] == nil {
			fixes = append(fixes, drop(key))
		}
	}
	for key, r := range h.rows {
		fixes = append(fixes, fix{Entry: put([]byte(key), r.Encode())})
	}
	return fixes
}
