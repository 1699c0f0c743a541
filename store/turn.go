package store

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
)

// Digest is what an exchange says, in no format's shape: what [Options.Digest] makes of it.
type Digest struct {
	Messages []Message // the request's whole history, oldest first, without the opening text
	Answer   []Message // what the model answered, as far as it came
	Reply    string    // derived key of the opening messages and the first answer, "" if there is no answer
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
	Bytes     int64  `json:"bytes,omitempty"` // of media; the bytes themselves are in the raw request
}

// Turn is what an exchange added to its session: the messages not seen before, and the answer.
type Turn struct {
	Exchange  string    `json:"exchange"`
	Started   time.Time `json:"started"`
	Outcome   Outcome   `json:"outcome"`
	Model     string    `json:"model,omitempty"`
	Parent    string    `json:"parent,omitempty"`    // the exchange whose history this one goes on from, or, as a branch, from inside
	Branch    bool      `json:"branch,omitempty"`    // another exchange goes on from the same place and came first
	Continued string    `json:"continued,omitempty"` // the first exchange that goes on from here
	Known     int       `json:"known,omitempty"`     // messages of the request that were seen before
	Messages  []Message `json:"messages,omitempty"`
	Answer    []Message `json:"answer,omitempty"`
	Error     string    `json:"error,omitempty"` // why the exchange could not be digested
}

// turnRecord is a turn as it is stored.
type turnRecord struct {
	Turn
	Histories []historyHash `json:"histories,omitempty"` // that lead to this exchange, see spaceHistory
}

// historyHash stands for a sequence of messages from the start of a conversation.
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

// then gives the hash of the history with one more message. It covers what clients send back unchanged: roles, texts,
// calls and results, but not reasoning, which many leave out.
func (h historyHash) then(m *Message) historyHash {
	text := append([]byte(nil), h[:]...)
	field := func(s string) { text = append(append(text, s...), 0) }
	field(m.Role)
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind == "reasoning" {
			continue
		}
		field(p.Kind)
		field(string(bytes.TrimSpace([]byte(p.Text))))
		field(p.CallID)
		field(p.Name)
		field(compactJSON(p.Arguments))
		field(p.MediaType)
	}
	sum := blake3.Sum256(text)
	return historyHash(sum[:16])
}

// compactJSON takes white space out of JSON, so that arguments written another way are the same call.
func compactJSON(text string) string {
	var b bytes.Buffer
	if text == "" || json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}

// digestExchange works out the turn of an exchange and takes it from the outbox. Doing it again gives the same turn.
// size is how many bytes of requests and answers the turn is of.
func (s *Store) digestExchange(u *undigested) (_ change, size int64) {
	account, id := u.account, u.id
	first := u.captured != nil
	digest, info, failure := s.callDigest(u)
	if info != nil {
		size = info.RequestSize + info.ResponseSize
	}
	return func(g *gathering, w *write) error {
		g.put(w, exchangeKey(spaceOutbox, account, id), nil)
		r, ref := g.belongs(account, id)
		if info == nil || r == nil || r.Merged != "" {
			return nil // erased meanwhile, or on its way to another session, where it is digested again
		}
		w.event = Event{Kind: TurnDigested, Exchange: id.String(), Session: ref.id.String(), Outcome: info.Outcome, Time: time.Now().UTC(), account: account}
		turn := &turnRecord{Turn: Turn{Exchange: id.String(), Started: info.Started, Outcome: info.Outcome, Model: info.ModelAsked}}
		seq := g.changed(account, id)
		g.sessionChanged(w, ref)
		g.sessionGrew(w, ref)
		if failure != nil {
			turn.Error = failure.Error()
			return g.putTurn(w, account, id, turn)
		}
		if err := g.placeTurn(w, ref, id, turn, digest); err != nil {
			return err
		}
		if digest.Reply != "" && r.Derived {
			g.linkReply(w, ref, r, digest.Reply)
			g.putSession(w, ref, r)
		}
		if first && s.opts.Index != nil {
			entry := TimelineEntry{Exchange: *info, Turn: &turn.Turn}
			entry.Exchange.Session = ref.id.String()
			g.digests = append(g.digests, freshTurn{seq, entry, size})
		}
		return g.putTurn(w, account, id, turn)
	}, size
}

// callDigest hands an exchange to [Options.Digest]; info is nil if the exchange is gone.
func (s *Store) callDigest(u *undigested) (d Digest, info *ExchangeInfo, failure error) {
	if u.captured != nil {
		defer s.digester.release(u.captured)
		failure = s.runDigest(u.captured, &d)
		info = new(ExchangeInfo)
		*info = u.captured.ExchangeInfo
		return d, info, failure
	}
	var x *Exchange
	err := s.view(func(tx *badger.Txn) (err error) {
		if info, err = getInfo(tx, u.account, u.id); err != nil {
			return err
		}
		x, err = getExchange(tx, u.account, u.id, info)
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) && info == nil {
		return Digest{}, nil, nil
	}
	if err != nil {
		s.log.Error("an exchange cannot be read to be digested", "exchange", u.id.String(), "error", err)
		return Digest{}, info, errors.New("the exchange cannot be read")
	}
	failure = s.runDigest(x, &d)
	return d, info, failure
}

func (s *Store) runDigest(x *Exchange, d *Digest) (failure error) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("digesting an exchange panicked", "exchange", x.ID, "panic", p)
			failure = errors.New("digesting failed")
		}
	}()
	digest, err := s.opts.Digest(x)
	if err != nil {
		return errors.New(codec.AsError(err, "digesting failed").Message)
	}
	*d = digest
	return nil
}

// placeTurn finds where in the session's history a turn goes on, and notes the histories that lead to it.
func (g *gathering) placeTurn(w *write, ref sessionRef, id exchangeID, turn *turnRecord, d Digest) error {
	history := make([]historyHash, len(d.Messages)+1)
	for i := range d.Messages {
		history[i+1] = history[i].then(&d.Messages[i])
	}
	known, from := g.knownHistory(ref, id, history)
	switch {
	case known == 0:
	case from.inside:
		turn.Parent, turn.Known, turn.Branch = from.id.String(), known, true
	case known == len(d.Messages): // the same request again: a sibling of the one before
		turn.Known, turn.Branch = known, true
		if before := g.turn(ref.account, from.id); before != nil {
			turn.Parent, turn.Known = before.Parent, before.Known
		}
	default:
		turn.Parent, turn.Known = from.id.String(), known
		if err := g.continueTurn(w, ref.account, from.id, turn); err != nil {
			return err
		}
	}
	turn.Messages, turn.Answer = d.Messages[turn.Known:], d.Answer
	end := len(d.Messages)
	for i := max(known+1, end-historiesInside); i < end; i++ { // knownHistory has found nobody else there
		turn.noteHistory(g, w, ref, history[i], id, true)
	}
	said := history[end]
	turn.endHistory(g, w, ref, said, id)
	for i := range d.Answer {
		said = said.then(&d.Answer[i])
	}
	if len(d.Answer) > 0 {
		turn.endHistory(g, w, ref, said, id)
	}
	return nil
}

// historiesInside is how many histories inside one request are noted at most, those that end last.
const historiesInside = 256

// historyNote is what is noted for a history: an exchange whose request or answer it ends with, or inside: one whose
// request goes on behind it.
type historyNote struct {
	id     exchangeID
	inside bool
}

// noteInside stands behind the id where a history is inside a request.
const noteInside = 1

func (n historyNote) value() []byte {
	if n.inside {
		return append(n.id[:], noteInside)
	}
	return n.id[:]
}

func readHistoryNote(value []byte) (n historyNote, ok bool) {
	switch {
	case len(value) == len(n.id):
	case len(value) == len(n.id)+1 && value[len(n.id)] == noteInside:
		n.inside = true
	default:
		return n, false
	}
	n.id = exchangeID(value[:len(n.id)])
	return n, true
}

// knownHistory finds the longest of the histories that leads to another exchange of the session: known messages, 0 if
// none is known. Inside another request it is not the whole one: a turn holds at least the last message of its own.
func (g *gathering) knownHistory(ref sessionRef, id exchangeID, history []historyHash) (known int, from historyNote) {
	end := len(history) - 1
	for known = end; known > 0; known-- {
		note, ok := readHistoryNote(g.get(historyKey(ref.account, ref.id, history[known])))
		if ok && note.id != id && !(note.inside && known == end) {
			return known, note
		}
	}
	return 0, historyNote{}
}

// endHistory notes that a history ends with the turn's exchange, unless it leads to an earlier one.
func (t *turnRecord) endHistory(g *gathering, w *write, ref sessionRef, end historyHash, id exchangeID) {
	note, there := readHistoryNote(g.get(historyKey(ref.account, ref.id, end)))
	if !there || note.id == id {
		t.noteHistory(g, w, ref, end, id, false)
	}
}

func (t *turnRecord) noteHistory(g *gathering, w *write, ref sessionRef, history historyHash, id exchangeID, inside bool) {
	g.put(w, historyKey(ref.account, ref.id, history), historyNote{id, inside}.value())
	t.Histories = append(t.Histories, history)
}

// continueTurn makes turn the one that goes on from parent, or a branch if there is one already.
func (g *gathering) continueTurn(w *write, account accountNumber, parent exchangeID, turn *turnRecord) error {
	before := g.turn(account, parent)
	if before == nil {
		return nil
	}
	if before.Continued != "" && before.Continued != turn.Exchange {
		turn.Branch = true
		return nil
	}
	before.Continued = turn.Exchange
	return g.putTurn(w, account, parent, before)
}

// turn gives a turn that has been digested, nil if there is none that can be read.
func (g *gathering) turn(account accountNumber, id exchangeID) *turnRecord {
	t, err := decodeTurn(g.get(exchangeKey(spaceTurn, account, id)))
	if err != nil {
		return nil
	}
	return t
}

func decodeTurn(value []byte) (*turnRecord, error) {
	packed, err := appendDecoded(nil, value)
	if err != nil {
		return nil, err
	}
	t := new(turnRecord)
	return t, decodeRecord(packed, t)
}

func (g *gathering) putTurn(w *write, account accountNumber, id exchangeID, t *turnRecord) error {
	value, err := encodeRecord(t)
	if err != nil {
		return err
	}
	g.put(w, exchangeKey(spaceTurn, account, id), encodeBytes(value))
	return nil
}
