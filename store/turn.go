package store

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Digest is the content of an exchange, independent of its format, made by [Options.Digest].
type Digest struct {
	Messages []Message // the request's whole history, oldest first, without the opening text
	Answer   []Message // the model's answer, as far as it arrived
	Reply    string    // derived key of the opening messages and the first answer, "" if there is no answer

	// Starts holds for each of Messages the index of the request's item with which it begins. Messages from that item
	// on must not depend on anything before it. nil: unknown, or they do depend.
	Starts []int
}

// Message is one step of a conversation.
type Message struct {
	Role  string `json:"role"` // user, assistant, tool, system
	Parts []Part `json:"parts"`
}

// Part is a piece of a message.
type Part struct {
	Kind      string `json:"kind"` // text, reasoning, call, result, media
	Text      string `json:"text,omitempty"`
	CallID    string `json:"call_id,omitempty"`
	Name      string `json:"name,omitempty"`      // of the tool that is called or has answered, or of a file
	Arguments string `json:"arguments,omitempty"` // of a call: JSON
	Failed    bool   `json:"failed,omitempty"`    // a result that is an error
	MediaType string `json:"media_type,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"` // of media; the bytes are in the raw request
	URL       string `json:"url,omitempty"`   // of media that the request only refers to
}

// Turn is what an exchange added to its session: the messages not seen before, and the answer.
type Turn struct {
	Exchange  string    `json:"exchange"`
	Started   time.Time `json:"started"`
	Outcome   Outcome   `json:"outcome"`
	Model     string    `json:"model,omitempty"`
	Parent    string    `json:"parent,omitempty"`    // the exchange whose history this one continues, or, for a branch, from inside
	Branch    bool      `json:"branch,omitempty"`    // another exchange continued from the same place first
	Continued string    `json:"continued,omitempty"` // the first exchange that continues from here
	Known     int       `json:"known,omitempty"`     // messages of the request that were seen before
	Messages  []Message `json:"messages,omitempty"`
	Answer    []Message `json:"answer,omitempty"`

	// AnswerUnread is how many bytes at the end of the recorded answer are not in Answer, because it is too long.
	AnswerUnread int64 `json:"answer_unread,omitempty"`

	Error string `json:"error,omitempty"` // why the exchange could not be digested, or the turn not be read
}

// turnRecord is a turn as it is stored.
type turnRecord struct {
	Turn
	Histories []historyHash `json:"histories,omitempty"` // of histories that lead to this exchange, see kv.SpaceHistory
}

// historyHash identifies a sequence of messages from the start of a conversation.
type historyHash [16]byte

// MarshalText writes the hash in hexadecimal digits.
func (h historyHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText writes.
func (h *historyHash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return errors.New("a history has 32 hexadecimal digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// then returns the hash of the history with one more message. It covers what clients send back unchanged: roles, texts,
// calls and results. It does not cover reasoning, which many leave out, nor images that the assistant made, nor system
// messages: Claude Code adds, rewrites and drops them when its environment or the model changes.
func (h historyHash) then(m *Message) historyHash {
	if m.Role == "system" {
		return h
	}
	size := 64
	for i := range m.Parts {
		size += len(m.Parts[i].Text) + len(m.Parts[i].Arguments) + 64
	}
	text := append(buffer.Get(size), h[:]...)
	field := func(s string) { text = append(append(text, s...), 0) }
	field(m.Role)
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind == "reasoning" || p.Kind == "media" && m.Role == "assistant" {
			continue
		}
		field(p.Kind)
		field(strings.TrimSpace(p.Text))
		field(p.CallID)
		field(p.Name)
		field(compactJSON(p.Arguments))
		field(p.MediaType)
	}
	sum := blake3.Sum256(text)
	buffer.Put(text)
	return historyHash(sum[:16])
}

// compactJSON removes white space from JSON, so that differently formatted arguments are the same call.
func compactJSON(text string) string {
	var b bytes.Buffer
	if text == "" || json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}

// mostDigested is how many bytes of an answer are digested: 110,000 tokens of a stream that sends every token in an
// event of its own, with 300 bytes around it.
const mostDigested = 32 << 20

// digestExchange derives the turn of a committed exchange, from memory if it was captured there. Repeating it gives the
// same turn. The result is useless if ctx has ended. size is how many bytes were read.
func (s *core) digestExchange(ctx context.Context, p place, captured *Exchange) (_ change, size int64) {
	var items *RequestItems
	if captured != nil {
		items = captured.Items.unread()
		s.digester.prefixes.skipKnown(p.account, captured)
	}
	read, ok := s.readCaptured(p.account, captured)
	if !ok {
		read = s.readBack(ctx, p, items)
	}
	whole := func() reading { return s.readBack(context.WithoutCancel(ctx), p, items) }
	return s.digestOf(p, read, whole), read.size
}

// errUnread means that what was read of an exchange does not suffice: more of its request has to be read.
var errUnread = errors.New("more of the request has to be read")

// digestOf returns the change that puts the turn of an exchange. whole reads all of the exchange. It is nil before the
// exchange is committed; if it is needed then, the change fails with errUnread before it has put anything.
func (s *core) digestOf(p place, read reading, whole func() reading) change {
	account, id := p.account, p.id
	return func(g *commitGroup, w *operation) error {
		r, ref := g.belongs(account, id)
		if read.info == nil || r == nil || r.Merged != "" || read.info.Outcome == OutcomeOpen || read.info.Auxiliary != "" {
			return nil // erased in the meantime, or moving to another session, where it is digested again, or it has no turn
		}
		placed := &storedTurns{g, w, ref, r.Exchanges == 1 && g.recent.whole(ref)}
		at := placeOf(placed, id, &read)
		if at.known < read.before { // the same items were read before, but not in this session, or were erased there
			if whole == nil {
				return errUnread
			}
			if read = whole(); read.info == nil {
				return nil
			}
			at = placeOf(placed, id, &read)
		}
		changed := g.changedTurn(ref, id, r.ID, read.info.ID)
		w.digested = Event{
			Kind: TurnDigested, Exchange: changed.Exchange, Session: changed.Session, KeyID: read.info.KeyID, Outcome: read.info.Outcome, Time: time.Now().UTC(), Account: account,
		}
		turn := &turnRecord{Turn: Turn{Exchange: changed.Exchange, Started: read.info.Started, Outcome: read.info.Outcome, Model: read.info.ModelAsked, AnswerUnread: read.unread}}
		g.sessionGrew(w, ref)
		if read.failure != nil {
			turn.Error = read.failure.Error()
			placed.putTurn(id, encodeTurn(turn))
			return nil //nolint:nilerr // the turn says what failed
		}
		placeTurn(placed, id, turn, at, &read)
		if later, ok := kv.ParseExchangeID(turn.Continued); ok {
			g.changed(ref, later)
		}
		if before := r.linked(); read.Reply != "" && r.Derived {
			if g.linkReply(w, ref, r, read.Reply); r.linked() != before {
				g.putSession(w, ref, r)
			}
		}
		changed.Turn, changed.Fresh, changed.size = &TimelineEntry{Exchange: *read.info, Turn: &turn.Turn}, read.fresh, read.size
		changed.Turn.Exchange.Session = changed.Session
		encoded := appendTurn(buffer.Get(1<<10), turn, read.text, at.known-read.before)
		placed.putTurn(id, g.keep(encoded))
		buffer.Put(encoded)
		return nil
	}
}

// reading is what was read of an exchange.
type reading struct {
	Digest
	info    *ExchangeInfo // nil: it is gone
	size    int64         // bytes of it that were read
	fresh   bool          // just ended, and never digested before
	failure error         // why it could not be digested
	unread  int64         // bytes of the answer that were not read: it is longer than mostDigested

	before  int           // messages of the request before Messages, which were not read
	history []historyHash // after the messages before, and after each of Messages
	end     historyHash   // after the answer

	text *turnText // of Messages and Answer; nil: stored in the turn itself
}

// readCaptured reads the part of a handed-over exchange that is not known from earlier requests, and releases its
// bytes. ok is false if the exchange was not handed over, or not completely when all of it is needed: errors in a
// request are reported for the whole request.
func (s *core) readCaptured(account kv.AccountNumber, x *Exchange) (r reading, ok bool) {
	if x == nil {
		return reading{}, false
	}
	defer s.digester.release(x)
	if x.RawRequest == nil {
		return reading{}, false
	}
	var known prefix
	if x.Items != nil {
		known = x.Items.known
	}
	r = s.runDigest(x, known)
	if r.failure != nil && known.messages > 0 {
		return reading{}, false
	}
	if r.failure == nil {
		s.digester.prefixes.remember(account, x, &r)
		r.text = textOver(x, &r)
	}
	r.info = &x.ExchangeInfo
	r.size, r.fresh = int64(len(x.RawRequest)+len(x.RawResponse)), true
	return r, true
}

// readBack reads an exchange from the store: its whole request, and mostDigested bytes of its answer. Items are those of
// the whole request; nil: they are unknown.
func (s *core) readBack(ctx context.Context, p place, items *RequestItems) (r reading) {
	var info *ExchangeInfo
	var x *Exchange
	err := s.view(func(tx *badger.Txn) (err error) {
		if info, err = getInfo(tx, p.account, p.id); err != nil {
			return err
		}
		if x, err = getExchange(ctx, tx, p.account, p.id, info, mostDigested); err == nil && len(x.RawResponse) > 0 {
			x.Stored, err = appendFirstPart(nil, tx, p.account, p.id)
		}
		return err
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound) && info == nil || ctx.Err() != nil:
		return r
	case err != nil:
		s.log.Error("an exchange cannot be read to be digested", "exchange", p.id.String(), "error", err)
		r.failure = errors.New("the exchange cannot be read")
	default:
		x.Items = items
		r = s.runDigest(x, prefix{})
		r.unread = max(info.ResponseSize-mostDigested, 0)
		if r.failure == nil {
			s.digester.prefixes.remember(p.account, x, &r)
			r.text = textOver(x, &r)
		}
	}
	if r.info = info; info != nil {
		r.size = info.RequestSize + info.ResponseSize - r.unread
	}
	return r
}

// runDigest calls [Options.Digest]; known is the part before the items that it has to read.
func (s *core) runDigest(x *Exchange, known prefix) reading {
	return runDigest(x, known, s.opts.Digest, s.credentials.Redactor(x.Account), s.log)
}

func runDigest(x *Exchange, known prefix, run func(*Exchange) (Digest, error), redactor *redact.Redactor, log *slog.Logger) (r reading) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("digesting an exchange panicked", "exchange", x.ID, "panic", p)
			r = reading{failure: errors.New("digesting failed")}
		}
	}()
	digest, err := run(x)
	if err != nil {
		r.failure = errors.New(codec.AsError(err, "digesting failed").Message)
		return r
	}
	withhold(digest.Messages)
	withhold(digest.Answer)
	redactDigest(redactor, &digest)
	r.Digest, r.before = digest, known.messages
	r.history = append(make([]historyHash, 0, len(r.Messages)+1), known.history)
	for i := range r.Messages {
		r.history = append(r.history, r.history[i].then(&r.Messages[i]))
	}
	r.end = r.history[len(r.Messages)]
	for i := range r.Answer[:min(len(r.Answer), 1)] { // the history goes on from one of several answers
		r.end = r.end.then(&r.Answer[i])
	}
	return r
}

// turnPlace is where a turn continues its session's history.
type turnPlace struct {
	known  int    // messages of the request whose histories lead to other exchanges
	parent string // as in [Turn]
	branch bool
	onward kv.ExchangeID // the parent, if the turn continues from its end; else zero
	later  *laterTurn    // that continues from this one and was placed before it; nil: none
}

// turns are the stored histories and turns of a session. What is put is visible from then on.
type turns interface {
	history(h historyHash) []byte // a note as [historyNote.append] makes it; nil: none
	putHistory(h historyHash, note historyNote)
	turn(id kv.ExchangeID) []byte                // as [encodeTurn] returns it; nil: none
	whole(id kv.ExchangeID) (*turnRecord, error) // with its text
	putTurn(id kv.ExchangeID, value []byte)
}

// storedTurns are those of a session in the store.
type storedTurns struct {
	g     *commitGroup
	w     *operation
	ref   sessionRef
	alone bool // the session is new and has no other exchange, so that no history leads to one
}

func (s *storedTurns) history(h historyHash) []byte {
	if s.alone {
		return nil
	}
	return s.g.getOf(s.ref, kv.AppendHistoryKey(s.g.sought[:0], s.ref.account, s.ref.id, h))
}

func (s *storedTurns) putHistory(h historyHash, note historyNote) {
	s.g.put(s.w, kv.AppendHistoryKey(s.g.room(), s.ref.account, s.ref.id, h), note.append(s.g.roomOf(len(note.id)+1)))
}

func (s *storedTurns) turn(id kv.ExchangeID) []byte {
	return s.g.get(kv.AppendExchangeKey(s.g.sought[:0], kv.SpaceTurn, s.ref.account, id))
}

// whole takes the text of a turn from its change if its exchange, which the text is stored relative to, is committed
// only with the group.
func (s *storedTurns) whole(id kv.ExchangeID) (*turnRecord, error) {
	value, account := s.turn(id), s.ref.account
	turn, err := decodeTurn(value, id, textSources(s.g.read(), account, id))
	if err == nil {
		return turn, nil
	}
	for _, c := range s.g.changes {
		if c.place != (place{account, id}) || c.Turn == nil {
			continue
		}
		if turn, err = decodeTurn(value, id, nil); err == nil {
			turn.Messages, turn.Answer = c.Turn.Turn.Messages, c.Turn.Turn.Answer
		}
		return turn, err
	}
	return nil, err
}

func (s *storedTurns) putTurn(id kv.ExchangeID, value []byte) {
	s.g.put(s.w, kv.AppendExchangeKey(s.g.room(), kv.SpaceTurn, s.ref.account, id), value)
}

// placeOf finds where an exchange continues the session's history. One that could not be digested continues nothing.
func placeOf(in turns, id kv.ExchangeID, r *reading) turnPlace {
	if r.failure != nil {
		return turnPlace{} // nothing is known of its messages
	}
	later := overtaking(in, id, r)
	known, from := knownHistory(in, id, r, later)
	switch {
	case known == 0:
		return turnPlace{later: later}
	case from.inside || known == r.asked(): // inside another request, or the same one again
		return turnPlace{known: known, parent: from.id.String(), branch: true, later: later}
	default:
		return turnPlace{known: known, parent: from.id.String(), onward: from.id, later: later}
	}
}

// placeTurn puts a turn in its place, and notes the histories that lead to it.
func placeTurn(in turns, id kv.ExchangeID, turn *turnRecord, at turnPlace, r *reading) {
	turn.Known, turn.Parent, turn.Branch = at.known, at.parent, at.branch
	later := at.later
	switch {
	case at.onward == (kv.ExchangeID{}):
	case later != nil && later.turn.Parent == at.parent && !later.turn.Branch: // it continued from there because this one was missing
		continueInstead(in, at.onward, turn, id)
	default:
		continueTurn(in, at.onward, turn, id)
	}
	turn.Messages, turn.Answer = r.Messages[at.known-r.before:], r.Answer
	end := len(r.Messages)
	// Most turns note two: after the request, and after its answer.
	turn.Histories = make([]historyHash, 0, 2)
	for i := max(at.known-r.before+1, end-historiesInside); i < end; i++ { // placeOf has found no other exchange there
		if r.history[i] != r.history[i-1] {
			turn.noteHistory(in, r.history[i], historyNote{id, true})
		}
	}
	turn.endHistory(in, r.history[end], id, later)
	if len(r.Answer) > 0 {
		turn.endHistory(in, r.end, id, later)
	}
	if later != nil {
		later.goOnFrom(in, turn)
	}
}

// historiesInside is how many histories inside one request are noted at most: the last ones.
const historiesInside = 256

// historyNote is the note of a history: the exchange whose request or answer it ends with, or, if inside, one whose
// request continues after it.
type historyNote struct {
	id     kv.ExchangeID
	inside bool
}

// noteInside follows the id if a history is inside a request.
const noteInside = 1

func (n historyNote) append(dst []byte) []byte {
	dst = append(dst, n.id[:]...)
	if n.inside {
		dst = append(dst, noteInside)
	}
	return dst
}

func readHistoryNote(value []byte) (n historyNote, ok bool) {
	switch {
	case len(value) == len(n.id):
	case len(value) == len(n.id)+1 && value[len(n.id)] == noteInside:
		n.inside = true
	default:
		return n, false
	}
	n.id = kv.ExchangeID(value[:len(n.id)])
	return n, true
}

// knownHistory finds the longest history of a request that leads to another exchange of the session. It has known
// messages, 0 if none is known; system messages behind it are not among them. Inside another request the whole request
// does not count: a turn has at least its own last message. Inside a later turn's request it does not count at all: that
// turn continues this one.
func knownHistory(in turns, id kv.ExchangeID, r *reading, later *laterTurn) (known int, from historyNote) {
	whole := r.history[len(r.Messages)]
	for i := r.spoken(len(r.Messages)); i >= 0 && r.before+i > 0; i = r.spoken(i - 1) {
		note, ok := readHistoryNote(in.history(r.history[i]))
		if ok && note.id != id && !(note.inside && (r.history[i] == whole || later != nil && note.id == later.id)) {
			return r.before + i, note
		}
	}
	return 0, historyNote{}
}

// spoken returns how many of the first n messages of r.Messages are left without the system messages at their end.
func (r *reading) spoken(n int) int {
	for n > 0 && r.Messages[n-1].Role == "system" {
		n--
	}
	return n
}

// asked returns how many messages of the request there are without the system messages at its end, unless these are all
// that follows an answer: then they are what it asks.
func (r *reading) asked() int {
	n := r.spoken(len(r.Messages))
	if n < len(r.Messages) && (n == 0 || r.Messages[n-1].Role == "assistant") {
		n = len(r.Messages)
	}
	return r.before + n
}

// endHistory notes that a history ends with the turn's exchange, unless it leads to an earlier one.
func (t *turnRecord) endHistory(in turns, end historyHash, id kv.ExchangeID, later *laterTurn) {
	note, there := readHistoryNote(in.history(end))
	if !there || note.id == id || later != nil && note.id == later.id {
		t.noteHistory(in, end, historyNote{id: id})
	}
}

func (t *turnRecord) noteHistory(in turns, history historyHash, note historyNote) {
	in.putHistory(history, note)
	t.Histories = append(t.Histories, history)
}

// turn returns a digested turn, perhaps without its text; nil if there is none that can be read.
func (g *commitGroup) turn(account kv.AccountNumber, id kv.ExchangeID) *turnRecord {
	t, err := decodeTurn(g.get(kv.ExchangeKey(kv.SpaceTurn, account, id)), id, nil)
	if err != nil {
		return nil
	}
	return t
}
