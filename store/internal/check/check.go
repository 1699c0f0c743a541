package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Finding is one fault that [Check] found.
type Finding struct {
	Account  string `json:"account"`
	Subject  string `json:"subject"` // exch_…, sess_…, "block" and "node" with a hash, or a file in the store directory
	Problem  string `json:"problem"`
	Repaired bool   `json:"repaired,omitempty"`
}

// Report has the counts of [Check].
type Report struct {
	Exchanges    int64 `json:"exchanges"`
	Sessions     int64 `json:"sessions"`
	Blocks       int64 `json:"blocks"`
	Nodes        int64 `json:"nodes"`
	Unreferenced int64 `json:"unreferenced"` // blocks and nodes that the next sweep frees; not a fault
	Findings     int64 `json:"findings"`
	Repaired     int64 `json:"repaired"`
}

// Options are what a check needs of the store.
type Options struct {
	DB       *files.Database
	Writer   *writing.Writer
	Feed     *feed.Feed
	Accounts *identity.AccountTable
	Digests  bool // exchanges have turns
}

// Check verifies the invariants of FORMAT.md, account by account, on a snapshot: the store may be in use. It calls tell
// with each finding at once. With repair it corrects what can be derived from the exchanges: counts of sessions, and
// dangling entries. It never deletes an exchange. A session that has changed since the snapshot keeps its counts, and
// the next check finds them again. Records of sessions that are only in memory are stored first.
func Check(ctx context.Context, o Options, repair bool, tell func(Finding)) (Report, error) {
	var report Report
	if err := o.DB.Check(ctx, func(d files.Damage) {
		report.Findings++
		tell(Finding{Subject: d.File, Problem: d.Problem})
	}); err != nil {
		return report, kv.AsStorageError(err, "the files of the store could not be checked")
	}
	log := &checker{Options: o, repair: repair, tell: tell, report: &report}
	if err := log.whole(logSubject, func() error { return log.checkFeed(ctx) }); err != nil {
		return report, kv.AsStorageError(err, "the log of changes could not be checked")
	}
	for _, a := range o.Accounts.All() {
		c := &checker{Options: o, account: a.Number, name: a.Name, repair: repair, tell: tell, report: &report}
		if err := c.whole("account", func() error { return c.run(ctx) }); err != nil {
			return report, kv.AsStorageError(err, "the check could not be finished")
		}
	}
	return report, nil
}

// whole turns a panic into a finding: the database's reaction to a damaged table is not ours to predict.
func (c *checker) whole(subject string, check func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(fmt.Sprint(p)), "\n")
			c.find(subject, "its data cannot be read to the end: "+line)
		}
	}()
	return check()
}

// checker checks one account.
type checker struct {
	Options
	account kv.AccountNumber
	name    string
	repair  bool
	tell    func(Finding)
	report  *Report

	tx        *badger.Txn
	blobs     *blob.Checker
	exchanges map[kv.ExchangeID]checkedExchange
	sessions  map[kv.SessionID]*sessionCounts
	live      map[kv.SessionID]struct{} // readable and not merged into others
	behind    map[kv.SessionRef]bool    // their records may be behind their exchanges, see sessions.Behind
	fixes     []fix

	rollups rollupCheck
}

// fix is a record that repairs a fault.
type fix struct {
	commit.Entry
	while commit.Entry // the basis of the fix; if it has changed, nothing is done. No key: none
}

// checkedExchange is what later checks need about an exchange.
type checkedExchange struct {
	session kv.SessionID
	member  bool // its session names it
	open    bool // its record says so
	noted   bool // it is among the open exchanges
	damaged bool // its record cannot be read, so that only its session is known
	speaks  bool // it has ended and should have a turn
	turn    bool // it has one
}

// sessionCounts are the expected counts of a session.
type sessionCounts struct {
	record.Session
	unknown bool // one of its exchanges cannot be read
}

func (c *checker) run(ctx context.Context) error {
	_ = c.Writer.MakeRoom(ctx, writing.StoreAll) // on a full volume they stay behind
	c.tx = c.DB.NewTransaction(false)
	defer c.tx.Discard()
	c.rollups.hours = make(map[int64]*checkedHour)
	counted, _, err := feed.CursorAt(c.tx, feed.Counted)
	if err != nil {
		return err
	}
	c.behind = sessions.Behind(c.tx, counted)
	c.blobs = blob.NewChecker(c.tx, c.account, func(subject, problem string) { c.find(subject, problem) })
	c.exchanges, c.sessions = make(map[kv.ExchangeID]checkedExchange), make(map[kv.SessionID]*sessionCounts)
	c.live = make(map[kv.SessionID]struct{})
	for _, step := range [...]struct {
		space byte
		check func(item *badger.Item) error
	}{
		{kv.SpaceBlock, c.block},
		{kv.SpaceNode, c.node},
		{kv.SpaceRollup, c.rollup},
		{kv.SpaceExchange, c.exchange},
		{kv.SpaceRequest, c.belongsToExchange},
		{kv.SpaceOpen, c.openNote},
		{kv.SpaceMember, c.member},
		{kv.SpaceBelongs, c.belongsToExchange},
		{kv.SpaceTurn, c.turn},
		{kv.SpaceResponse, c.belongsToExchange},
		{kv.SpaceHistory, c.history},
		{kv.SpaceSession, c.session},
		{kv.SpaceUnsummarized, c.sessionMark},
		{kv.SpaceLink, c.link},
		{kv.SpaceVector, c.vector},
		{kv.SpaceSummary, c.summary},
	} {
		if err := kv.EachItem(ctx, c.tx, kv.SpaceKeyOf(step.space, c.account), step.check); err != nil {
			return err
		}
	}
	c.compareMembers()
	c.compareRollups()
	if err := c.compareTurns(ctx); err != nil {
		return err
	}
	c.report.Unreferenced += c.blobs.Unreferenced()
	return c.fix(ctx)
}

// compareMembers compares the exchanges with the sessions that list them, once all have been read.
func (c *checker) compareMembers() {
	for id, want := range c.sessions {
		c.live[id] = struct{}{} // once it is restored
		c.find(id.String(), fmt.Sprintf("%d exchanges belong to it, and it does not exist", want.Exchanges), c.againSession(id, want)...)
	}
	for id, x := range c.exchanges {
		if x.open && !x.noted {
			c.find(id.String(), "it is open, and it is not among the open exchanges")
		}
		if x.session != (kv.SessionID{}) && !x.member {
			c.find(id.String(), "its session does not list it", fix{
				put(kv.MemberKey(c.account, x.session, id), []byte{}), put(kv.ExchangeKey(kv.SpaceBelongs, c.account, id), x.session[:]),
			})
		}
	}
}

// againSession restores a lost session, without the fields that only its record had.
func (c *checker) againSession(id kv.SessionID, counts *sessionCounts) []fix {
	r := &record.StoredSession{Session: counts.Session}
	r.ID, r.Account, r.Created = id.String(), c.name, kv.ExchangeID(id).Time().UTC() // ids of all kinds have the same form
	if id.IsNamed() {
		r.Created = c.firstOf(id)
	}
	r.Updated = r.Created
	for exchange, x := range c.exchanges {
		if began := exchange.Time().UTC(); x.session == id && began.After(r.Updated) {
			r.Updated = began
		}
	}
	key := kv.SessionKey(c.account, id)
	return []fix{{put(key, record.Encode(r)), commit.Entry{Key: key}}}
}

// firstOf returns when the first exchange of a session began.
func (c *checker) firstOf(id kv.SessionID) (began time.Time) {
	for exchange, x := range c.exchanges {
		if at := exchange.Time().UTC(); x.session == id && (began.IsZero() || at.Before(began)) {
			began = at
		}
	}
	return began
}

// drop deletes a record.
func drop(key []byte) fix { return fix{Entry: commit.Entry{Key: key}} }

func put(key, value []byte) commit.Entry { return commit.Entry{Key: key, Value: value} }

// find reports a fault; fixes repair it.
func (c *checker) find(subject, problem string, fixes ...fix) {
	f := Finding{Account: c.name, Subject: subject, Problem: problem, Repaired: c.repair && len(fixes) > 0}
	c.report.Findings++
	if f.Repaired {
		c.report.Repaired++
		c.fixes = append(c.fixes, fixes...)
	}
	c.tell(f)
}

// fix writes the repairs.
func (c *checker) fix(ctx context.Context) error {
	for len(c.fixes) > 0 {
		n := min(len(c.fixes), 500)
		err := c.Writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
			for _, f := range c.fixes[:n] {
				if f.while.Key == nil || bytes.Equal(g.Get(f.while.Key), f.while.Value) {
					g.Put(w, f.Key, f.Value)
					noteRepaired(g, w, f.Key)
				}
			}
			return g.Err()
		})
		if err != nil {
			return err
		}
		c.fixes = c.fixes[n:]
	}
	return nil
}

// noteRepaired notifies the followers of turns and sessions that a record was repaired. For a deleted turn, everything
// derived from it goes too.
func noteRepaired(g *writing.Group, w *commit.Op, key []byte) {
	switch key[0] {
	case kv.SpaceTurn:
		if account, id, ok := kv.SplitExchangeKey(key); ok {
			turns.EraseVectors(g, w, account, id)
			_, ref := g.Sessions.Belongs(account, id)
			if ref = (kv.SessionRef{Account: account, ID: ref.ID}); g.Has(kv.ExchangeKey(kv.SpaceExchange, account, id)) {
				g.Sessions.Changes.NoteEnded(ref, id)
			} else {
				g.Sessions.Changes.Note(ref, id)
			}
		}
	case kv.SpaceMember:
		if account, session, _, ok := kv.SplitMemberKey(key); ok {
			g.Sessions.Changes.NoteSession(kv.SessionRef{Account: account, ID: session})
		}
	}
}

func (c *checker) block(item *badger.Item) error {
	c.report.Blocks++
	return c.blobs.Block(item)
}

func (c *checker) node(item *badger.Item) error {
	c.report.Nodes++
	return c.blobs.Node(item)
}

func (c *checker) exchange(item *badger.Item) error {
	c.report.Exchanges++
	_, id, ok := kv.SplitExchangeKey(item.Key())
	if !ok {
		c.find("exchange", fmt.Sprintf("malformed key %x", item.Key()))
		return nil
	}
	info, err := journal.Info(c.tx, c.account, id)
	if err != nil {
		c.find(id.String(), err.Error())
		return c.damagedExchange(id)
	}
	x := checkedExchange{open: info.Outcome == record.OutcomeOpen}
	x.speaks = !x.open && info.Auxiliary == ""
	if !x.open {
		c.rollups.add(c.account, info)
	}
	x.session, _ = kv.ParseSessionID(info.Session)
	c.exchanges[id] = x
	if info.Session != "" {
		counts := c.countsOf(x.session)
		counts.Exchanges++
		if !x.open {
			counts.Count(info, 1)
		}
	}
	c.request(id, info)
	c.response(id, info)
	return nil
}

// damagedExchange remembers that an exchange exists, so that nothing of it or its session is deleted because it is
// unreadable: a newer mneme may be able to read it.
func (c *checker) damagedExchange(id kv.ExchangeID) error {
	x := checkedExchange{damaged: true}
	c.rollups.hour(hourOf(id.Time())).unknown = true
	session, err := kv.Get(c.tx, kv.ExchangeKey(kv.SpaceBelongs, c.account, id))
	if err == nil && len(session) == len(x.session) {
		x.session = kv.SessionID(session)
		counts := c.countsOf(x.session)
		counts.Exchanges++
		counts.unknown = true
	}
	c.exchanges[id] = x
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil
	}
	return err
}

func (c *checker) countsOf(id kv.SessionID) *sessionCounts {
	counts := c.sessions[id]
	if counts == nil {
		counts = new(sessionCounts)
		c.sessions[id] = counts
	}
	return counts
}

func (c *checker) request(id kv.ExchangeID, info *record.ExchangeInfo) {
	skeleton, err := kv.Get(c.tx, kv.ExchangeKey(kv.SpaceRequest, c.account, id))
	var size int64
	if err == nil {
		size, err = c.blobs.Skeleton(skeleton)
	}
	if err == nil && size != info.RequestSize {
		err = fmt.Errorf("it has %d bytes, the record says %d", size, info.RequestSize)
	}
	if err != nil {
		c.find(id.String(), "the request cannot be given back: "+err.Error())
	}
}

func (c *checker) response(id kv.ExchangeID, info *record.ExchangeInfo) {
	var (
		size int64
		next uint32
	)
	err := journal.EachPart(context.Background(), c.tx, c.account, id, func(number uint32, part []byte) error {
		if number != next {
			c.find(id.String(), fmt.Sprintf("part %d of the answer is missing", next))
		}
		next = number + 1
		size += int64(len(part))
		return nil
	})
	switch {
	case err != nil:
		c.find(id.String(), "a part of the answer is damaged: "+err.Error())
	case info.Outcome.Ended() && size != info.ResponseSize:
		c.find(id.String(), fmt.Sprintf("the answer has %d bytes, the record says %d", size, info.ResponseSize))
	}
}

// belongsToExchange checks records that belong to an exchange.
func (c *checker) belongsToExchange(item *badger.Item) error {
	key := item.Key()
	if len(key) < 1+4+len(kv.ExchangeID{}) {
		c.find("record", fmt.Sprintf("malformed key %x", key))
		return nil
	}
	id := kv.ExchangeID(key[5:])
	if _, there := c.exchanges[id]; !there {
		c.find(id.String(), fmt.Sprintf("a record of kind %c is there, the exchange is not", key[0]), drop(bytes.Clone(key)))
	}
	return nil
}

// turn checks that a turn can be read. An unreadable one is digested again, unless that would have to read what the
// turn lacks: when that is back, the turn is, too.
func (c *checker) turn(item *badger.Item) error {
	_, id, ok := kv.SplitExchangeKey(item.Key())
	x, there := c.exchanges[id]
	if !ok || !there {
		return c.belongsToExchange(item)
	}
	x.turn = true
	c.exchanges[id] = x
	err := item.Value(func(value []byte) error {
		_, err := record.DecodeTurn(value, id, journal.TextSources(c.tx, c.account, id))
		return err
	})
	switch {
	case errors.Is(err, record.ErrTurnSource):
		c.find(id.String(), "its turn cannot be read: "+err.Error())
	case err != nil:
		c.find(id.String(), "its turn cannot be read: "+err.Error(), drop(item.KeyCopy(nil)))
	}
	return nil
}

func (c *checker) vector(item *badger.Item) error {
	_, id, ok := turns.SplitVectorKey(item.Key())
	if !ok {
		c.find("record", fmt.Sprintf("malformed key %x", item.Key()))
		return nil
	}
	_, err := c.tx.Get(kv.ExchangeKey(kv.SpaceTurn, c.account, id))
	if errors.Is(err, badger.ErrKeyNotFound) {
		c.find(id.String(), "a vector is there, the turn is not", drop(item.KeyCopy(nil)))
		return nil
	}
	return err
}

func (c *checker) summary(item *badger.Item) error {
	_, id, ok := kv.SplitSessionKey(item.Key())
	if !ok {
		c.find("record", fmt.Sprintf("malformed key %x", item.Key()))
		return nil
	}
	_, err := c.tx.Get(kv.SessionKey(c.account, id))
	if errors.Is(err, badger.ErrKeyNotFound) {
		c.find(id.String(), "a summary is there, the session is not", drop(item.KeyCopy(nil)))
		return nil
	}
	return err
}

// openNote checks that one of the exchanges noted as open is open.
func (c *checker) openNote(item *badger.Item) error {
	return item.Value(func(value []byte) error {
		_, ids, err := journal.ReadOpenNote(item.Key(), value)
		if err != nil {
			return c.belongsToExchange(item)
		}
		open := false
		for _, id := range ids {
			if x, there := c.exchanges[id]; there {
				x.noted = true
				c.exchanges[id] = x
				open = open || x.open || x.damaged
			}
		}
		if !open {
			c.find(ids[0].String(), "it is noted among the open exchanges, and neither it nor those noted with it are", drop(item.KeyCopy(nil)))
		}
		return nil
	})
}

func (c *checker) member(item *badger.Item) error {
	key := item.Key()
	_, session, id, ok := kv.SplitMemberKey(key)
	if !ok {
		c.find("session", fmt.Sprintf("malformed key %x", key))
		return nil
	}
	x, there := c.exchanges[id]
	if !there || x.session != session {
		c.find(session.String(), fmt.Sprintf("it lists %s, which belongs elsewhere or does not exist", id), drop(bytes.Clone(key)))
		return nil
	}
	x.member = true
	c.exchanges[id] = x
	return nil
}

func (c *checker) history(item *badger.Item) error {
	key := item.KeyCopy(nil)
	return item.Value(func(value []byte) error {
		note, ok := record.ReadHistoryNote(value)
		if !ok {
			c.find("history", "malformed entry", drop(key))
			return nil
		}
		if _, there := c.exchanges[note.ID]; !there {
			c.find(note.ID.String(), "a history leads to it, and it does not exist", drop(key))
		}
		return nil
	})
}

func (c *checker) session(item *badger.Item) error {
	c.report.Sessions++
	_, id, ok := kv.SplitSessionKey(item.Key())
	if !ok {
		c.find("session", fmt.Sprintf("malformed key %x", item.Key()))
		return nil
	}
	want := c.countsOf(id)
	delete(c.sessions, id) // what remains belongs to lost sessions
	return item.Value(func(value []byte) error {
		r := new(record.StoredSession)
		if err := record.Decode(value, r); err != nil {
			c.find(id.String(), err.Error())
			return nil
		}
		if r.Merged == "" {
			c.live[id] = struct{}{}
		}
		if r.ID != id.String() {
			c.find(id.String(), "its record names another session: "+r.ID)
		}
		if id.IsNamed() && r.Merged == "" && !slices.ContainsFunc(r.Links, record.IsBeginLink) {
			key, link := item.KeyCopy(nil), record.BeginLink(c.account, id.Position(r.Created))
			r.Links = append(r.Links, link)
			c.find(id.String(), "no list has it", fix{put(link, id[:]), put(key, bytes.Clone(value))}, fix{put(key, record.Encode(r)), put(key, bytes.Clone(value))})
			return nil
		}
		want.Usage.Estimated = r.Usage.Estimated
		_, behind := c.behind[kv.SessionRef{Account: c.account, ID: id}]
		if want.unknown || behind || r.Exchanges == want.Exchanges && r.Completed == want.Completed && r.Auxiliary == want.Auxiliary && r.Usage == want.Usage {
			return nil
		}
		problem := fmt.Sprintf("it counts %d exchanges, %d of them complete, %d auxiliary; there are %d, %d and %d, or its token counts differ",
			r.Exchanges, r.Completed, r.Auxiliary, want.Exchanges, want.Completed, want.Auxiliary)
		r.Exchanges, r.Completed, r.Auxiliary, r.Usage = want.Exchanges, want.Completed, want.Auxiliary, want.Usage
		key := item.KeyCopy(nil)
		c.find(id.String(), problem, fix{put(key, record.Encode(r)), put(key, bytes.Clone(value))})
		return nil
	})
}

// sessionMark checks that a mark belongs to a session; its readers check the rest.
func (c *checker) sessionMark(item *badger.Item) error {
	if _, _, ok := kv.SplitSessionKey(item.Key()); !ok {
		c.find("session", fmt.Sprintf("malformed key %x", item.Key()), drop(item.KeyCopy(nil)))
	}
	return nil
}

func (c *checker) link(item *badger.Item) error {
	key := item.KeyCopy(nil)
	if len(key) != 1+4+1+16 {
		c.find("link", fmt.Sprintf("malformed key %x", key))
		return nil
	}
	return item.Value(func(value []byte) error {
		if len(value) == len(kv.SessionID{}) {
			if _, err := c.tx.Get(kv.SessionKey(c.account, kv.SessionID(value))); err == nil {
				return nil
			}
		}
		c.find("link", fmt.Sprintf("evidence of kind %c leads to no session", key[5]), drop(key))
		return nil
	})
}
