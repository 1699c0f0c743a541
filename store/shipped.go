package store

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Shipped exchanges can be kept in something other than a [Store]. The rules are the same and are defined here: which
// entries are sound, which session they belong to, and what they add to it. Records are encoded as in a store.

// ObjectRef identifies a block or node of an account.
type ObjectRef = kv.ObjectRef

// Objects are blocks and nodes in their stored form.
type Objects map[ObjectRef][]byte

// Use passes a value to read.
func (o Objects) Use(ref ObjectRef, read func(value []byte) error) error {
	value, err := o.get(ref)
	if err != nil {
		return err
	}
	return read(value)
}

func (o Objects) get(ref kv.ObjectRef) ([]byte, error) {
	value, ok := o[ref]
	if !ok {
		return nil, badger.ErrKeyNotFound
	}
	return value, nil
}

// IsNamed reports whether an entry has an account and an exchange whose names can be looked up.
func IsNamed(e *ship.Entry) bool {
	_, ok := kv.ParseExchangeID(e.Exchange)
	return ok && identity.IsAccountName(e.Account)
}

// ObjectsOf returns the blocks and nodes of an entry.
func ObjectsOf(account record.AccountNumber, e *ship.Entry) Objects {
	own := make(Objects, len(e.Objects))
	for i := range e.Objects {
		o := &e.Objects[i]
		ref := kv.Block(account, o.Hash)
		if o.Node {
			ref.Space = kv.SpaceNode
		}
		own[ref] = o.Value
	}
	return own
}

// Named appends the references in a skeleton, a node, or a block; it returns an error for anything else.
func Named(dst []ObjectRef, ref ObjectRef, value []byte) ([]ObjectRef, error) {
	return blob.ReferencesOf(dst, ref, value)
}

// Skeleton returns the reference under which [Named] reads the skeleton of a request.
func Skeleton(account record.AccountNumber) ObjectRef { return kv.Node(account, kv.Hash{}) }

// Shipped is a sound entry.
type Shipped struct {
	*ship.Entry
	arrival arrival
	objects Objects // of its frame
}

// ReadShipped reads an entry of an account. frame holds the objects of earlier entries in the same frame, and gets this
// one's; kept holds what these refer to besides, as far as it is stored. The error is [ErrForeign] or [ErrUnusable].
func ReadShipped(account record.AccountNumber, e *ship.Entry, frame, kept Objects) (*Shipped, error) {
	x := &Shipped{Entry: e, arrival: arrival{account: account}, objects: frame}
	if err := x.addObjects(kept.get); err != nil {
		return nil, err
	}
	if err := x.read(); err != nil {
		return nil, err
	}
	return x, nil
}

// Info returns the record of the exchange.
func (x *Shipped) Info() *record.ExchangeInfo { return x.arrival.info }

// Join puts the exchange into its session, and counts it there; "": it has none.
func (x *Shipped) Join(in *Sessions) (session string) {
	id, ok := x.arrival.join(in)
	if !ok {
		return ""
	}
	r := in.at(id)
	r.Count(x.arrival.info, 1)
	r.Sketch(x.arrival.info, 1)
	in.put(id, r)
	if key := answerLink(x.arrival.account, x.arrival.info); key != nil {
		in.putLink(key, id)
	}
	return id.String()
}

// Rest returns the session that a request began which continues this answer and arrived before it; "" if there is none.
// It has to be merged into the session of the answer, see [Sessions.Unite].
func (x *Shipped) Rest() (session string) {
	if x.arrival.rest == (kv.SessionID{}) {
		return ""
	}
	return x.arrival.rest.String()
}

// AnswerKey identifies an answer by the provider's id, if requests name the answer that they continue; nil otherwise.
func AnswerKey(info *record.ExchangeInfo) []byte {
	if info.ResponseID == "" || !refersToAnswers(info.Surface) {
		return nil
	}
	return AnswerKeyOf(info.ResponseID)
}

// AnswerKeyOf is [AnswerKey] for an answer with that id.
func AnswerKeyOf(response string) []byte {
	key := record.LinkKey(0, record.Clue{Kind: record.ByResponse, Value: response})
	return key[len(key)-record.LinkHash:]
}

// Sessions are the sessions of one account that are read or changed together.
type Sessions struct {
	account  kv.AccountNumber
	read     func(id string) (record []byte, err error)   // nil: there is none
	readLink func(key []byte) (session string, err error) // "": no session

	sessions map[kv.SessionID]*record.StoredSession // nil: there is none
	words    map[kv.SessionID]SessionWords          // as they were read
	links    map[string]kv.SessionID
	changed  []kv.SessionID
	linked   []string
	err      error
}

// NewSessions returns the sessions of an account. read returns the record of one, nil if there is none; readLink
// returns the session that a key leads to, "" for none. [Sessions.Changed] returns their first error.
func NewSessions(account record.AccountNumber, read func(id string) ([]byte, error), readLink func(key []byte) (string, error)) *Sessions {
	return &Sessions{
		read: read, readLink: readLink, account: account,
		sessions: make(map[kv.SessionID]*record.StoredSession), words: make(map[kv.SessionID]SessionWords), links: make(map[string]kv.SessionID),
	}
}

func (s *Sessions) at(id kv.SessionID) *record.StoredSession {
	if r, known := s.sessions[id]; known {
		return r
	}
	stored, err := s.read(id.String())
	var r *record.StoredSession
	if err == nil && stored != nil {
		r = new(record.StoredSession)
		err = record.Decode(stored, r)
	}
	if err != nil {
		s.fail(err)
		return nil
	}
	s.sessions[id] = r
	if r != nil {
		s.words[id] = wordsOf(&r.Session)
	}
	return r
}

func (s *Sessions) put(id kv.SessionID, r *record.StoredSession) {
	s.sessions[id] = r
	if !slices.Contains(s.changed, id) {
		s.changed = append(s.changed, id)
	}
}

func (s *Sessions) link(key []byte) (id kv.SessionID, ok bool) {
	if id, known := s.links[string(key)]; known {
		return id, id != kv.SessionID{}
	}
	session, err := s.readLink(key)
	if err != nil {
		s.fail(err)
	}
	id, ok = kv.ParseSessionID(session)
	s.links[string(key)] = id
	return id, ok
}

func (s *Sessions) putLink(key []byte, id kv.SessionID) {
	s.links[string(key)] = id
	s.linked = append(s.linked, string(key))
}

func (s *Sessions) unlink(key []byte) { s.putLink(key, kv.SessionID{}) }

func (s *Sessions) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// SessionChange is a changed session.
type SessionChange struct {
	ID     string
	Place  string // its place among the others, in the form of an id
	Record []byte // nil: it is gone

	Words    SessionWords
	Reworded bool // Words have changed
}

// SessionWords are what a person has written to find a session by.
type SessionWords struct {
	Title string
	Tags  []string
}

func wordsOf(s *record.Session) SessionWords { return SessionWords{s.Title, slices.Clone(s.Tags)} }

func (w *SessionWords) equal(other *SessionWords) bool {
	return w.Title == other.Title && slices.Equal(w.Tags, other.Tags)
}

// LinkChange is a changed link to a session.
type LinkChange struct {
	Key     []byte
	Session string // "": the link is gone
}

// Changed returns the changes to store.
func (s *Sessions) Changed() (sessions []SessionChange, links []LinkChange, err error) {
	for _, id := range s.changed {
		c := SessionChange{ID: id.String()}
		if r := s.sessions[id]; r != nil {
			c.Record, c.Place = record.Encode(r), c.ID
			if id.IsNamed() {
				c.Place = id.Position(r.Created).Text(kv.SessionPrefix)
			}
			read := s.words[id]
			c.Words = wordsOf(&r.Session)
			c.Reworded = !c.Words.equal(&read)
		}
		sessions = append(sessions, c)
	}
	slices.Sort(s.linked)
	for _, key := range slices.Compact(s.linked) {
		l := LinkChange{Key: []byte(key)}
		if id := s.links[key]; id != (kv.SessionID{}) {
			l.Session = id.String()
		}
		links = append(links, l)
	}
	return sessions, links, s.err
}

// Replied links the opening and the first answer of a conversation to its session, if that is known only by its opening
// messages.
func (s *Sessions) Replied(session, reply string) {
	id, _ := kv.ParseSessionID(session)
	r := s.at(id)
	if r == nil || !r.Derived {
		return
	}
	key := record.LinkKey(s.account, record.Clue{Kind: record.ByReply, Value: reply})
	if _, taken := s.link(key); taken {
		return
	}
	r.Replied = true
	addLink(s, id, r, key)
	s.put(id, r)
}

// Describe sets a person's description of a session; nil if there is none. The texts are masked first.
func (s *Sessions) Describe(id string, d record.Description, redactor *redact.Redactor) (*record.Session, error) {
	if err := d.Check(); err != nil {
		return nil, err
	}
	key, ok := kv.ParseSessionID(id)
	if !ok {
		return nil, record.NoSession(id)
	}
	r, key := followed(s.at, key)
	if r == nil {
		return nil, record.NoSession(id)
	}
	d = record.RedactDescription(redactor, d)
	d.Set(&r.Title, &r.Tags, &r.Note)
	s.put(key, r)
	return &r.Session, nil
}

// Merge merges a session into another one, or into the one that was merged into, and returns its id. Links to the first
// then lead there; its exchanges still have to [Sessions.Move].
func (s *Sessions) Merge(from, into string) (target string, err error) {
	source, ok := kv.ParseSessionID(from)
	if !ok {
		return "", record.NoSession(from)
	}
	id, ok := kv.ParseSessionID(into)
	if !ok {
		return "", record.NoSession(into)
	}
	id, err = mergeSession(s, source, id)
	return id.String(), err
}

// MergedInto returns the session that one was merged into; "" if it was not, or cannot be read.
func (s *Sessions) MergedInto(session string) string {
	if id, ok := kv.ParseSessionID(session); ok {
		if r := s.at(id); r != nil {
			return r.Merged
		}
	}
	return ""
}

// Unite is [Sessions.Merge] for what turns out to be one conversation: what people have written about the session is
// kept. It does nothing if there is no room for that.
func (s *Sessions) Unite(rest, into string) (done bool) {
	from, _ := kv.ParseSessionID(rest)
	to, _ := kv.ParseSessionID(into)
	if !keepDescription(s, from, to) {
		return false
	}
	_, err := mergeSession(s, from, to)
	return err == nil
}

// Split creates a session to which exchanges of another one have to [Sessions.Move]: of source, which is from or the
// session that it was merged into.
func (s *Sessions) Split(from string, now time.Time) (source, target string, err error) {
	id, ok := kv.ParseSessionID(from)
	if !ok {
		return "", "", record.NoSession(from)
	}
	r, id := followed(s.at, id)
	if r == nil {
		return "", "", record.NoSession(from)
	}
	fresh := kv.SessionID(splitIDs.Next(now))
	s.put(fresh, r.SplitOff(fresh))
	return id.String(), fresh.String(), nil
}

// splitIDs generates ids of sessions outside of a store.
var splitIDs kv.IDSource

// Move counts an exchange in another session, to which the id of its answer then leads.
func (s *Sessions) Move(from, into string, info *record.ExchangeInfo) {
	source, _ := kv.ParseSessionID(from)
	target, _ := kv.ParseSessionID(into)
	recount(s, source, info, -1)
	recount(s, target, info, 1)
	if key := answerLink(s.account, info); key != nil {
		s.putLink(key, target)
	}
}

// Leave subtracts an exchange from the counts of its session. keys no longer lead there: the id of its answer, and if
// it was the last one and the session is gone with it, all others.
func (s *Sessions) Leave(session string, info *record.ExchangeInfo) (gone bool, keys [][]byte) {
	id, _ := kv.ParseSessionID(session)
	r := s.at(id)
	if r == nil {
		return false, nil
	}
	if key := answerLink(s.account, info); key != nil {
		keys = append(keys, key)
	}
	r.Exchanges--
	r.Count(info, -1)
	r.Sketch(info, -1)
	if r.Exchanges > 0 {
		s.put(id, r)
		return false, keys
	}
	s.put(id, nil)
	return true, append(keys, r.Links...)
}

// Assemble rebuilds an exchange from the parts of an entry: its record, the skeleton of its request and the parts of
// its answer. from has everything that the skeleton reaches.
func Assemble(account record.AccountNumber, info *record.ExchangeInfo, skeleton []byte, parts [][]byte, from Objects) (*record.Exchange, error) {
	x := &record.Exchange{ExchangeInfo: *info}
	r := blob.Reader{From: from, Account: account, Limit: int(min(info.RequestSize, math.MaxInt32))}
	var err error
	if x.RawRequest, err = r.AppendBody(make([]byte, 0, max(r.Limit, 0)), skeleton); err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	if int64(len(x.RawRequest)) != info.RequestSize {
		return nil, fmt.Errorf("request has %d bytes, its record says %d", len(x.RawRequest), info.RequestSize)
	}
	for _, part := range parts {
		if x.RawResponse, err = blob.AppendDecoded(x.RawResponse, part); err != nil {
			return nil, fmt.Errorf("answer: %w", err)
		}
	}
	return x, nil
}

// Turns are turns of one account that are digested together, in the order in which their exchanges ended.
type Turns struct {
	Digest   func(*record.Exchange) (record.Digest, error)
	Redactor *redact.Redactor // masks digests once more; may be nil
	Log      *slog.Logger

	// Stored data of the account, without what does not exist. [Turns.Changed] returns the first error.
	ReadHistories func([]History) (notes map[History][]byte, err error)
	ReadTurns     func(exchanges []string) (records map[string][]byte, err error)

	histories map[History][]byte // nil: there is none
	turns     map[kv.ExchangeID][]byte
	noted     []History
	placed    []kv.ExchangeID
	err       error
}

// History names a sequence of messages from the start of a session.
type History struct {
	Session string
	Hash    [16]byte
}

// Digested is the result for one exchange.
type Digested struct {
	Turn  *record.Turn
	Reply string // for [Sessions.Replied]; "" for nothing
}

// Add digests exchanges, each of which belongs to a session, and puts their turns in their places.
func (t *Turns) Add(exchanges []*record.Exchange) (digested []Digested) {
	if t.histories == nil {
		t.histories, t.turns = make(map[History][]byte), make(map[kv.ExchangeID][]byte)
	}
	readings := make([]reading, len(exchanges))
	for i, x := range exchanges {
		unread := max(int64(len(x.RawResponse))-mostDigested, 0)
		x.RawResponse = x.RawResponse[:min(len(x.RawResponse), mostDigested)]
		readings[i] = runDigest(x, record.Prefix{}, t.Digest, t.Redactor, t.Log)
		readings[i].unread = unread
	}
	t.look(exchanges, readings)
	for i, x := range exchanges {
		id, _ := kv.ParseExchangeID(x.ID)
		read, in := &readings[i], placedTurns{t, x.Session}
		made := &record.StoredTurn{Turn: record.Turn{Exchange: x.ID, Started: x.Started, Outcome: x.Outcome, Model: x.ModelAsked, AnswerUnread: read.unread}}
		if read.failure != nil {
			made.Error = read.failure.Error()
		} else {
			placeTurn(in, id, made, placeOf(in, id, read), read)
		}
		in.putTurn(id, record.EncodeTurn(made))
		digested = append(digested, Digested{&made.Turn, read.Reply})
	}
	return digested
}

// look reads together the histories that the requests may continue, and then the turns that they do continue.
func (t *Turns) look(exchanges []*record.Exchange, readings []reading) {
	var wanted []History
	for i := range readings {
		if readings[i].failure != nil {
			continue
		}
		for _, h := range append(slices.Clone(readings[i].history), readings[i].end) {
			of := History{exchanges[i].Session, h}
			if _, known := t.histories[of]; !known {
				t.histories[of] = nil
				wanted = append(wanted, of)
			}
		}
	}
	if len(wanted) == 0 {
		return
	}
	notes, err := t.ReadHistories(wanted)
	if err != nil {
		t.fail(err)
	}
	maps.Copy(t.histories, notes)
	var ids []string
	for i := range readings {
		history := readings[i].history
		for at := len(history) - 1; at >= 0; at-- {
			if note, ok := record.ReadHistoryNote(notes[History{exchanges[i].Session, history[at]}]); ok {
				ids = append(ids, note.ID.String())
				break
			}
		}
	}
	slices.Sort(ids)
	t.readTurns(slices.Compact(ids))
}

func (t *Turns) readTurns(ids []string) {
	if len(ids) == 0 {
		return
	}
	records, err := t.ReadTurns(ids)
	if err != nil {
		t.fail(err)
	}
	for _, text := range ids {
		id, _ := kv.ParseExchangeID(text)
		if _, known := t.turns[id]; !known {
			t.turns[id] = records[text]
		}
	}
}

func (t *Turns) fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// Changed returns what to store: records of turns by exchange, and notes by history.
func (t *Turns) Changed() (turns map[string][]byte, histories map[History][]byte, err error) {
	turns, histories = make(map[string][]byte), make(map[History][]byte)
	for _, id := range t.placed {
		turns[id.String()] = t.turns[id]
	}
	for _, h := range t.noted {
		histories[h] = t.histories[h]
	}
	return turns, histories, t.err
}

// placedTurns are those of one session.
type placedTurns struct {
	*Turns
	session string
}

func (t placedTurns) history(h record.HistoryHash) []byte { return t.histories[History{t.session, h}] }

func (t placedTurns) putHistory(h record.HistoryHash, note record.HistoryNote) {
	of := History{t.session, h}
	t.histories[of] = note.Append(nil)
	t.noted = append(t.noted, of)
}

func (t placedTurns) turn(id kv.ExchangeID) []byte {
	if _, known := t.turns[id]; !known {
		t.readTurns([]string{id.String()})
	}
	return t.turns[id]
}

func (t placedTurns) whole(id kv.ExchangeID) (*record.StoredTurn, error) {
	return record.DecodeTurn(t.turn(id), id, record.WholeTurns)
}

func (t placedTurns) putTurn(id kv.ExchangeID, record []byte) {
	t.turns[id] = record
	if !slices.Contains(t.placed, id) {
		t.placed = append(t.placed, id)
	}
}

// IsNode reports whether an object is a node, not a block.
func IsNode(ref ObjectRef) bool { return ref.Space == kv.SpaceNode }

// Evidence returns what [Shipped.Join] looks up first: the exchange's original session, and the keys that led there.
func (x *Shipped) Evidence() (session string, keys [][]byte) {
	if x.arrival.session == nil {
		return "", nil
	}
	for _, kind := range record.SessionKinds {
		if value := x.arrival.session.Known(kind); value != "" {
			keys = append(keys, record.LinkKey(x.arrival.account, record.Clue{Kind: kind, Value: value}))
		}
	}
	for _, link := range x.arrival.session.Links {
		if key, ok := record.LinkOf(x.arrival.account, link); ok {
			keys = append(keys, key)
		}
	}
	if key := answerLink(x.arrival.account, x.arrival.info); key != nil {
		keys = append(keys, key)
	}
	return x.arrival.session.ID, keys
}

// MeantBy reports whether an erasure selects the exchange, which arrives after it.
func (x *Shipped) MeantBy(e *record.Erasure, in *Sessions) bool { return selects(e, &x.arrival, in) }
