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
	err = c.arrive(ctx, f.Entries, func(a *arrival) error {
		taken = false
		tx := a.tx
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
		refused, err := a.keep(ctx, f.Entries)
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
	err := c.arrive(ctx, entries, func(a *arrival) error {
		refused, err := a.keep(ctx, entries)
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
func (a *arrival) keep(ctx context.Context, entries []ship.Entry) (refused []shipped.Refused, err error) {
	byAccount := make(map[record.AccountNumber][]*ship.Entry)
	foreign := func(entries ...*ship.Entry) {
		for _, e := range entries {
			refused = append(refused, shipped.Refused{Entry: *e, Reason: shipped.ErrForeign})
		}
	}
	for i := range entries {
		e := &entries[i]
		if !shipped.IsNamed(e) {
			refused = append(refused, shipped.Refused{Entry: *e, Reason: shipped.ErrUnusable})
		} else if number, err := a.accounts.Number(e.Account); err != nil {
			foreign(e)
		} else {
			byAccount[number] = append(byAccount[number], e)
		}
	}
	lock := shareAccount
	if a.alone {
		lock = arriveAlone
	}
	var all []*keeping
	for _, number := range slices.Sorted(maps.Keys(byAccount)) { // all transactions lock in the same order
		own := byAccount[number]
		if err := lock(ctx, a.tx, number); err != nil {
			return nil, err
		}
		now, known, err := a.numbered(ctx, a.tx, own[0].Account)
		if err != nil {
			return nil, err
		}
		if !known || now != number || a.to[number] == nil { // deleted or created meanwhile
			foreign(own...)
			continue
		}
		k := &keeping{arrival: a, account: number, entries: own, to: a.to[number]}
		if err := k.prepare(ctx); err != nil {
			return nil, err
		}
		all = append(all, k)
	}
	if err := a.to.write(ctx, a.tx); err != nil {
		return nil, err
	}
	late := make(map[record.AccountNumber][]erasedExchange)
	for _, k := range all {
		if err := k.store(ctx); err != nil {
			return nil, err
		}
		refused = append(refused, k.refused...)
		if len(k.late) > 0 {
			late[k.account] = k.late
		}
	}
	return refused, recordErased(ctx, a.tx, late)
}

// keeping stores entries of one account.
type keeping struct {
	*arrival
	account record.AccountNumber
	entries []*ship.Entry
	to      *writing // for bodies and values

	frame  shipped.Objects                           // objects sent with the entries
	named  map[shipped.ObjectRef][]shipped.ObjectRef // what objects of the frame reference
	wanted [][]byte                                  // references in the entries and in objects of the frame
	stored present                                   // of the entries and of wanted, before this transaction
	inner  shipped.Objects                           // stored blocks that are parts of blocks of the frame

	arrived []*shipped.Exchange // to be stored
	refs    [][]byte            // of objects to be stored
	values  columns             // of these
	bodies  columns             // of arrived
	refused []shipped.Refused
	late    []erasedExchange // arrived after an erasure that covers them
	united  []moving         // of sessions with the rest of a conversation
}

// present names the entries, and the objects that they reference, which are stored already.
type present struct {
	objects   map[shipped.ObjectRef]struct{}
	exchanges map[string]bool // that exist, or were erased
	deleted   time.Time       // when another account of this name was last deleted; zero: none was
}

func (p *present) equal(other *present) bool {
	return maps.Equal(p.objects, other.objects) && maps.Equal(p.exchanges, other.exchanges) && p.deleted.Equal(other.deleted)
}

// prepare chooses what to store, and adds it to the pack or the rows to be written.
func (k *keeping) prepare(ctx context.Context) error {
	if err := k.read(ctx); err != nil {
		return err
	}
	var sound []*shipped.Exchange
	frame, fresh, done := make(shipped.Objects), make(shipped.Objects), maps.Clone(k.stored.exchanges)
	for _, e := range k.entries {
		x, err := shipped.Read(k.account, e, frame, k.inner)
		if err == nil && x.Began().Before(k.stored.deleted) {
			err = shipped.ErrForeign // entries name their account, and this one has only the name of the deleted one
		}
		switch {
		case err != nil:
			k.refused = append(k.refused, shipped.Refused{Entry: *e, Reason: err})
		case !done[e.Exchange]:
			sound = append(sound, x)
		}
	}
	sound, err := k.sortOutLate(ctx, sound, done)
	if err != nil {
		return err
	}
	for _, x := range sound {
		switch e := x.Entry; {
		case done[e.Exchange]: // the frame has it twice
		case !k.reach(e, fresh):
			k.refused = append(k.refused, shipped.Refused{Entry: *e, Reason: shipped.ErrIncomplete})
		default:
			done[e.Exchange] = true
			k.arrived = append(k.arrived, x)
		}
	}
	for ref, value := range fresh {
		k.refs = append(k.refs, refOf(ref))
		k.values.add(k.to.add(refOf(ref), value))
	}
	for _, x := range k.arrived {
		k.bodies.add(k.to.add([]byte(bodyName(x.Entry.Exchange)), appendBody(nil, x.Entry.Skeleton, x.Entry.Parts)))
	}
	return nil
}

// store stores the exchanges that have arrived, with the objects that are not stored yet.
func (k *keeping) store(ctx context.Context) error {
	if len(k.arrived) == 0 {
		return nil
	}
	if !k.alone {
		if err := k.check(ctx); err != nil {
			return err
		}
	}
	if err := k.putObjects(ctx); err != nil {
		return err
	}
	in, ids, err := k.join(ctx)
	if err != nil {
		return err
	}
	if err := k.putExchanges(ctx, ids); err != nil {
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
	infos := make([]*record.ExchangeInfo, len(k.arrived))
	for i, x := range k.arrived {
		infos[i] = x.Info
	}
	return rollUp(ctx, k.tx, k.account, infos)
}

// check waits until nothing else arrives, and fails if something has changed that prepare has read.
func (k *keeping) check(ctx context.Context) error {
	if err := arriveAlone(ctx, k.tx, k.account); err != nil {
		return err
	}
	now, err := k.look(ctx)
	if err != nil {
		return err
	}
	asked, err := askedSince(ctx, k.tx, k.account, k.arrived)
	if err == nil && (len(asked) > 0 || !now.equal(&k.stored)) {
		err = errChanged
	}
	return err
}

// read reads the frame, and looks for its entries, and for the objects that they reference, in the database.
func (k *keeping) read(ctx context.Context) error {
	k.frame, k.named, k.inner = make(shipped.Objects), make(map[shipped.ObjectRef][]shipped.ObjectRef), make(shipped.Objects)
	wanted, inner := make(map[shipped.ObjectRef]struct{}), make(map[shipped.ObjectRef]struct{})
	for _, e := range k.entries {
		want, _ := shipped.Named(nil, shipped.Skeleton(k.account), e.Skeleton) // shipped.Read refuses unreadable ones
		for ref, value := range shipped.ObjectsOf(k.account, e) {
			named, _ := shipped.Named(nil, ref, value)
			k.frame[ref], k.named[ref] = value, named
			want = append(want, named...)
			if !shipped.IsNode(ref) {
				for _, o := range named {
					inner[o] = struct{}{}
				}
			}
		}
		for _, ref := range want {
			wanted[ref] = struct{}{}
		}
	}
	for ref := range wanted {
		k.wanted = append(k.wanted, refOf(ref))
	}
	var err error
	if k.stored, err = k.look(ctx); err != nil {
		return err
	}
	var refs [][]byte
	for ref := range inner {
		if _, stored := k.stored.objects[ref]; stored {
			refs = append(refs, refOf(ref))
		}
	}
	return k.readInner(ctx, refs)
}

// look returns which of the entries and of the wanted objects are stored already.
func (k *keeping) look(ctx context.Context) (found present, err error) {
	var ids []string
	for _, e := range k.entries {
		ids = append(ids, e.Exchange)
	}
	found = present{objects: make(map[shipped.ObjectRef]struct{}), exchanges: make(map[string]bool)}
	rows, err := k.tx.Query(ctx, `
		select ref, '', null::timestamptz from objects where account = $1 and ref = any($4)
		union all select null, id, null from exchanges where account = $1 and id = any($2)
		union all select null, exchange, null from tombs where account = $1 and exchange = any($2)
		union all select null, '', at from deleted where name = $3`, int64(k.account), ids, k.entries[0].Account, k.wanted)
	if err != nil {
		return found, err
	}
	var ref []byte
	var id string
	var deleted *time.Time
	_, err = pgx.ForEachRow(rows, []any{&ref, &id, &deleted}, func() error {
		switch {
		case ref != nil:
			found.objects[objectOf(k.account, ref)] = struct{}{}
		case deleted != nil:
			found.deleted = *deleted
		default:
			found.exchanges[id] = true
		}
		return nil
	})
	return found, err
}

// readInner reads stored blocks that are parts of blocks of the frame.
func (k *keeping) readInner(ctx context.Context, refs [][]byte) error {
	if len(refs) == 0 {
		return nil
	}
	rows, err := k.tx.Query(ctx, "select ref, value, pack, at, size from objects where account = $1 and ref = any($2)", int64(k.account), refs)
	if err != nil {
		return err
	}
	var ref []byte
	var how kept
	v := values{found: make(map[string][]byte)}
	_, err = pgx.ForEachRow(rows, []any{&ref, &how.value, &how.pack, &how.at, &how.size}, func() error {
		v.add(ref, how)
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := k.readPacks(ctx, k.account, &v); err != nil { // an entry that needs a damaged object is refused
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
		if _, there := k.stored.objects[ref]; there {
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

func (k *keeping) putObjects(ctx context.Context) error {
	var named [][]byte
	for _, ref := range k.refs {
		named = append(named, joinRefs(k.named[objectOf(k.account, ref)]))
	}
	_, err := k.tx.Exec(ctx, `
		insert into objects (account, ref, refs, value, pack, at, size)
		select $1, o.* from unnest($2::bytea[], $3::bytea[], $4::bytea[], $5::bigint[], $6::int[], $7::int[]) o order by 2
		on conflict do nothing`, int64(k.account), k.refs, named, k.values.values, k.values.packs, k.values.at, k.values.sizes)
	return err
}

// join adds the exchanges to their sessions, which are still to be stored, and returns the ids of those.
func (k *keeping) join(ctx context.Context) (in *conversation.Sessions, ids []*string, err error) {
	var own []string
	var keys [][]byte
	for _, x := range k.arrived {
		id, links := x.Evidence()
		own, keys = append(own, id), append(keys, links...)
	}
	if in, err = openSessions(ctx, k.tx, k.account, own, keys); err != nil {
		return nil, nil, err
	}
	for _, x := range k.arrived {
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

func (k *keeping) putExchanges(ctx context.Context, sessions []*string) error {
	var (
		ids                      []string
		kept                     []time.Time
		speaks, quiet            []bool // quiet: nothing to digest
		requests, responses      []int64
		answered, records, named [][]byte
		events                   []record.Event
	)
	for i, x := range k.arrived {
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
		k.bodies.values, k.bodies.packs, k.bodies.at, k.bodies.sizes)
	queueEvents(batch, events)
	return k.tx.SendBatch(ctx, batch).Close()
}

// sortOutLate removes exchanges that arrive after an erasure that covers them, and adds them to done.
func (k *keeping) sortOutLate(ctx context.Context, arriving []*shipped.Exchange, done map[string]bool) (rest []*shipped.Exchange, err error) {
	asked, err := askedSince(ctx, k.tx, k.account, arriving)
	if err != nil || len(asked) == 0 {
		return arriving, err
	}
	if !k.alone {
		return nil, errChanged
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
		case !done[id]:
			done[id] = true
			k.late = append(k.late, erasedExchange{id, &asked[meant].ID})
		}
	}
	_, _, err = in.Changed() // nothing has changed; this only checks that everything was readable
	return rest, err
}
