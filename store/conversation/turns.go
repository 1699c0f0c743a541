package conversation

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

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
	readings := make([]Reading, len(exchanges))
	for i, x := range exchanges {
		unread := max(int64(len(x.RawResponse))-MostDigested, 0)
		x.RawResponse = x.RawResponse[:min(len(x.RawResponse), MostDigested)]
		readings[i] = Read(x, record.Prefix{}, t.Digest, t.Redactor, t.Log)
		readings[i].Unread = unread
	}
	t.look(exchanges, readings)
	for i, x := range exchanges {
		id, _ := kv.ParseExchangeID(x.ID)
		read, in := &readings[i], placedTurns{t, x.Session}
		made := &record.StoredTurn{Turn: record.Turn{Exchange: x.ID, Started: x.Started, Outcome: x.Outcome, Model: x.ModelAsked, AnswerUnread: read.Unread}}
		if read.Failure != nil {
			made.Error = read.Failure.Error()
		} else {
			PlaceTurn(in, id, made, PlaceOf(in, id, read), read)
		}
		in.PutTurn(id, record.EncodeTurn(made))
		digested = append(digested, Digested{&made.Turn, read.Reply})
	}
	return digested
}

// look reads together the histories that the requests may continue, and then the turns that they do continue.
func (t *Turns) look(exchanges []*record.Exchange, readings []Reading) {
	var wanted []History
	for i := range readings {
		if readings[i].Failure != nil {
			continue
		}
		for _, h := range append(slices.Clone(readings[i].History), readings[i].end) {
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
		history := readings[i].History
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

func (t placedTurns) History(h record.HistoryHash) []byte { return t.histories[History{t.session, h}] }

func (t placedTurns) PutHistory(h record.HistoryHash, note record.HistoryNote) {
	of := History{t.session, h}
	t.histories[of] = note.Append(nil)
	t.noted = append(t.noted, of)
}

// Joins is false: other programs at the same database may be older than joined notes.
func (t placedTurns) Joins() bool { return false }

func (t placedTurns) Turn(id kv.ExchangeID) []byte {
	if _, known := t.turns[id]; !known {
		t.readTurns([]string{id.String()})
	}
	return t.turns[id]
}

func (t placedTurns) Whole(id kv.ExchangeID) (*record.StoredTurn, error) {
	return record.DecodeTurn(t.Turn(id), id, record.WholeTurns)
}

func (t placedTurns) PutTurn(id kv.ExchangeID, record []byte) {
	t.turns[id] = record
	if !slices.Contains(t.placed, id) {
		t.placed = append(t.placed, id)
	}
}
