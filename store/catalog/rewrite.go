package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/record"
)

// Packs smaller than smallPack bytes are joined when an account has manySmall of them. Packs that are rewritten
// together have at most rewrittenBytes; a single one may have more.
const (
	smallPack      = 1 << 20
	manySmall      = 32
	rewrittenBytes = 16 << 20
)

// removedAtOnce is how many packs are deleted before the database is asked for more.
const removedAtOnce = 100

// clean removes from the bucket what an erasure has freed, and counts the packs in its receipt. done is false while
// erased data may be in a pack that is not written yet, or that a centre ended without finishing: such a pack is
// deleted after Abandoned.
func (c *database) clean(ctx context.Context, account record.AccountNumber, e *record.Erasure) (done bool, err error) {
	count := func(tx pgx.Tx, packs int) error {
		receipt, err := lockErasure(ctx, tx, account, e.ID)
		if err != nil || receipt == nil {
			return err
		}
		receipt.Packs += int64(packs)
		return putReceipt(ctx, tx, account, receipt, false)
	}
	const stale = "select account, array_agg(pack order by pack) from packs where account = $1 and stale and state = 'kept' group by account"
	for some := int64(account); some != 0; {
		if some, err = c.rewriteSome(ctx, stale, count, int64(account)); err != nil {
			return false, err
		}
	}
	// A begun pack may become one to delete at any time, so this asks for begun ones before it deletes the others.
	err = c.pool.QueryRow(ctx, "select not exists (select from packs where account = $1 and state = 'begun' and began < $2)", int64(account), e.Created).Scan(&done)
	if err == nil {
		err = c.remove(ctx, int64(account))
	}
	return done && err == nil, err
}

// tidySome deletes packs that are not needed any more, and joins small ones. Packs with erased data are left to the
// erasure. An account whose packs cannot be read or deleted at present holds up no other one; the error is returned once no other
// account has anything to join.
func (c *database) tidySome(ctx context.Context) (more bool, err error) {
	_, err = c.pool.Exec(ctx, "update packs set state = 'going' where state = 'begun' and began < now() - make_interval(secs => $1)", c.Abandoned.Seconds())
	if err != nil {
		return false, err
	}
	failed := c.remove(ctx, 0)
	held := []int64{} // accounts that failed; never null
	for ctx.Err() == nil {
		account, err := c.rewriteSome(ctx, `select account, array_agg(pack order by pack) from packs
			where state = 'kept' and not stale and size < $1 and account <> all($3)
			group by account having count(*) >= $2 limit 1`, nil, smallPack, manySmall, held)
		if account == 0 || err == nil {
			return account != 0, cmp.Or(err, failed)
		}
		failed = cmp.Or(failed, fmt.Errorf("account %s: %w", c.accounts.nameOf(record.AccountNumber(account)), err))
		held = append(held, account)
	}
	return false, ctx.Err()
}

// rewriteSome copies what is still referenced in packs into a new one. choose is a query for an account and its packs,
// of which it takes as many as fit into one; it returns that account, 0 if there is none. count is called in the transaction, with
// the number of rewritten packs.
func (c *database) rewriteSome(ctx context.Context, choose string, count func(pgx.Tx, int) error, arguments ...any) (of int64, err error) {
	var packs []int64
	err = unlessMissing(c.pool.QueryRow(ctx, choose, arguments...).Scan(&of, &packs))
	if err != nil || of == 0 {
		return 0, err
	}
	account := record.AccountNumber(of)
	err = again(ctx, func() error {
		to, err := c.begin(ctx, []record.AccountNumber{account})
		if err != nil {
			return err
		}
		err = pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error { return c.rewrite(ctx, tx, to[account], packs, count) })
		c.leave(ctx, to, err)
		return err
	})
	if err == nil {
		c.tidying.Notify()
	}
	return of, err
}

func (c *database) rewrite(ctx context.Context, tx pgx.Tx, to *writing, packs []int64, count func(pgx.Tx, int) error) error {
	if err := holdPacks(ctx, tx, to.account); err != nil {
		return err
	}
	old, err := fitting(ctx, tx, to.account, packs)
	if err != nil || len(old) == 0 {
		return err
	}
	entries, err := named(ctx, tx, to.account, old)
	if err != nil {
		return err
	}
	records, err := c.Packs.Records(ctx, to.account, entries)
	if err != nil {
		return err
	}
	lost := make(map[pack.ID]bool)
	var moved [][]byte
	var how columns
	for i, stored := range records {
		if stored == nil { // its rows stay, since the pack may be restored
			lost[entries[i].Pack] = true
			continue
		}
		moved = append(moved, entries[i].Name)
		how.add(to.place(to.builder.AddRecord(stored)))
	}
	var gone, missing []int64
	for _, id := range old {
		if lost[pack.ID(id)] {
			missing = append(missing, id)
			c.Log.Error("a pack is not in the bucket; its content cannot be read", "account", to.account, "pack", pack.ID(id))
			continue
		}
		gone = append(gone, id)
	}
	if err := (writings{to.account: to}).write(ctx, tx); err != nil {
		return err
	}
	if err := move(ctx, tx, to.account, moved, how); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `update packs set state = case when pack = any($2) then 'going' else 'lost' end
		where account = $1 and (pack = any($2) or pack = any($3))`, int64(to.account), gone, missing)
	if err == nil && count != nil {
		err = count(tx, len(gone))
	}
	return err
}

// fitting returns those of the packs that still exist, as many as fit into one.
func fitting(ctx context.Context, tx pgx.Tx, account record.AccountNumber, packs []int64) (some []int64, err error) {
	rows, err := tx.Query(ctx, `select pack from (
			select pack, sum(size) over (order by pack) as upto, row_number() over (order by pack) as at
			from packs where account = $1 and pack = any($2) and state = 'kept'
		) p where at = 1 or upto <= $3 order by pack`, int64(account), packs, rewrittenBytes)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

// named returns the entries that rows reference in packs.
func named(ctx context.Context, tx pgx.Tx, account record.AccountNumber, packs []int64) (entries []pack.Entry, err error) {
	rows, err := tx.Query(ctx, `
		select ref, pack, at, size from objects where account = $1 and pack = any($2)
		union all
		select convert_to(id || '/body', 'UTF8'), pack, at, size from exchanges where account = $1 and pack = any($2)`, int64(account), packs)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (e pack.Entry, err error) {
		err = row.Scan(&e.Name, &e.Pack, &e.At, &e.Size)
		return e, err
	})
}

// move makes rows reference another pack.
func move(ctx context.Context, tx pgx.Tx, account record.AccountNumber, names [][]byte, how columns) error {
	moved, err := tx.Exec(ctx, `
		with place (name, pack, at, size) as (select * from unnest($2::bytea[], $3::bigint[], $4::int[], $5::int[])), object as (
			update objects o set pack = p.pack, at = p.at, size = p.size from place p where o.account = $1 and o.ref = p.name returning 1
		), body as (
			update exchanges x set pack = p.pack, at = p.at, size = p.size from place p
			where x.account = $1 and length(p.name) <> `+refSizeText+` and x.id = convert_from(substring(p.name for length(p.name) - 5), 'UTF8') returning 1
		)
		select from object union all select from body`,
		int64(account), names, how.packs, how.at, how.sizes)
	if err == nil && moved.RowsAffected() != int64(len(names)) {
		err = errors.New("rows that reference a pack have changed while it was rewritten")
	}
	return err
}

// remove deletes packs in state "going" from the bucket, of one account or for 0 of all. What another process is deleting is left
// to that one; remove waits for it if an account is named, which then has none left. After an error it goes on with other accounts.
func (c *database) remove(ctx context.Context, account int64) error {
	claim := "select account, pack from packs where state = 'going' and ($1 = 0 or account = $1) and account <> all($3) limit $2 for update"
	if account == 0 {
		claim += " skip locked"
	}
	var failed error
	held := []int64{} // accounts that failed; never null
	for more := true; more && ctx.Err() == nil; {
		err := pgx.BeginFunc(ctx, c.pool, func(tx pgx.Tx) error {
			rows, err := tx.Query(ctx, claim, account, removedAtOnce, held)
			if err != nil {
				return err
			}
			type going struct{ Account, Pack int64 }
			packs, err := pgx.CollectRows(rows, pgx.RowToStructByPos[going])
			if more = len(packs) > 0; err != nil || !more {
				return err
			}
			var accounts, removed []int64
			for _, p := range packs {
				if slices.Contains(held, p.Account) {
					continue
				}
				if err := c.Packs.Delete(ctx, record.AccountNumber(p.Account), pack.ID(p.Pack)); err != nil {
					failed, held = cmp.Or(failed, err), append(held, p.Account)
					continue
				}
				accounts, removed = append(accounts, p.Account), append(removed, p.Pack)
			}
			_, err = tx.Exec(ctx, `delete from packs p using unnest($1::bigint[], $2::bigint[]) d (account, pack)
				where p.account = d.account and p.pack = d.pack`, accounts, removed)
			return err
		})
		if err != nil {
			return err
		}
	}
	return cmp.Or(failed, ctx.Err())
}
