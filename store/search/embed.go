package search

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/vector"
)

// A stored vector begins with a version and a hash of the embedded text, so that the same text is not embedded again.
// The output of [vector.Space.Append] follows, or nothing if a text has no vector.
const (
	vectorVersion = 1
	textHashSize  = 8
	vectorHeader  = 1 + textHashSize
)

func newVectorHeader(text string) []byte {
	hash := blake3.Sum256([]byte(text))
	return append([]byte{vectorVersion}, hash[:textHashSize]...)
}

// pending is a text that is being embedded.
type pending struct {
	exchange string
	text     string
	stored   []byte // header, and then the vector; nil: the turn gets none
}

// takeUp embeds turns in the growing generation. later are those that it cannot embed now: of accounts in back-off, and
// damaged ones, which do not block others.
func (v *vectors) takeUp(ctx context.Context, turns []*store.Change) (later []*store.Change, err error) {
	byAccount := make(map[record.AccountNumber][]*store.Change)
	for _, c := range turns {
		byAccount[c.Account] = append(byAccount[c.Account], c)
	}
	for account, turns := range byAccount {
		if v.resting.rests(account) {
			later = append(later, v.skip(turns)...)
			continue
		}
		name, changed, unread, err := v.changedTexts(ctx, turns)
		if err != nil {
			return nil, err
		}
		switch failed := v.embed(ctx, name, changed); {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case failed != nil:
			if v.resting.begin(account, failed) {
				v.log.Warn("turns cannot be embedded; it is tried again", "account", name, "embedder", v.embedder.Identity(), "error", failed)
			}
			later = append(later, v.skip(turns)...)
			continue
		}
		if err := v.keep(ctx, account, changed); err != nil {
			return nil, err
		}
		v.resting.end(account)
		if len(changed) > 0 {
			v.unanswered.end(account)
		}
		later = append(later, unread...)
	}
	return later, nil
}

// skip notes that turns are not embedded because their account is in back-off.
func (v *vectors) skip(turns []*store.Change) []*store.Change {
	if v.skipped == 0 {
		v.skipped = max(turns[0].Seq, 1)
	}
	return turns
}

// changedTexts returns the texts of an account's turns to embed, and deletes the vectors of turns without text. name is
// the account's, if it is needed. unread are damaged turns.
func (v *vectors) changedTexts(ctx context.Context, turns []*store.Change) (name string, changed []*pending, unread []*store.Change, err error) {
	growing := &v.generations[v.growing]
	for _, c := range turns {
		if err := ctx.Err(); err != nil {
			return "", nil, nil, err
		}
		t, err := v.textOf(c)
		if err != nil {
			v.log.Error("a turn cannot be read, and gets no vector", "exchange", c.Exchange, "error", err)
			unread = append(unread, c)
			continue
		}
		if t.account == "" { // erased together with its vector, or no longer worth one
			changed = append(changed, &pending{exchange: c.Exchange})
			continue
		}
		name = t.account
		p := &pending{exchange: c.Exchange, text: t.text, stored: newVectorHeader(t.text)}
		if isNew := c.Fresh && growing.Complete && c.Seq > v.filled; !isNew { // otherwise it cannot have a vector
			former, err := v.store.Vectors().At(c.Account, growing.Number, c.Exchange)
			if err != nil {
				return "", nil, nil, err
			}
			if bytes.HasPrefix(former, p.stored) {
				continue
			}
		}
		changed = append(changed, p)
	}
	return name, changed, unread, nil
}

// turnText is the source of a vector; zero if a turn is worth none.
type turnText struct{ account, text string }

// textOf returns the source of a turn's vector; d is nil if there is nothing.
func textOf(entry *record.TimelineEntry, d *document) turnText {
	if d == nil {
		return turnText{}
	}
	return turnText{entry.Exchange.Account, d.embedded()}
}

// textOf returns the source of a turn's vector, from the lexical index or from the store.
func (v *vectors) textOf(c *store.Change) (turnText, error) {
	if t, made := c.Derived.(turnText); made {
		return t, nil
	}
	entry, err := v.feed.TurnAt(c.Account, c.Exchange)
	if err != nil {
		return turnText{}, unlessNotFound(err)
	}
	return textOf(&entry, newDocument(&entry)), nil
}

func (v *vectors) embed(ctx context.Context, account string, all []*pending) error {
	return (&encoder{v.embedder, v.space, v.log}).embed(ctx, account, all)
}

// encoder makes vectors in their stored form.
type encoder struct {
	embedder Embedder
	space    *vector.Space
	log      *slog.Logger
}

// embed adds the vectors of texts. If a batch is refused because of one text, that text gets none.
func (e *encoder) embed(ctx context.Context, account string, all []*pending) error {
	var wanted []*pending
	var texts []string
	for _, p := range all {
		if p.stored != nil {
			wanted, texts = append(wanted, p), append(texts, p.text)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	made, err := e.embedder.Embed(ctx, account, ForDocument, texts)
	switch {
	case err != nil && refused(err) && len(wanted) == 1:
		e.log.Warn("a turn has no vector: the embedder refuses its text", "exchange", wanted[0].exchange, "error", err)
		return nil
	case err != nil && refused(err):
		half := len(wanted) / 2
		if err := e.embed(ctx, account, wanted[:half]); err != nil {
			return err
		}
		return e.embed(ctx, account, wanted[half:])
	case err != nil:
		return err
	case len(made) != len(texts):
		return codec.Errorf(codec.KindUpstream, "%s gave %d vectors for %d texts", e.embedder.Identity(), len(made), len(texts))
	}
	for i, p := range wanted {
		stored, err := e.space.Append(p.stored, made[i])
		if err != nil && !errors.Is(err, vector.ErrNoDirection) {
			return codec.Errorf(codec.KindUpstream, "%s: %s", e.embedder.Identity(), err)
		}
		p.stored = stored
	}
	return nil
}

// refused reports whether an error is about the text, so that retrying is useless.
func refused(err error) bool {
	var e *codec.Error
	return errors.As(err, &e) && (e.Kind == codec.KindInvalidRequest || e.Kind == codec.KindTooLarge)
}

// keep stores vectors, and makes them visible to running searches.
func (v *vectors) keep(ctx context.Context, account record.AccountNumber, changed []*pending) error {
	if len(changed) == 0 {
		return nil
	}
	growing := v.generations[v.growing].Number
	stored := make([]record.TurnVector, len(changed))
	for i, p := range changed {
		stored[i] = record.TurnVector{Account: account, Exchange: p.exchange, Value: p.stored}
	}
	if err := v.store.Vectors().Put(ctx, growing, stored); err != nil {
		return err
	}
	for _, g := range v.generations {
		set := v.cache.Loaded(vector.Key{Account: uint32(account), Generation: g.Number})
		if set == nil {
			continue
		}
		for _, p := range changed {
			id, _ := record.ParseExchangeID(p.exchange)
			if len(p.stored) <= vectorHeader {
				set.Remove(id)
			} else if g.Number == growing {
				if err := set.Put(id, p.stored[vectorHeader:]); err != nil {
					return err
				}
			}
		}
	}
	v.cache.Trim()
	return nil
}

// restingAccounts are accounts in back-off because the embedder has failed for them: a second, and twice as long after
// each further failure, up to a minute. The zero value is ready to use.
type restingAccounts struct {
	mu   sync.Mutex
	list map[record.AccountNumber]rest
}

type rest struct {
	until  time.Time
	length time.Duration
	reason error
}

// maxResting bounds how many accounts are remembered; beyond that the oldest are tried again at once.
const maxResting = 10_000

// begin starts an account's back-off; first reports that it was not in back-off before.
func (r *restingAccounts) begin(account record.AccountNumber, reason error) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.list == nil || len(r.list) >= maxResting {
		r.list = make(map[record.AccountNumber]rest)
	}
	before, known := r.list[account]
	length := firstRest
	if known {
		length = min(2*before.length, longestRest)
	}
	r.list[account] = rest{time.Now().Add(length), length, reason}
	return !known
}

func (r *restingAccounts) end(account record.AccountNumber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.list, account)
}

func (r *restingAccounts) rests(account record.AccountNumber) bool { return r.why(account) != nil }

// why returns the reason for an account's present back-off; nil if there is none.
func (r *restingAccounts) why(account record.AccountNumber) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if rest, known := r.list[account]; known && time.Now().Before(rest.until) {
		return rest.reason
	}
	return nil
}

// over reports whether the back-off of one of them has ended.
func (r *restingAccounts) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rest := range r.list {
		if !time.Now().Before(rest.until) {
			return true
		}
	}
	return len(r.list) == 0
}

// present returns the accounts that are in back-off.
func (r *restingAccounts) present() (accounts []record.AccountNumber) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for account, rest := range r.list {
		if time.Now().Before(rest.until) {
			accounts = append(accounts, account)
		}
	}
	return accounts
}

// reason returns the reason for the back-off of one of them; nil if there is none.
func (r *restingAccounts) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rest := range r.list {
		return rest.reason
	}
	return nil
}

// reasonOf returns the reason for an account's present or last back-off; nil if there is none.
func (r *restingAccounts) reasonOf(account record.AccountNumber) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.list[account].reason
}

// query makes the vector of a query, and returns the vectors of the account. An error says why there are none.
func (v *vectors) query(ctx context.Context, account string, number record.AccountNumber, text string) (*serving, *vector.Query, *vector.Set, error) {
	if err := v.unanswered.why(number); err != nil {
		return nil, nil, nil, err
	}
	for {
		s := v.serving.Load()
		if s == nil {
			return nil, nil, nil, errNotOpen
		}
		made, err := embedQuery(ctx, s.embedder, account, text)
		if err != nil {
			if ctx.Err() == nil {
				v.unanswered.begin(number, err)
			}
			return nil, nil, nil, err
		}
		v.unanswered.end(number)
		q, err := s.space.Query(made)
		if err != nil {
			return nil, nil, nil, err
		}
		key := vector.Key{Account: uint32(number), Generation: s.generation}
		set, err := v.cache.Get(ctx, key, func(ctx context.Context) (*vector.Set, error) { return v.load(ctx, s, number) })
		if now := v.serving.Load(); now.generation == s.generation {
			return s, q, set, err
		}
		v.cache.Drop(s.generation) // another generation has replaced it, and its vectors are dropped
	}
}

var errNotOpen = codec.Errorf(codec.KindStorage, "the vectors are not open yet")

func embedQuery(ctx context.Context, e Embedder, account, text string) ([]float32, error) {
	late := codec.Errorf(codec.KindTimeout, "%s gave no vector within %v", e.Identity(), queryTimeout)
	patient, cancel := context.WithTimeoutCause(ctx, queryTimeout, late)
	defer cancel()
	made, err := e.Embed(patient, account, ForQuery, []string{text})
	switch {
	case err != nil && patient.Err() != nil && ctx.Err() == nil:
		return nil, late
	case err != nil:
		return nil, err
	case len(made) != 1:
		return nil, codec.Errorf(codec.KindUpstream, "%s gave %d vectors for one text", e.Identity(), len(made))
	}
	return made[0], nil
}

// load reads the vectors of an account.
func (v *vectors) load(ctx context.Context, s *serving, number record.AccountNumber) (*vector.Set, error) {
	return s.space.Load(func(put func(vector.ID, []byte) error) error {
		malformed := 0
		err := v.store.Vectors().Each(ctx, number, s.generation, func(id [16]byte, value []byte) {
			if len(value) > vectorHeader && put(id, value[vectorHeader:]) != nil {
				malformed++
			}
		})
		if malformed > 0 {
			v.log.Warn("vectors cannot be read and are left out; rebuild them with: mneme reindex", "vectors", malformed)
		}
		return err
	})
}
