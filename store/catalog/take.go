package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// ID returns the id of the centre that numbers the accounts.
func (c *database) ID(context.Context) (string, error) { return c.centre, nil }

// Mark returns the number up to which the entries of an edge's log are stored, 0 if none are, what identifies the last entry, and
// the time by the database's clock.
func (c *database) Mark(log ship.LogID) (m ship.Mark, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	m.Log = log
	var at *int64
	var last []byte
	err = c.pool.QueryRow(ctx, "select clock_timestamp(), mark, tail from (select) now left join logs on log = $1", log[:]).Scan(&m.Time, &at, &last)
	if err == nil && at != nil {
		m.Mark = uint64(*at)
		copy(m.Tail[:], last)
	}
	return m, err
}

// clockOf returns the time by the database's clock, which all centres share.
func clockOf(ctx context.Context, tx pgx.Tx) (now time.Time, err error) {
	err = tx.QueryRow(ctx, "select clock_timestamp()").Scan(&now)
	return now.UTC(), err
}

// Take stores the entries of the frame that comes next in its log, and advances the log's mark, in one transaction. For any other
// frame taken is false. Exchanges that exist stay as they are, and erased ones do not come back. Entries that cannot be stored
// are put aside: aside gets them before the commit, and prevents it with an error.
func (c *database) Take(ctx context.Context, f *ship.Frame, aside func([]shipped.Refused) error) (taken bool, err error) {
	err = c.arrive(ctx, f.Entries, func(tx pgx.Tx, to writings) error {
		taken = false
		if _, err := tx.Exec(ctx, "insert into logs values ($1, 0, '') on conflict do nothing", f.Log[:]); err != nil {
			return err
		}
		var mark int64
		if err := tx.QueryRow(ctx, "select mark from logs where log = $1 for update", f.Log[:]).Scan(&mark); err != nil {
			return err
		}
		if uint64(mark) != f.After {
			return nil
		}
		refused, err := c.keep(ctx, tx, f.Entries, to)
		if err != nil {
			return err
		}
		isIncomplete := func(r shipped.Refused) bool { return errors.Is(r.Reason, shipped.ErrIncomplete) }
		if !f.Whole && slices.ContainsFunc(refused, isIncomplete) {
			return shipped.ErrIncomplete
		}
		if len(refused) > 0 {
			if err := putAside(ctx, tx, refused); err != nil {
				return err
			}
			if err := aside(refused); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, "update logs set mark = $2, tail = $3 where log = $1", f.Log[:], int64(f.Last), f.Tail[:])
		taken = err == nil
		return err
	})
	if err != nil {
		return false, err
	}
	if taken {
		c.arrived.Notify()
	}
	return taken, nil
}

// Retry stores an entry that was refused before. The error says why it is refused again.
func (c *database) Retry(ctx context.Context, e *ship.Entry) error {
	entries := []ship.Entry{*e}
	err := c.arrive(ctx, entries, func(tx pgx.Tx, to writings) error {
		refused, err := c.keep(ctx, tx, entries, to)
		if err == nil && len(refused) > 0 {
			err = refused[0].Reason
		}
		return err
	})
	if err == nil {
		c.arrived.Notify()
	}
	return err
}

// keep stores the entries that can be stored, and returns the others.
func (c *database) keep(ctx context.Context, tx pgx.Tx, entries []ship.Entry, to writings) (refused []shipped.Refused, err error) {
	late := make(map[record.AccountNumber][]erasedExchange)
	byAccount := make(map[record.AccountNumber][]*ship.Entry)
	numbers := make(map[string]record.AccountNumber)
	for i := range entries {
		if !shipped.IsNamed(&entries[i]) {
			refused = append(refused, shipped.Refused{Entry: entries[i], Reason: shipped.ErrUnusable})
			continue
		}
		number, known := numbers[entries[i].Account]
		if !known {
			if number, known, err = c.numbered(ctx, tx, entries[i].Account); err != nil {
				return nil, err
			}
			if known {
				numbers[entries[i].Account] = number
			}
		}
		if !known {
			refused = append(refused, shipped.Refused{Entry: entries[i], Reason: shipped.ErrForeign})
			continue
		}
		byAccount[number] = append(byAccount[number], &entries[i])
	}
	for _, number := range slices.Sorted(maps.Keys(byAccount)) { // all transactions lock in the same order
		if err := arriveAlone(ctx, tx, number); err != nil {
			return nil, err
		}
		own := byAccount[number]
		now, known, err := c.numbered(ctx, tx, own[0].Account)
		if err != nil {
			return nil, err
		}
		if !known || now != number || to[number] == nil { // deleted or created during the wait for the lock
			for _, e := range own {
				refused = append(refused, shipped.Refused{Entry: *e, Reason: shipped.ErrForeign})
			}
			continue
		}
		k := keeping{tx: tx, account: number, entries: own, to: to[number], read: c.readPacks}
		if err := k.run(ctx); err != nil {
			return nil, err
		}
		refused = append(refused, k.refused...)
		if len(k.late) > 0 {
			late[number] = k.late
		}
	}
	return refused, recordErased(ctx, tx, late)
}

// keeping stores entries of one account in a transaction.
type keeping struct {
	tx      pgx.Tx
	account record.AccountNumber
	entries []*ship.Entry
	to      *writing // for bodies and values
	read    func(context.Context, record.AccountNumber, *values) (damage []error, err error)

	frame   shipped.Objects                           // objects sent with the entries
	named   map[shipped.ObjectRef][]shipped.ObjectRef // what objects of the frame reference
	kept    map[shipped.ObjectRef]struct{}            // of the frame and of named: those that are stored already
	inner   shipped.Objects                           // of kept: blocks that are parts of blocks of the frame
	known   map[string]bool                           // exchanges that exist, or were erased
	deleted time.Time                                 // when another account of this name was last deleted; zero: none was
	refused []shipped.Refused
	late    []erasedExchange // arrived after an erasure that covers them
	united  []moving         // of sessions with the rest of a conversation
}

func (k *keeping) run(ctx context.Context) error {
	if err := k.look(ctx); err != nil {
		return err
	}
	var sound, arrived []*shipped.Exchange
	frame := make(shipped.Objects)
	fresh := make(shipped.Objects)
	for _, e := range k.entries {
		x, err := shipped.Read(k.account, e, frame, k.inner)
		if err == nil && x.Began().Before(k.deleted) {
			err = shipped.ErrForeign // entries name their account, and this one has only the name of the deleted one
		}
		switch {
		case err != nil:
			k.refused = append(k.refused, shipped.Refused{Entry: *e, Reason: err})
		case !k.known[e.Exchange]:
			sound = append(sound, x)
		}
	}
	sound, err := k.sortOutLate(ctx, sound)
	if err != nil {
		return err
	}
	for _, x := range sound {
		switch e := x.Entry; {
		case k.known[e.Exchange]: // the frame has it twice
		case !k.reach(e, fresh):
			k.refused = append(k.refused, shipped.Refused{Entry: *e, Reason: shipped.ErrIncomplete})
		default:
			k.known[e.Exchange] = true
			arrived = append(arrived, x)
		}
	}
	if len(arrived) == 0 {
		return nil
	}
	return k.store(ctx, arrived, fresh)
}

// store stores the exchanges that have arrived, with the objects that are not stored yet.
func (k *keeping) store(ctx context.Context, arrived []*shipped.Exchange, fresh shipped.Objects) error {
	refs, values := k.put(fresh)
	bodies := k.putBodies(arrived)
	if err := k.to.finish(ctx, k.tx); err != nil {
		return err
	}
	if err := k.putObjects(ctx, refs, values); err != nil {
		return err
	}
	in, ids, err := k.join(ctx, arrived)
	if err != nil {
		return err
	}
	if err := k.putExchanges(ctx, arrived, ids, bodies); err != nil {
		return err
	}
	for i := range k.united {
		if err := k.united[i].run(ctx, ""); err != nil {
			return err
		}
	}
	if err := putSessions(ctx, k.tx, k.account, in); err != nil {
		return err
	}
	infos := make([]*record.ExchangeInfo, len(arrived))
	for i, x := range arrived {
		infos[i] = x.Info
	}
	return rollUp(ctx, k.tx, k.account, infos)
}

// look reads what is already stored of the entries and of what they reference.
func (k *keeping) look(ctx context.Context) error {
	k.frame, k.named = make(shipped.Objects), make(map[shipped.ObjectRef][]shipped.ObjectRef)
	k.kept, k.inner, k.known = make(map[shipped.ObjectRef]struct{}), make(shipped.Objects), make(map[string]bool)
	wanted := make(map[shipped.ObjectRef]struct{})
	var inner [][]byte
	var ids []string
	for _, e := range k.entries {
		ids = append(ids, e.Exchange)
		want, _ := shipped.Named(nil, shipped.Skeleton(k.account), e.Skeleton) // ReadShipped refuses unreadable ones
		for ref, value := range shipped.ObjectsOf(k.account, e) {
			named, _ := shipped.Named(nil, ref, value)
			k.frame[ref], k.named[ref] = value, named
			want = append(want, named...)
			if !shipped.IsNode(ref) {
				for _, o := range named {
					inner = append(inner, refOf(o))
				}
			}
		}
		for _, ref := range want {
			wanted[ref] = struct{}{}
		}
	}
	refs := make([][]byte, 0, len(wanted))
	for ref := range wanted {
		refs = append(refs, refOf(ref))
	}
	if err := k.lookAtObjects(ctx, refs, inner); err != nil {
		return err
	}
	rows, err := k.tx.Query(ctx, `
		select id, null::timestamptz from exchanges where account = $1 and id = any($2)
		union all select exchange, null from tombs where account = $1 and exchange = any($2)
		union all select '', at from deleted where name = $3`, int64(k.account), ids, k.entries[0].Account)
	if err != nil {
		return err
	}
	var id string
	var deleted *time.Time
	_, err = pgx.ForEachRow(rows, []any{&id, &deleted}, func() error {
		if deleted != nil {
			k.deleted = *deleted
			return nil
		}
		k.known[id] = true
		return nil
	})
	return err
}

// lookAtObjects notes which objects are stored, and reads the inner ones.
func (k *keeping) lookAtObjects(ctx context.Context, refs, inner [][]byte) error {
	rows, err := k.tx.Query(ctx, `select ref, coalesce(ref = any($3), false), case when ref = any($3) then value end, pack, at, size
		from objects where account = $1 and ref = any($2)`, int64(k.account), refs, inner)
	if err != nil {
		return err
	}
	var ref []byte
	var isInner bool
	var how kept
	v := values{found: make(map[string][]byte)}
	_, err = pgx.ForEachRow(rows, []any{&ref, &isInner, &how.value, &how.pack, &how.at, &how.size}, func() error {
		k.kept[objectOf(k.account, ref)] = struct{}{}
		if isInner {
			v.add(ref, how)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := k.read(ctx, k.account, &v); err != nil { // an entry that needs a damaged object is refused
		return err
	}
	for ref, value := range v.found {
		k.inner[objectOf(k.account, []byte(ref))] = value
	}
	return nil
}

// reach adds to fresh the objects that an entry references, directly or not, and that are not stored yet. It reports whether the
// frame has all of them. Everything that a stored object references is stored.
func (k *keeping) reach(e *ship.Entry, fresh shipped.Objects) bool {
	todo, _ := shipped.Named(nil, shipped.Skeleton(k.account), e.Skeleton)
	var found []shipped.ObjectRef
	for len(todo) > 0 {
		ref := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if _, there := k.kept[ref]; there {
			continue
		}
		if _, seen := fresh[ref]; seen {
			continue
		}
		value, comes := k.frame[ref]
		if !comes {
			for _, ref := range found { // other entries that reference them add them again
				delete(fresh, ref)
			}
			return false
		}
		fresh[ref] = value
		found = append(found, ref)
		todo = append(todo, k.named[ref]...)
	}
	return true
}

// put adds objects to the pack or the rows to be written. named has their refs, in the order of how.
func (k *keeping) put(objects shipped.Objects) (named [][]byte, how columns) {
	for ref, value := range objects {
		named = append(named, refOf(ref))
		how.add(k.to.add(refOf(ref), value))
	}
	return named, how
}

func (k *keeping) putObjects(ctx context.Context, refs [][]byte, how columns) error {
	var named [][]byte
	for _, ref := range refs {
		named = append(named, joinRefs(k.named[objectOf(k.account, ref)]))
	}
	_, err := k.tx.Exec(ctx, `
		insert into objects (account, ref, refs, value, pack, at, size)
		select $1, o.* from unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[], $6::int[], $7::int[]) o order by 2
		on conflict do nothing`, int64(k.account), refs, named, how.values, how.packs, how.at, how.sizes)
	return err
}

// join adds the exchanges to their sessions, which are still to be stored, and returns the ids of those.
func (k *keeping) join(ctx context.Context, arrived []*shipped.Exchange) (in *conversation.Sessions, ids []*string, err error) {
	var own []string
	var keys [][]byte
	for _, x := range arrived {
		id, links := x.Evidence()
		own, keys = append(own, id), append(keys, links...)
	}
	if in, err = openSessions(ctx, k.tx, k.account, own, keys); err != nil {
		return nil, nil, err
	}
	for _, x := range arrived {
		var id *string
		if session := x.Join(in); session != "" {
			id = &session
		}
		ids = append(ids, id)
		if rest := x.Rest(); rest != "" {
			if err := k.unite(ctx, in, rest, *id); err != nil {
				return nil, nil, err
			}
		}
	}
	return in, ids, nil
}

// unite merges the session with the rest of a conversation into another one; its exchanges are still to be moved. It
// leaves them apart if one of them is being erased.
func (k *keeping) unite(ctx context.Context, in *conversation.Sessions, rest, into string) error {
	erased, err := erasing(ctx, k.tx, k.account, rest, into)
	if err == nil && erased == "" && in.Unite(rest, into) {
		k.united = append(k.united, moving{tx: k.tx, account: k.account, in: in, from: rest, into: into})
	}
	return err
}

// putBodies adds the bodies of exchanges to the pack or the rows to be written.
func (k *keeping) putBodies(arrived []*shipped.Exchange) (how columns) {
	for _, x := range arrived {
		how.add(k.to.add([]byte(bodyName(x.Entry.Exchange)), appendBody(nil, x.Entry.Skeleton, x.Entry.Parts)))
	}
	return how
}

func (k *keeping) putExchanges(ctx context.Context, arrived []*shipped.Exchange, sessions []*string, bodies columns) error {
	var (
		ids                      []string
		kept                     []time.Time
		speaks, quiet            []bool // quiet: nothing to digest
		requests, responses      []int64
		answered, records, named [][]byte
		events                   []record.Event
	)
	for i, x := range arrived {
		info := x.Info
		events = append(events, completed(k.account, info, sessions[i]))
		refs, err := shipped.Named(nil, shipped.Skeleton(k.account), x.Entry.Skeleton)
		if err != nil {
			return fmt.Errorf("skeleton of %s: %w", info.ID, err)
		}
		ids, kept = append(ids, info.ID), append(kept, info.KeptSince())
		speaks = append(speaks, sessions[i] != nil && info.Auxiliary == "")
		quiet = append(quiet, !speaks[i])
		requests, responses = append(requests, info.RequestSize), append(responses, info.ResponseSize)
		answered, records = append(answered, conversation.AnswerKey(info)), append(records, x.Entry.Record)
		named = append(named, joinRefs(refs))
	}
	batch := new(pgx.Batch)
	batch.Queue(`
		insert into exchanges (account, id, session, kept, answered, speaks, digested, request_bytes, response_bytes, record, refs, body,
			pack, at, size)
		select $1, x.* from unnest($2::text[], $3::text[], $4::timestamptz[], $5::bytea[], $6::bool[], $7::bool[], $8::bigint[], $9::bigint[],
			$10::bytea[], $11::bytea[], $12::bytea[], $13::bigint[], $14::int[], $15::int[]) x`,
		int64(k.account), ids, sessions, kept, answered, speaks, quiet, requests, responses, records, named,
		bodies.values, bodies.packs, bodies.at, bodies.sizes)
	queueEvents(batch, events)
	return k.tx.SendBatch(ctx, batch).Close()
}

// sortOutLate removes exchanges that arrive after an erasure that covers them.
func (k *keeping) sortOutLate(ctx context.Context, arriving []*shipped.Exchange) (rest []*shipped.Exchange, err error) {
	asked, err := askedSince(ctx, k.tx, k.account, arriving)
	if err != nil || len(asked) == 0 {
		return arriving, err
	}
	in, err := openSessions(ctx, k.tx, k.account, nil, nil)
	if err != nil {
		return nil, err
	}
	for _, x := range arriving {
		meant := slices.IndexFunc(asked, func(e *record.Erasure) bool { return x.MeantBy(e, in) })
		switch id := x.Entry.Exchange; {
		case meant < 0:
			rest = append(rest, x)
		case !k.known[id]:
			k.known[id] = true
			k.late = append(k.late, erasedExchange{id, &asked[meant].ID})
		}
	}
	_, _, err = in.Changed() // nothing has changed; this only checks that everything was readable
	return rest, err
}
