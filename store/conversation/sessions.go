package conversation

import (
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

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

// At implements [SessionStore].
func (s *Sessions) At(id kv.SessionID) *record.StoredSession {
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

// Put implements [SessionStore].
func (s *Sessions) Put(id kv.SessionID, r *record.StoredSession) {
	s.sessions[id] = r
	if !slices.Contains(s.changed, id) {
		s.changed = append(s.changed, id)
	}
}

// Link implements [SessionStore].
func (s *Sessions) Link(key []byte) (id kv.SessionID, ok bool) {
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

// PutLink implements [SessionStore].
func (s *Sessions) PutLink(key []byte, id kv.SessionID) {
	s.links[string(key)] = id
	s.linked = append(s.linked, string(key))
}

// Unlink implements [SessionStore].
func (s *Sessions) Unlink(key []byte) { s.PutLink(key, kv.SessionID{}) }

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
	r := s.At(id)
	if r == nil || !r.Derived {
		return
	}
	key := record.LinkKey(s.account, record.Clue{Kind: record.ByReply, Value: reply})
	if _, taken := s.Link(key); taken {
		return
	}
	r.Replied = true
	addLink(s, id, r, key)
	s.Put(id, r)
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
	r, key := Follow(s.At, key)
	if r == nil {
		return nil, record.NoSession(id)
	}
	d = record.RedactDescription(redactor, d)
	d.Set(&r.Title, &r.Tags, &r.Note)
	s.Put(key, r)
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
	id, err = Merge(s, source, id)
	return id.String(), err
}

// MergedInto returns the session that one was merged into; "" if it was not, or cannot be read.
func (s *Sessions) MergedInto(session string) string {
	if id, ok := kv.ParseSessionID(session); ok {
		if r := s.At(id); r != nil {
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
	_, err := Merge(s, from, to)
	return err == nil
}

// Split creates a session to which exchanges of another one have to [Sessions.Move]: of source, which is from or the
// session that it was merged into.
func (s *Sessions) Split(from string, now time.Time) (source, target string, err error) {
	id, ok := kv.ParseSessionID(from)
	if !ok {
		return "", "", record.NoSession(from)
	}
	r, id := Follow(s.At, id)
	if r == nil {
		return "", "", record.NoSession(from)
	}
	fresh := kv.SessionID(splitIDs.Next(now))
	s.Put(fresh, r.SplitOff(fresh))
	return id.String(), fresh.String(), nil
}

// splitIDs generates ids of sessions outside of a store.
var splitIDs kv.IDSource

// Move counts an exchange in another session, to which the id of its answer then leads.
func (s *Sessions) Move(from, into string, info *record.ExchangeInfo) {
	source, _ := kv.ParseSessionID(from)
	target, _ := kv.ParseSessionID(into)
	Recount(s, source, info, -1)
	Recount(s, target, info, 1)
	if key := AnswerLink(s.account, info); key != nil {
		s.PutLink(key, target)
	}
}

// Leave subtracts an exchange from the counts of its session. keys no longer lead there: the id of its answer, and if
// it was the last one and the session is gone with it, all others.
func (s *Sessions) Leave(session string, info *record.ExchangeInfo) (gone bool, keys [][]byte) {
	id, _ := kv.ParseSessionID(session)
	r := s.At(id)
	if r == nil {
		return false, nil
	}
	if key := AnswerLink(s.account, info); key != nil {
		keys = append(keys, key)
	}
	r.Exchanges--
	r.Count(info, -1)
	r.Sketch(info, -1)
	if r.Exchanges > 0 {
		s.Put(id, r)
		return false, keys
	}
	s.Put(id, nil)
	return true, append(keys, r.Links...)
}
