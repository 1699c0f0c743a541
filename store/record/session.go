package record

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Session is the exchanges of one conversation thread. The session of an exchange is decided when its opening is
// committed, from its evidence, strongest first:
//
//  1. the service chat key,
//  2. the service external session id,
//  3. the client's own conversation id,
//  4. the conversation object or the previous response in the request,
//  5. keys derived from the opening messages, only if there is none of the above.
//
// The first piece of evidence that leads to a session decides, unless that session has another value of a stronger
// kind: two chat keys are two sessions even with one external id. The exchange's evidence is then linked to its
// session, so that a chat key and an external id seen together stay together. A subagent of a client has its own
// session, whose parent is the session it works for.
//
// Auxiliary exchanges join the session that their evidence leads to. They open one only under an id, which the
// following turns have too; token counts open none. Requests that were refused before a provider was chosen also join,
// but open no session and link no evidence, so nothing joins them.
type Session struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"` // start of the last exchange
	Title   string    `json:"title,omitempty"`
	Tags    []string  `json:"tags,omitempty"`
	Note    string    `json:"note,omitempty"`        // a person's note
	Parent  string    `json:"parent,omitempty"`      // the session that this subagent works for
	Merged  string    `json:"merged_into,omitempty"` // where its exchanges went; the session is empty
	Derived bool      `json:"derived,omitempty"`     // found only by its opening messages

	ChatKey         string `json:"chat_key,omitempty"`
	ExternalSession string `json:"external_session,omitempty"`
	NativeSession   string `json:"native_session,omitempty"`
	Conversation    string `json:"conversation,omitempty"`
	Agent           string `json:"agent,omitempty"`

	Exchanges int64     `json:"exchanges"` // all, including auxiliary and failed ones
	Completed int64     `json:"completed"`
	Auxiliary int64     `json:"auxiliary,omitempty"`
	Usage     UsageInfo `json:"usage,omitzero"`
	Cost      Spending  `json:"cost,omitzero"`
	Models    []string  `json:"models,omitempty"`  // requested, in order of first use, the first few
	Prompts   []int64   `json:"prompts,omitempty"` // prompt tokens of the last turns, at most maxPrompts, without auxiliary exchanges

	// The first program and the first directory in its exchanges. Records of earlier versions have none.
	Client  string `json:"-"`
	Project string `json:"-"`

	Error *ErrorInfo `json:"error,omitempty"` // in lists: the record is unreadable, and only the fields before Title are known; in no record
}

// StoredSession is a session as it is stored.
type StoredSession struct {
	Session
	Replied bool     `json:"replied,omitempty"` // a derived reply key is linked
	Links   [][]byte `json:"links,omitempty"`   // keys under kv.SpaceLink that lead here
	Reply   []byte   `json:"reply,omitempty"`   // the derived reply key, not linked as long as the opening's leads here
	Former  string   `json:"former,omitempty"`  // the session that the id led to until it was erased

	Unheard bool `json:"-"` // no other session had the same opening when it began; not stored
}

// MaxMerges is how many merges are followed from a session to the one that has its exchanges.
const MaxMerges = 8

const (
	MaxSessionModels = 8
	maxPrompts       = 24 // as many as a small chart shows
	MaxSessionLinks  = 64 // further evidence is not linked: a session has a handful
)

// Kinds of evidence in link keys.
const (
	ByChatKey      = 'k'
	ByExternal     = 'x'
	ByNative       = 'n'
	ByConversation = 'v'
	ByResponse     = 'r'
	ByOpening      = 'o'
	ByReply        = 'd'
	ByBegin        = 't' // see session_order.go
)

// Clue is one piece of evidence.
type Clue struct {
	Kind  byte
	Value string
}

// LinkKey returns the key of a clue. Values are hashed: they have any length, and some are secret-like.
func LinkKey(account kv.AccountNumber, c Clue) []byte {
	return AppendLinkKey(make([]byte, 0, kv.KeyRoom), account, c)
}

// AppendLinkKey appends the key of a clue.
func AppendLinkKey(dst []byte, account kv.AccountNumber, c Clue) []byte {
	h := blake3.Sum256([]byte(c.Value))
	return append(append(kv.AppendSpaceKey(dst, kv.SpaceLink, account), c.Kind), h[:16]...)
}

// Known returns the session's own value for a kind of clue.
func (r *StoredSession) Known(kind byte) string {
	value := *r.IDOf(kind)
	if value != "" && r.Agent != "" {
		value += "\x00" + r.Agent
	}
	return value
}

// IDOf returns the place of an id of a kind.
func (r *StoredSession) IDOf(kind byte) *string {
	switch kind {
	case ByChatKey:
		return &r.ChatKey
	case ByExternal:
		return &r.ExternalSession
	case ByNative:
		return &r.NativeSession
	case ByConversation:
		return &r.Conversation
	}
	return new(string)
}

// Linked is what a session's record says of the evidence that leads to it.
type Linked struct {
	chatKey, external, native, conversation string
	replied                                 bool
	links                                   int
}

// Linked returns the evidence that leads to the session. Two results are equal if no link was added between them.
func (r *StoredSession) Linked() Linked {
	return Linked{r.ChatKey, r.ExternalSession, r.NativeSession, r.Conversation, r.Replied, len(r.Links)}
}

// Accepts reports whether no stronger clue contradicts the session.
func (r *StoredSession) Accepts(stronger []Clue) bool {
	for _, c := range stronger {
		if value := r.Known(c.Kind); value != "" && value != c.Value {
			return false
		}
	}
	return true
}

// AddModel notes a requested model.
func (s *Session) AddModel(model string) {
	if model != "" && len(s.Models) < MaxSessionModels && !slices.Contains(s.Models, model) {
		s.Models = append(s.Models, model)
	}
}

// NoteOrigin notes the program and the directory of an exchange, unless there already is one.
func (s *Session) NoteOrigin(client, project string) {
	s.Client, s.Project = cmp.Or(s.Client, client), cmp.Or(s.Project, project)
}

// KeepLink notes that a key leads to the session. It returns false if the session has too many.
func (r *StoredSession) KeepLink(key []byte) bool {
	if len(r.Links) >= MaxSessionLinks {
		return false
	}
	if !slices.ContainsFunc(r.Links, func(have []byte) bool { return bytes.Equal(have, key) }) {
		r.Links = append(r.Links, key)
	}
	return true
}

// Count adds an ended exchange to the session's counts, or subtracts it if sign is -1.
func (s *Session) Count(info *ExchangeInfo, sign int64) {
	if info.Outcome == OutcomeComplete {
		s.Completed += sign
	}
	if info.Auxiliary != "" {
		s.Auxiliary += sign
	}
	s.Usage.count(&info.Usage, sign)
	s.Usage.Estimated = s.Usage.Estimated || info.Usage.Estimated
	s.Cost.Count(info, sign)
}

// Sketch adds a turn to the session's chart of prompts, or removes it if sign is -1.
func (s *Session) Sketch(info *ExchangeInfo, sign int64) {
	size := codec.Usage(info.Usage).TotalInput()
	if info.Auxiliary != "" || size <= 0 {
		return
	}
	if sign < 0 {
		if i := slices.Index(s.Prompts, size); i >= 0 {
			s.Prompts = slices.Delete(slices.Clone(s.Prompts), i, i+1)
		}
		return
	}
	last := s.Prompts[max(len(s.Prompts)-maxPrompts+1, 0):]
	s.Prompts = append(append(make([]int64, 0, len(last)+1), last...), size) // others may read the old slice
}

// SplitOff returns a session for some of r's exchanges.
func (r *StoredSession) SplitOff(id kv.SessionID) *StoredSession {
	return &StoredSession{Session: Session{
		ID: id.String(), Account: r.Account, Created: time.Now().UTC(), Updated: r.Updated,
		Parent: r.Parent, Agent: r.Agent, Models: slices.Clone(r.Models), Client: r.Client, Project: r.Project,
	}}
}

func (r *StoredSession) fields(f *fieldCodec) {
	f.string(1, &r.ID)
	f.string(2, &r.Account)
	f.time(3, &r.Created)
	f.time(4, &r.Updated)
	f.string(5, &r.Title)
	f.strings(6, &r.Tags)
	f.string(7, &r.Parent)
	f.string(8, &r.Merged)
	f.flag(9, &r.Derived)
	f.string(10, &r.ChatKey)
	f.string(11, &r.ExternalSession)
	f.string(12, &r.NativeSession)
	f.string(13, &r.Conversation)
	f.string(14, &r.Agent)
	number(f, 15, &r.Exchanges)
	number(f, 16, &r.Completed)
	number(f, 17, &r.Auxiliary)
	message(f, 18, &r.Usage)
	f.strings(19, &r.Models)
	optional(f, 20, &r.Error)
	f.flag(21, &r.Replied)
	f.keys(22, &r.Links)
	message(f, 23, &r.Cost)
	f.string(24, &r.Note)
	f.numbers(25, &r.Prompts)
	f.string(26, &r.Client)
	f.string(27, &r.Project)
	f.string(28, &r.Former)
	f.bytes(29, &r.Reply)
}

// ReadSession reads a session's record.
func ReadSession(record []byte) (*Session, error) {
	r := new(StoredSession)
	return &r.Session, Decode(record, r)
}

// FollowMerges returns the session that has the exchanges of a session: itself, or the one that it was merged into. read
// reads a session; its errors are returned.
func FollowMerges(session string, read func(id string) (*Session, error)) (*Session, error) {
	s, err := read(session)
	for range MaxMerges {
		if err != nil || s.Merged == "" {
			break
		}
		s, err = read(s.Merged)
	}
	return s, err
}
