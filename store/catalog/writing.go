package catalog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// mostBegun is the age at which an unfinished pack is deleted. This is how long a killed centre can delay the receipt
// of an erasure. By then nobody writes the pack any more: a write must begin within mostWriting of that time (48 s),
// and package pack limits it to one minute.
const (
	mostBegun   = 2 * time.Minute
	mostWriting = 2. / 5

	writtenAtOnce = 16 // packs of several accounts
)

// writings are the places for new values, by account.
type writings map[record.AccountNumber]*writing

// writing stores the values of a transaction in a pack; without a bucket, in its rows.
type writing struct {
	packs   *pack.Packs // nil: there is no bucket
	account record.AccountNumber

	pack      pack.ID
	until     time.Time // deadline for starting to write the pack
	builder   *pack.Builder
	attempted bool // the pack may be in the bucket
	written   bool // it is there
}

// add adds a value, and returns how a row is to store it.
func (w *writing) add(name, value []byte) kept {
	if w.packs == nil {
		return kept{value: value}
	}
	at, size := w.builder.Add(name, value)
	w.packs.Remember(w.account, w.pack, at, bytes.Clone(value))
	return w.place(at, size)
}

// place returns a range of the pack as stored in a row.
func (w *writing) place(at, size int) kept {
	id, from, length := int64(w.pack), int32(at), int32(size)
	return kept{pack: &id, at: &from, size: &length}
}

var errLate = errors.New("the pack was begun too long ago")

// write writes the packs that have something in them. It must be called before the rows that reference them are committed.
func (to writings) write(ctx context.Context, tx pgx.Tx) error {
	var accounts, packs, sizes []int64
	writes, writing := errgroup.WithContext(ctx)
	writes.SetLimit(writtenAtOnce)
	for account, w := range to {
		if w.packs == nil || w.builder.Empty() {
			continue
		}
		accounts, packs, sizes = append(accounts, int64(account)), append(packs, int64(w.pack)), append(sizes, int64(len(w.builder.Content())))
		writes.Go(func() error {
			if time.Now().After(w.until) {
				return errLate
			}
			w.attempted = true
			err := w.packs.Put(writing, account, w.pack, w.builder.Content())
			w.written = err == nil
			return err
		})
	}
	if err := writes.Wait(); err != nil || len(packs) == 0 {
		return err
	}
	done, err := tx.Exec(ctx, `update packs p set state = 'kept', size = w.size from unnest($1::bigint[], $2::bigint[], $3::bigint[]) w (account, pack, size)
		where p.account = w.account and p.pack = w.pack and p.state = 'begun'`, accounts, packs, sizes)
	if err == nil && done.RowsAffected() < int64(len(packs)) {
		err = errLate
	}
	return err
}

// begin records the packs of a transaction first, so that the database knows every pack that may be in the bucket.
func (c *database) begin(ctx context.Context, accounts []record.AccountNumber) (writings, error) {
	to := make(writings)
	var numbers, packs []int64
	for _, account := range accounts {
		if to[account] != nil {
			continue
		}
		w := &writing{packs: c.Packs, account: account, pack: pack.NewID(), until: time.Now().Add(time.Duration(float64(c.Abandoned) * mostWriting))}
		if to[account] = w; c.Packs != nil {
			w.builder = pack.NewBuilder(account)
			numbers, packs = append(numbers, int64(account)), append(packs, int64(w.pack))
		}
	}
	if len(packs) == 0 {
		return to, nil
	}
	if _, err := c.pool.Exec(ctx, "insert into packs (account, pack) select * from unnest($1::bigint[], $2::bigint[])", numbers, packs); err != nil {
		c.leave(ctx, to, err) // they may be recorded, with the answer lost
		return nil, fmt.Errorf("begin packs: %w", err)
	}
	return to, nil
}

// leavingTime bounds the time for which an ended transaction holds up the end of its process.
const leavingTime = 5 * time.Second

// leave forgets the packs that no row references after a transaction, also if this process is being stopped: erasures
// wait for packs that were begun before them. A pack that was written for a failed transaction is left to be deleted.
// One that may be written yet stays begun.
func (c *database) leave(ctx context.Context, to writings, failed error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leavingTime)
	defer cancel()
	forget := func(which func(*writing) bool, statement string) {
		var numbers, packs []int64
		for _, w := range to {
			if w.packs != nil && which(w) {
				numbers, packs = append(numbers, int64(w.account)), append(packs, int64(w.pack))
			}
		}
		if len(packs) == 0 {
			return
		}
		// If this fails, they are deleted like those of a process that was killed. If the transaction has been committed
		// after all, they are not begun any more.
		_, _ = c.pool.Exec(ctx, statement+` unnest($1::bigint[], $2::bigint[]) d (account, pack)
			where p.account = d.account and p.pack = d.pack and p.state = 'begun'`, numbers, packs)
	}
	forget(func(w *writing) bool { return !w.attempted }, "delete from packs p using")
	forget(func(w *writing) bool { return w.written && failed != nil }, "update packs p set state = 'going' from")
}

// arrival stores entries in a transaction.
type arrival struct {
	*database
	tx    pgx.Tx
	to    writings
	alone bool // nothing else arrives in its accounts from its beginning on; otherwise from when their packs are written
}

// arrive runs a transaction that stores entries, and repeats it after a conflict, each time with new packs. Without a bucket, and
// if packs were written for nothing, nothing else arrives in its accounts from its beginning on.
func (c *database) arrive(ctx context.Context, entries []ship.Entry, change func(*arrival) error) error {
	var accounts []record.AccountNumber
	for i := range entries {
		number, err := c.accounts.Number(entries[i].Account)
		if err != nil {
			if err := c.accounts.read(ctx, c); err != nil { // the account may have been created a moment ago
				return err
			}
			number, err = c.accounts.Number(entries[i].Account)
		}
		if err == nil {
			accounts = append(accounts, number)
		}
	}
	alone := c.Packs == nil
	return again(ctx, func() error {
		to, err := c.begin(ctx, accounts)
		if err != nil {
			return err
		}
		err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error { return change(&arrival{c, tx, to, alone}) })
		c.leave(ctx, to, err)
		alone = alone || errors.Is(err, errChanged)
		return err
	})
}
