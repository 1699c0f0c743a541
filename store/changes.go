package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
)

// Follower is a reader of the changes of turns that keeps something derived from them. Each has a log of its own,
// which holds what the follower has not confirmed; so a crash at any point loses nothing, and what was not confirmed
// comes again.
type Follower byte

// Followers.
const (
	FollowLexical Follower = 'l' // the lexical index; its log is always kept
	FollowVectors Follower = 'v' // the vectors; its log is kept from [Feed.Follow] to [Feed.Unfollow]
)

var followers = [...]Follower{FollowLexical, FollowVectors}

// Change says that the turn of an exchange was added, has changed, or is gone. It does not say which: [Feed.TurnAt]
// gives what is there now. One turn may stand in the log many times.
type Change struct {
	Account  AccountNumber
	Exchange string
	Seq      uint64 // ascending in the order of commits
	record   uint64 // the number in the key of its record
}

// A record of the log holds consecutive changes of one commit: each is the account, four bytes, and the exchange. Its key
// has the number of the last one. What a follower has confirmed of it is overwritten with zeros, and the record goes with
// the last of them.
const (
	changeSize       = 4 + len(exchangeID{})
	changesPerRecord = 64 // bounds what is written anew when some of them are confirmed
)

// AccountNumber stands for an account in what followers keep. A number is given out once and never again.
type AccountNumber uint32

// changeLog numbers changes, and wakes those who wait for them.
type changeLog struct {
	last      uint64        // given out; only the writer's goroutine uses it
	coming    atomic.Uint64 // the last one of the commit that is under way; committed otherwise
	committed atomic.Uint64 // the last one that is committed
	wake      [len(followers)]chan struct{}
	kept      [len(followers)]atomic.Bool // there is a log for the follower
	fresh     freshTurns
}

// followKey is there while a log is kept for a follower that does not always have one.
func followKey(f Follower) []byte { return nameKey(spaceMeta, "follow-"+string(rune(f))) }

func changeKey(f Follower, seq uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{spaceChange, byte(f)}, seq)
}

// open finds the last number in use. Numbers whose changes were all confirmed may be used again.
func (l *changeLog) open(db *badger.DB) error {
	for i := range l.wake {
		l.wake[i] = make(chan struct{}, 1)
	}
	return db.View(func(tx *badger.Txn) error {
		for i, f := range followers {
			_, err := tx.Get(followKey(f))
			if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
				return err
			}
			l.kept[i].Store(err == nil || f == FollowLexical)
			it := tx.NewIterator(badger.IteratorOptions{Reverse: true, Prefix: []byte{spaceChange, byte(f)}})
			if it.Seek(changeKey(f, 1<<64-1)); it.Valid() {
				l.last = max(l.last, binary.BigEndian.Uint64(it.Item().Key()[2:]))
			}
			it.Close()
		}
		l.coming.Store(l.last)
		l.committed.Store(l.last)
		return nil
	})
}

// announce wakes the followers after a commit, or after one that failed, of which some changes may be there all the same.
func (l *changeLog) announce() {
	if l.committed.Swap(l.last) == l.last {
		return
	}
	for _, wake := range l.wake {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// changed notes for every follower that the turn of an exchange is another one now, and gives the number of the change.
func (g *gathering) changed(account accountNumber, id exchangeID) (seq uint64) {
	return g.changedFor(followers[:], account, id)
}

func (g *gathering) changedFor(who []Follower, account accountNumber, id exchangeID) (seq uint64) {
	log := &g.store.changes
	log.last++
	for _, f := range who {
		if i := f.index(); log.kept[i].Load() {
			g.changes[i] = append(g.changes[i], noted{log.last, place{account, id}})
		}
	}
	return log.last
}

// noted is a change that the group adds to the log of a follower.
type noted struct {
	seq uint64
	place
}

// changeRecords gives what the group adds to the logs. They are to be committed before the changes themselves: then a
// crash between leaves a log that tells of too much, and what was not committed is done and noted again.
func (g *gathering) changeRecords() (records []record) {
	for i, f := range followers {
		for rest := g.changes[i]; len(rest) > 0; {
			n := 1
			for n < min(len(rest), changesPerRecord) && rest[n].seq == rest[n-1].seq+1 {
				n++
			}
			value := make([]byte, 0, n*changeSize)
			for _, c := range rest[:n] {
				value = append(binary.BigEndian.AppendUint32(value, uint32(c.account)), c.id[:]...)
			}
			records = append(records, record{changeKey(f, rest[n-1].seq), value})
			rest = rest[n:]
		}
	}
	return records
}

func (f Follower) index() int { return slices.Index(followers[:], f) }

// Follow begins to keep a log for a follower. It gives whether one has been kept since before the store was opened, so
// that nothing is missing in it.
func (s Feed) Follow(ctx context.Context, f Follower) (since bool, err error) {
	kept := &s.changes.kept[f.index()]
	if kept.Load() {
		return true, nil
	}
	err = s.update(ctx, func(g *gathering, w *write) error {
		kept.Store(true)
		g.put(w, followKey(f), []byte{})
		return nil
	})
	if err != nil {
		return false, asStorageError(err, "the log of changes could not be begun")
	}
	return false, nil
}

// Unfollow ends the log of a follower that is not there any more, and takes what is in it away.
func (s Feed) Unfollow(ctx context.Context, f Follower) error {
	kept := &s.changes.kept[f.index()]
	if !kept.Load() {
		return nil
	}
	err := s.update(ctx, func(g *gathering, w *write) error {
		kept.Store(false)
		g.put(w, followKey(f), nil)
		return nil
	})
	if err = errors.Join(err, s.dropChanges(ctx, f)); err != nil {
		return asStorageError(err, "the log of changes could not be ended")
	}
	return nil
}

// dropChanges takes all that is in a follower's log by now out of it.
func (s *core) dropChanges(ctx context.Context, f Follower) error {
	for last := (Feed{s}).LastChange(); ; {
		changes, err := Feed{s}.Changes(f, 0, requeueBatch)
		if err != nil {
			return err
		}
		if later := slices.IndexFunc(changes, func(c Change) bool { return c.Seq > last }); later >= 0 {
			changes = changes[:later]
		}
		if len(changes) == 0 {
			return nil
		}
		if err := (Feed{s}).ConfirmChanges(ctx, f, changes); err != nil {
			return err
		}
	}
}

// Changed is signalled when changes may have been committed since it was last read. It has one reader per follower.
func (s Feed) Changed(f Follower) <-chan struct{} {
	return s.changes.wake[f.index()]
}

// LastChange is the number of the last change that is committed.
func (s Feed) LastChange() uint64 { return s.changes.committed.Load() }

// ComingChange is LastChange, or the number of the last change of a commit that is under way: what can be seen in the store
// has changed by then at the latest. It is LastChange's soon, whether the commit succeeds or not.
func (s Feed) ComingChange() uint64 { return s.changes.coming.Load() }

// Changes gives at most limit changes after the one with that number that the follower has not confirmed.
func (s Feed) Changes(f Follower, after uint64, limit int) (changes []Change, err error) {
	last := s.changes.committed.Load() // what is noted may come into the log before what it is about
	err = s.view(func(tx *badger.Txn) error {
		options := badger.DefaultIteratorOptions
		options.Prefix = []byte{spaceChange, byte(f)}
		options.PrefetchSize = limit/changesPerRecord + 1
		it := tx.NewIterator(options)
		defer it.Close()
		for it.Seek(changeKey(f, after+1)); it.Valid() && len(changes) < limit; it.Next() {
			key := it.Item().Key()
			if len(key) != 2+8 {
				return errMalformedChange
			}
			record := binary.BigEndian.Uint64(key[2:])
			if record > last {
				break
			}
			err := it.Item().Value(func(value []byte) (err error) {
				changes, err = appendChanges(changes, record, value, after, limit)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errStorage(err, "the log of changes cannot be read; run mneme check")
	}
	return changes, nil
}

var errMalformedChange = errors.New("malformed entry in the log of changes")

// appendChanges appends those of a record's changes that have a higher number and are not confirmed, up to limit in all.
func appendChanges(dst []Change, record uint64, value []byte, after uint64, limit int) ([]Change, error) {
	if len(value)%changeSize != 0 {
		return nil, errMalformedChange
	}
	count := len(value) / changeSize
	for i := range count {
		seq := record - uint64(count-1-i)
		c := value[i*changeSize:][:changeSize]
		if seq <= after || isConfirmed(c) {
			continue
		}
		if len(dst) == limit {
			break
		}
		dst = append(dst, Change{
			Account: AccountNumber(binary.BigEndian.Uint32(c)), Exchange: exchangeID(c[4:]).String(), Seq: seq, record: record,
		})
	}
	return dst, nil
}

func isConfirmed(changes []byte) bool {
	for _, b := range changes {
		if b != 0 {
			return false
		}
	}
	return true
}

// ConfirmChanges takes changes, in the order in which [Feed.Changes] gave them, out of the follower's log. What the
// follower made of them has to survive a crash first.
func (s Feed) ConfirmChanges(ctx context.Context, f Follower, changes []Change) error {
	err := s.update(ctx, func(g *gathering, w *write) error {
		for rest := changes; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].record == rest[0].record {
				n++
			}
			g.confirm(w, f, rest[:n])
			rest = rest[n:]
		}
		return g.err
	})
	if err != nil {
		return asStorageError(err, "what was indexed could not be noted")
	}
	return nil
}

// confirm takes changes of one record out of it.
func (g *gathering) confirm(w *write, f Follower, changes []Change) {
	key := changeKey(f, changes[0].record)
	value := bytes.Clone(g.get(key))
	for _, c := range changes {
		if from := len(value) - int(c.record-c.Seq+1)*changeSize; from >= 0 {
			clear(value[from:][:changeSize])
		}
	}
	if isConfirmed(value) {
		value = nil
	}
	g.put(w, key, value)
}

// requeueBatch is how many turns are put into a log in one operation.
const requeueBatch = 1000

// RepeatChanges puts every turn of the store into the follower's log, in the place of what was there, for one that starts
// afresh and has nothing. It gives how many there are.
func (s Feed) RepeatChanges(ctx context.Context, f Follower) (turns int64, err error) {
	if err := s.dropChanges(ctx, f); err != nil {
		return 0, asStorageError(err, "the log of changes could not be begun anew")
	}
	var batch []place
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := s.update(ctx, func(g *gathering, w *write) error {
			for _, p := range batch {
				g.changedFor([]Follower{f}, p.account, p.id)
			}
			return nil
		})
		turns += int64(len(batch))
		batch = batch[:0]
		return err
	}
	err = s.view(func(tx *badger.Txn) error {
		return eachItem(ctx, tx, []byte{spaceTurn}, func(item *badger.Item) error {
			account, id, ok := splitExchangeKey(item.Key())
			if !ok {
				return nil
			}
			if batch = append(batch, place{account, id}); len(batch) < requeueBatch {
				return nil
			}
			return flush()
		})
	})
	if err = errors.Join(err, flush()); err != nil {
		return turns, asStorageError(err, "the turns could not be listed; run mneme check")
	}
	return turns, nil
}

// RepeatTurns puts turns into the follower's log again, for one that cannot take them up now.
func (s Feed) RepeatTurns(ctx context.Context, f Follower, turns []TurnRef) error {
	err := s.update(ctx, func(g *gathering, w *write) error {
		for _, turn := range turns {
			if id, ok := parseExchangeID(turn.Exchange); ok {
				g.changedFor([]Follower{f}, accountNumber(turn.Account), id)
			}
		}
		return nil
	})
	if err != nil {
		return asStorageError(err, "turns could not be put into the log of changes")
	}
	return nil
}

// Number gives the number of an account; [codec.KindNotFound] if there is none of that name.
func (s Accounts) Number(account string) (AccountNumber, error) {
	number, err := s.numberOf(account)
	return AccountNumber(number), err
}

// TurnOf gives what [Feed.TurnAt] gives for a change, from memory where the turn has just been digested. fresh tells that
// it has never been given before. It has to be the last change of its turn that the follower knows of: what is in memory is
// the turn as it was then. Only one follower may ask.
func (s Feed) TurnOf(c Change) (entry TimelineEntry, fresh bool, err error) {
	if turn := s.changes.fresh.take(c.Seq); turn != nil {
		return *turn, true, nil
	}
	entry, err = s.TurnAt(c.Account, c.Exchange)
	return entry, false, err
}

// TurnAt gives an exchange and its turn. Turn is nil for an exchange that has none, and the error is
// [codec.KindNotFound] for one that is gone.
func (s Feed) TurnAt(account AccountNumber, exchange string) (TimelineEntry, error) {
	var entry TimelineEntry
	id, ok := parseExchangeID(exchange)
	if !ok {
		return entry, codec.Errorf(codec.KindNotFound, "no exchange %q", exchange)
	}
	err := s.view(func(tx *badger.Txn) (err error) {
		entry, err = getTimelineEntry(tx, accountNumber(account), id)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return entry, codec.Errorf(codec.KindNotFound, "no exchange %q", exchange)
	}
	if err != nil {
		return entry, errStorage(err, "the turn of %s cannot be read; run mneme check", exchange)
	}
	return entry, nil
}
