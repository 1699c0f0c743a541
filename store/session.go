package store

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
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

// sessionRecord is a session as it is stored.
type sessionRecord struct {
	Session
	Replied bool     `json:"replied,omitempty"` // a derived reply key is linked
	Links   [][]byte `json:"links,omitempty"`   // keys under kv.SpaceLink that lead here
	Former  string   `json:"former,omitempty"`  // the session that the id led to until it was erased

	unheard bool // no other session had the same opening when it began; not stored
}

// MaxMerges is how many merges are followed from a session to the one that has its exchanges.
const MaxMerges = 8

const (
	maxSessionModels = 8
	maxPrompts       = 24 // as many as a small chart shows
	maxSessionLinks  = 64 // further evidence is not linked: a session has a handful
)

// Kinds of evidence in link keys.
const (
	byChatKey      = 'k'
	byExternal     = 'x'
	byNative       = 'n'
	byConversation = 'v'
	byResponse     = 'r'
	byOpening      = 'o'
	byReply        = 'd'
	byBegin        = 't' // see session_order.go
)

// clue is one piece of evidence.
type clue struct {
	kind  byte
	value string
}

// evidence is what an opening says about its session.
type evidence struct {
	explicit                 []clue // ids, strongest first; an agent's differ from those of the session it works in
	parent                   []clue // the same for the session that the agent works for
	agent                    string
	response, opening, reply string
	follows                  kv.SessionID // of another node's answer that the request continues; zero: none
	auxiliary                bool
	refused                  bool                      // no provider was chosen
	ids                      [len(sessionKinds)]string // of explicit, without an agent

	room [4]clue // for explicit
	of   sessionFacts
}

// sessionFacts is what a session's record takes from an exchange that begins.
type sessionFacts struct {
	account, surface, model, auxiliary, client, project string
	started                                             time.Time
}

// evidenceOf collects the evidence of an opening and its record, whose texts it shares.
func evidenceOf(o *Opening, info *ExchangeInfo) *evidence {
	e := &evidence{
		of:    sessionFacts{info.Account, info.Surface, info.ModelAsked, info.Auxiliary, info.Client(), info.Project, info.Started},
		agent: o.NativeAgent, response: o.PreviousResponse, opening: o.DerivedOpening, reply: o.DerivedReply, auxiliary: o.Auxiliary != "",
		refused: o.Format == codec.FormatUnknown,
		ids:     [...]string{o.ChatKey, o.ExternalSession, o.NativeSession, o.Conversation},
	}
	if id, ok := kv.ParseSessionID(o.Follows); ok {
		e.follows = id
	}
	e.explicit = e.clues(e.room[:0], o.NativeAgent)
	if o.NativeAgent != "" {
		e.parent = e.clues(nil, o.NativeParent)
	}
	return e
}

func (e *evidence) clues(clues []clue, agent string) []clue {
	for i, kind := range sessionKinds {
		c := clue{kind, e.ids[i]}
		if c.value == "" {
			continue
		}
		if agent != "" {
			c.value += "\x00" + agent
		}
		clues = append(clues, c)
	}
	return clues
}

// none reports whether there is no evidence at all.
func (e *evidence) none() bool {
	return len(e.explicit) == 0 && e.response == "" && e.opening == "" && e.reply == ""
}

// linkKey returns the key of a clue. Values are hashed: they have any length, and some are secret-like.
func linkKey(account kv.AccountNumber, c clue) []byte {
	return appendLinkKey(make([]byte, 0, kv.KeyRoom), account, c)
}

func appendLinkKey(dst []byte, account kv.AccountNumber, c clue) []byte {
	h := blake3.Sum256([]byte(c.value))
	return append(append(kv.AppendSpaceKey(dst, kv.SpaceLink, account), c.kind), h[:16]...)
}

// known returns the session's own value for a kind of clue.
func (r *sessionRecord) known(kind byte) string {
	value := *r.idOf(kind)
	if value != "" && r.Agent != "" {
		value += "\x00" + r.Agent
	}
	return value
}

// idOf returns the place of an id of a kind.
func (r *sessionRecord) idOf(kind byte) *string {
	switch kind {
	case byChatKey:
		return &r.ChatKey
	case byExternal:
		return &r.ExternalSession
	case byNative:
		return &r.NativeSession
	case byConversation:
		return &r.Conversation
	}
	return new(string)
}

// sessionLinks is what a session's record says of the evidence that leads to it.
type sessionLinks struct {
	chatKey, external, native, conversation string
	replied                                 bool
	links                                   int
}

func (r *sessionRecord) linked() sessionLinks {
	return sessionLinks{r.ChatKey, r.ExternalSession, r.NativeSession, r.Conversation, r.Replied, len(r.Links)}
}

// accepts reports whether no stronger clue contradicts the session.
func (r *sessionRecord) accepts(stronger []clue) bool {
	for _, c := range stronger {
		if value := r.known(c.kind); value != "" && value != c.value {
			return false
		}
	}
	return true
}

// sessionRef identifies a session of an account.
type sessionRef struct {
	account kv.AccountNumber
	id      kv.SessionID
}

func (g *commitGroup) link(account kv.AccountNumber, c clue) (sessionRef, bool) {
	id, ok := g.linkAt(appendLinkKey(g.sought[:0], account, c))
	return sessionRef{account, id}, ok
}

// linkAt returns the session that a link leads to.
func (g *commitGroup) linkAt(key []byte) (id kv.SessionID, ok bool) {
	value := g.get(key)
	if len(value) != len(id) {
		return id, false
	}
	return kv.SessionID(value), true
}

// sessionAt returns the record of the exact session; nil if none is readable. A caller that changes it must put it.
func (g *commitGroup) sessionAt(ref sessionRef) *sessionRecord {
	if r := g.store.ahead.at(ref); r != nil {
		return r
	}
	if r, ok := g.recent.sessions[ref]; ok {
		return r
	}
	value := g.get(kv.SessionKey(ref.account, ref.id))
	if value == nil {
		return nil
	}
	r := new(sessionRecord)
	if err := decodeRecord(value, r); err != nil {
		g.store.log.Error("the record of a session cannot be read", "session", ref.id.String(), "error", err)
		return nil
	}
	return r
}

// session returns a session's record, or that of the session it was merged into; nil if there is none.
func (g *commitGroup) session(ref sessionRef) (*sessionRecord, sessionRef) {
	r, id := followed(func(id kv.SessionID) *sessionRecord { return g.sessionAt(sessionRef{ref.account, id}) }, ref.id)
	return r, sessionRef{ref.account, id}
}

// belongs returns the session of an exchange, even while it is being moved to another.
func (g *commitGroup) belongs(account kv.AccountNumber, id kv.ExchangeID) (*sessionRecord, sessionRef) {
	value := g.get(kv.AppendExchangeKey(g.sought[:0], kv.SpaceBelongs, account, id))
	if len(value) != len(kv.SessionID{}) {
		return nil, sessionRef{}
	}
	ref := sessionRef{account, kv.SessionID(value)}
	return g.sessionAt(ref), ref
}

func (g *commitGroup) putSession(w *operation, ref sessionRef, r *sessionRecord) {
	encoded := appendFields(buffer.Get(1<<10), r)
	g.put(w, kv.AppendSessionKey(g.room(), ref.account, ref.id), g.keep(encoded))
	buffer.Put(encoded)
	g.recent.sessions[ref] = r
}

// openSession finds or creates the session of an opening, and adds the exchange to it.
func (g *commitGroup) openSession(w *operation) {
	var (
		c       = w.capture
		e       = w.evidence
		account = c.account
	)
	if e.none() && e.of.surface == codec.Embeddings.String() {
		return // embeddings are not a conversation
	}
	r, ref, unheard := g.findSession(account, e)
	if r == nil && (e.refused || e.of.auxiliary == AuxiliaryTokens || e.auxiliary && len(e.explicit) == 0) {
		return
	}
	if r == nil {
		r, ref = g.sharedSession(account, e)
	}
	fresh := r == nil
	if fresh {
		if ref.id == (kv.SessionID{}) {
			ref = sessionRef{account, kv.SessionID(g.store.ids.Next(e.of.started))}
		}
		g.recent.begin(ref)
		r = &sessionRecord{Session: Session{
			ID: ref.id.String(), Account: e.of.account, Created: e.of.started,
			Agent: e.agent, Derived: len(e.explicit) == 0,
		}, unheard: unheard}
		for _, clue := range e.parent {
			if parent, ok := g.link(account, clue); ok {
				r.Parent = parent.id.String()
				break
			}
		}
		g.order(w, ref, r)
	}
	c.session, c.sessionName = ref.id, r.ID
	before := r.linked()
	if !e.refused {
		g.linkSession(w, ref, r)
	}
	r.Exchanges++
	if e.of.started.After(r.Updated) {
		r.Updated = e.of.started
	}
	r.addModel(e.of.model)
	r.comesFrom(e.of.client, e.of.project)
	if fresh || r.linked() != before {
		g.putSession(w, ref, r)
	} else {
		g.countSession(w, ref, r)
	}
	g.put(w, kv.AppendMemberKey(g.room(), account, ref.id, c.id), []byte{})
	g.putID(w, kv.AppendExchangeKey(g.room(), kv.SpaceBelongs, account, c.id), kv.TimeID(ref.id))
}

// addModel notes a requested model.
func (s *Session) addModel(model string) {
	if model != "" && len(s.Models) < maxSessionModels && !slices.Contains(s.Models, model) {
		s.Models = append(s.Models, model)
	}
}

// comesFrom notes the program and the directory of an exchange, unless there already is one.
func (s *Session) comesFrom(client, project string) {
	s.Client, s.Project = cmp.Or(s.Client, client), cmp.Or(s.Project, project)
}

// findSession weighs the evidence; nil means a new session. unheard reports that no session of the account has the same
// opening.
func (g *commitGroup) findSession(account kv.AccountNumber, e *evidence) (r *sessionRecord, ref sessionRef, unheard bool) {
	for i, c := range e.explicit {
		if r, ref := g.follow(account, c, e.explicit[:i]); r != nil {
			return r, ref, false
		}
	}
	if len(e.explicit) == 0 && e.follows != (kv.SessionID{}) { // a link may be of an attempt that did not find the answer
		r, ref := g.sharedSession(account, e)
		return r, ref, false
	}
	if e.response != "" {
		if r, ref := g.follow(account, clue{byResponse, e.response}, e.explicit); r != nil {
			return r, ref, false
		}
	}
	if len(e.explicit) > 0 {
		return nil, sessionRef{}, false
	}
	if e.reply != "" {
		if r, ref := g.follow(account, clue{byReply, e.reply}, nil); r != nil {
			return r, ref, false
		}
	}
	if e.opening == "" {
		return nil, sessionRef{}, false
	}
	ref, heard := g.link(account, clue{byOpening, e.opening})
	if !heard {
		return nil, sessionRef{}, true
	}
	r, ref = g.session(ref)
	switch {
	case r == nil:
	case e.reply != "" && !r.Replied: // the second turn, before the first one's answer was digested
		return r, ref, false
	case e.reply == "" && r.Completed == 0: // the first turn again, after it failed
		return r, ref, false
	}
	return nil, sessionRef{}, false // another conversation that opens with the same words
}

func (g *commitGroup) follow(account kv.AccountNumber, c clue, stronger []clue) (*sessionRecord, sessionRef) {
	ref, ok := g.link(account, c)
	if !ok {
		return nil, ref
	}
	r, ref := g.session(ref)
	if r == nil || !r.accepts(stronger) {
		return nil, ref
	}
	return r, ref
}

// linkSession links an opening's evidence to its session, unless it leads elsewhere already.
func (g *commitGroup) linkSession(w *operation, ref sessionRef, r *sessionRecord) {
	e := w.evidence
	for _, c := range e.explicit {
		if _, taken := g.link(ref.account, c); taken || r.known(c.kind) != "" && r.known(c.kind) != c.value {
			continue
		}
		*r.idOf(c.kind) = e.ids[slices.Index(sessionKinds[:], c.kind)]
		g.addLink(w, ref, r, c)
	}
	if len(e.explicit) > 0 || e.auxiliary {
		return
	}
	g.linkUnheard(w, ref, r)
	if e.opening != "" && r.Exchanges == 0 {
		g.addLink(w, ref, r, clue{byOpening, e.opening})
	}
	if e.reply != "" {
		g.linkReply(w, ref, r, e.reply)
	}
}

// linkReply links the key of a conversation's opening and first answer, once there is one.
func (g *commitGroup) linkReply(w *operation, ref sessionRef, r *sessionRecord, reply string) {
	c := clue{byReply, reply}
	if !r.unheard || r.Replied { // otherwise the same opening had never been answered before, and looking for what does not exist is expensive
		if _, taken := g.link(ref.account, c); taken {
			return
		}
	}
	r.Replied = true
	g.addLink(w, ref, r, c)
}

func (g *commitGroup) addLink(w *operation, ref sessionRef, r *sessionRecord, c clue) {
	if key := linkKey(ref.account, c); r.keepLink(key) {
		g.putID(w, key, kv.TimeID(ref.id))
	}
}

// keepLink notes that a key leads to the session. It returns false if the session has too many.
func (r *sessionRecord) keepLink(key []byte) bool {
	if len(r.Links) >= maxSessionLinks {
		return false
	}
	if !slices.ContainsFunc(r.Links, func(have []byte) bool { return bytes.Equal(have, key) }) {
		r.Links = append(r.Links, key)
	}
	return true
}

// closeSession counts an ended exchange in its session, and adds its digest or leaves that to the digester.
func (g *commitGroup) closeSession(w *operation, account kv.AccountNumber, id kv.ExchangeID, info *ExchangeInfo) {
	g.ship(w, account, id)
	g.rollUp(w, account, info)
	r, ref := g.belongs(account, id)
	if r == nil {
		return
	}
	r.count(info, 1)
	r.sketch(info, 1)
	g.linkResponse(w, ref, info)
	if g.store.opts.Digest == nil || info.Auxiliary != "" {
		g.putSession(w, ref, r)
		return
	}
	logged := g.store.feed.last
	g.countSession(w, ref, r)
	if w.digest == nil || !(Feed{g.store}).digested(ref) || w.digest(g, w) != nil {
		w.undigested = g.ended(ref, id)
	}
	if g.store.feed.last == logged { // after a crash the log does not lead to the session
		g.putSession(w, ref, r)
	}
}

// refersToAnswers reports whether requests of a surface may refer to earlier answers by their ids.
func refersToAnswers(surface string) bool {
	format, err := codec.ParseFormat(surface)
	return err == nil && crossing.Traits(format).Client.StoredAnswers
}

// linkResponse links the id of an answer to its session, on the surface whose requests name the answer that they
// continue: the other formats have no field for it.
func (g *commitGroup) linkResponse(w *operation, ref sessionRef, info *ExchangeInfo) {
	if key := answerLink(ref.account, info); key != nil {
		g.putID(w, key, kv.TimeID(ref.id))
	}
}

// count adds an ended exchange to the session's counts, or subtracts it if sign is -1.
func (s *Session) count(info *ExchangeInfo, sign int64) {
	if info.Outcome == OutcomeComplete {
		s.Completed += sign
	}
	if info.Auxiliary != "" {
		s.Auxiliary += sign
	}
	s.Usage.count(&info.Usage, sign)
	s.Usage.Estimated = s.Usage.Estimated || info.Usage.Estimated
	s.Cost.count(info, sign)
}

// sketch adds a turn to the session's chart of prompts, or removes it if sign is -1.
func (s *Session) sketch(info *ExchangeInfo, sign int64) {
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
