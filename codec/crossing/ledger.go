package crossing

import "github.com/mnemeproxy/mneme/codec"

// Ledger keeps reasoning state for which a client's format has no slot, so that it can be restored when the client
// sends the conversation again without it. Implementations are safe for concurrent use.
type Ledger interface {
	// Recall returns what was kept for a call or an answer text, or nil.
	Recall(key LedgerKey) []byte
	// Keep stores a value; it may be dropped after some time or under pressure.
	Keep(key LedgerKey, value []byte)
}

// Memory is a ledger restricted to one account and one family of models. Without a ledger it keeps nothing.
type Memory struct {
	Ledger  Ledger
	Account string
	Family  codec.Family
}

func (m *Memory) keep(kind string, id, value []byte) {
	if m.Ledger != nil && len(id) > 0 && len(value) > 0 {
		m.Ledger.Keep(m.key(kind, id), clone(value))
	}
}

func (m *Memory) recall(kind string, id []byte) []byte {
	if m.Ledger == nil || len(id) == 0 {
		return nil
	}
	return m.Ledger.Recall(m.key(kind, id))
}

func (m *Memory) key(kind string, id []byte) LedgerKey {
	return LedgerKey{Account: m.Account, Family: m.Family, Kind: kind, ID: string(id)}
}

// LedgerKey identifies an entry of a [Ledger].
type LedgerKey struct {
	Account string
	Family  codec.Family
	Kind    string // "call": state of a tool call; "reasoning": reasoning text of the turn with that call; "text"; "order": the reasoning that led to the call
	ID      string // the call's id as the client saw it, or a hash of the answer's text
}

// Kinds of ledger entries.
const (
	ledgerCall      = "call"
	ledgerReasoning = "reasoning"
	ledgerText      = "text"
	ledgerOrder     = "order"
)

// maxThought is the longest reasoning text of an answer that is kept.
const maxThought = 64 << 10

// thoughts is the reasoning text of one answer, which is stored with each call that it led to.
type thoughts struct {
	Memory
	thought []byte // string body
	ledTo   []thoughtCall
}

type thoughtCall struct {
	item int32
	id   []byte
}

func (t *thoughts) addThought(text []byte) {
	if t.Ledger != nil && t.Family == codec.FamilyOther && len(t.thought)+len(text) <= maxThought {
		t.thought = append(t.thought, text...)
	}
}

func (t *thoughts) keepThought(callID []byte) { t.keep(ledgerReasoning, callID, t.thought) }

// note follows an answer whose calls reach the client unchanged.
func (t *thoughts) note(events []codec.Event) {
	if t.Ledger == nil {
		return
	}
	for i := range events {
		switch ev := &events[i]; ev.Kind {
		case codec.EventReasoning:
			t.addThought(ev.Raw)
		case codec.EventItemOpen:
			if isCallItem(ev.Type) {
				t.ledTo = append(t.ledTo, thoughtCall{item: ev.Item, id: clone(ev.CallID)})
			}
		case codec.EventItemClose:
			for _, call := range t.ledTo {
				if call.item == ev.Item {
					t.keepThought(call.id)
				}
			}
		}
	}
}

// emptied returns an empty value that reuses the memory of t.
func (t *thoughts) emptied() thoughts {
	return thoughts{thought: t.thought[:0], ledTo: t.ledTo[:0]}
}
