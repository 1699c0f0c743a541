package crossing

import (
	"crypto/sha256"
	"hash"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// stateStep restores reasoning state.
type stateStep struct {
	*adaptation
	plain []byte // a text without its escapes
}

// run opens the tokens that belong to the target's family, restores from the ledger what the client has lost, and
// removes everything that the target would refuse (docs/wire/translation.md#5). Foreign state never goes upstream.
func (a *stateStep) run() error {
	called := false
	for i := range a.r.Messages {
		m := &a.r.Messages[i]
		if m.Role != codec.RoleAssistant {
			continue
		}
		lost := a.openTokens(m)
		if a.from.Client.Flat {
			a.orderReasoning(m)
		}
		called = called || hasCalls(m.Parts)
		switch {
		case a.target.Family == codec.FamilyGoogle:
			a.recallSignature(m)
			a.recallTextSignatures(m)
		case a.takes.ReasoningText && called:
			a.recallReasoning(m)
		}
		if lost && !a.proves(m) {
			a.r.Notes.Drop(a.from.Members.Reasoning)
		}
	}
	return nil
}

// proves reports whether a call or a text of the turn has a proof of the target's family: reasoning before it is then
// from there too, has no proof of its own, and is not wanted back.
func (a *stateStep) proves(m *codec.Message) bool {
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Signature != nil && p.Family == a.target.Family && p.Kind != codec.PartReasoning && p.Kind != codec.PartRedacted {
			return true
		}
	}
	return false
}

// openTokens opens the reasoning of one turn. State that was carried before a call moves to it. lost reports that
// reasoning was removed that may be of another family.
func (a *stateStep) openTokens(m *codec.Message) (lost bool) {
	kept := m.Parts[:0]
	var forCall codec.Part // the state that was carried before a call
	for _, p := range m.Parts {
		switch p.Kind {
		case codec.PartReasoning, codec.PartRedacted:
			keep, own := a.openReasoning(&p, &forCall)
			if !keep {
				lost = lost || !own
				continue
			}
		case codec.PartToolCall, codec.PartCustomCall:
			if forCall.Signature != nil {
				p.Signature, p.Family, forCall.Signature = forCall.Signature, forCall.Family, nil
			} else if p.Family != a.target.Family {
				p.Signature = nil
			}
		case codec.PartText:
			if p.Family != a.target.Family {
				p.Signature = nil
			}
		}
		kept = append(kept, p)
	}
	m.Parts = kept
	return lost
}

// openReasoning reports whether the part itself goes upstream, and whether it is known to be of the target's family.
func (a *stateStep) openReasoning(p *codec.Part, forCall *codec.Part) (keep, own bool) {
	if statetoken.Is(p.Signature) {
		c, ok := statetoken.Open(p.Signature, a.memory.Account)
		p.Signature, p.Family = nil, codec.FamilyOther
		if ok && a.fits(&c) {
			switch c.Kind {
			case statetoken.Call:
				forCall.Signature, forCall.Family = c.Raw, c.Family
				return false, true
			case statetoken.Redacted:
				p.Kind = codec.PartRedacted
			}
			p.Signature, p.Family = c.Raw, c.Family
			own = len(c.Raw) == 0
			if c.Family == codec.FamilyDetails {
				return true, true
			}
		}
	}
	if len(p.Signature) > 0 && p.Family == a.target.Family && a.target.Family != codec.FamilyOther {
		return true, true
	}
	p.Signature, p.ID = nil, nil
	if a.takes.ReasoningText {
		return p.Kind == codec.PartReasoning && (len(p.Text) > 0 || len(p.Parts) > 0), true
	}
	return false, own
}

// fits reports whether state may go to this model: the model's family has to be able to read it. Anthropic's thinking is
// bound to the model that thought it, and state that a host passes on to that host as well.
func (a *stateStep) fits(c *statetoken.Token) bool {
	switch {
	case c.Family == codec.FamilyDetails:
		return a.takes.Details && c.Model == hostHash(a.target)
	case c.Family != a.target.Family:
		return false
	}
	return !a.target.MidThinkingState || c.Model == statetoken.Hash(a.target.Model)
}

// recallSignature handles the first call of a turn: the others of a parallel group have none. Google only checks the
// current turn of the model, but a turn must always be sent the same way, or no prompt cache would hit. If the
// signature is lost, the encoder writes Google's substitute value.
func (a *stateStep) recallSignature(m *codec.Message) {
	for j := range m.Parts {
		p := &m.Parts[j]
		if !isCall(p) {
			continue
		}
		if p.Signature != nil {
			return
		}
		if kept := a.fromLedger(ledgerCall, p.CallID); kept != nil {
			p.Signature, p.Family = kept, codec.FamilyGoogle
		}
		return
	}
}

// recallTextSignatures restores the proofs of texts, which no client keeps.
func (a *stateStep) recallTextSignatures(m *codec.Message) {
	if a.memory.Ledger == nil {
		return
	}
	for j := range m.Parts {
		p := &m.Parts[j]
		if p.Kind != codec.PartText || p.Signature != nil {
			continue
		}
		var said textHash
		a.plain = said.write(a.plain, p.Text)
		if kept := a.fromLedger(ledgerText, said.id()); kept != nil {
			p.Signature, p.Family = kept, codec.FamilyGoogle
		}
	}
}

// textHash identifies a text by its content.
type textHash struct{ hash hash.Hash }

// write adds a piece of the text, a string body. buffer is for the unescaped piece.
func (h *textHash) write(buffer, body []byte) []byte {
	if h.hash == nil {
		h.hash = sha256.New()
	}
	buffer = scan.Unescape(buffer[:0], body)
	h.hash.Write(buffer)
	return buffer
}

// id returns the text's identifier, nil if there is no text.
func (h *textHash) id() []byte {
	if h.hash == nil {
		return nil
	}
	return []byte(base62([sha256.Size]byte(h.hash.Sum(nil)), 24))
}

// recallReasoning restores the reasoning that led to a turn. Hosts that require it do so for every turn from the first
// one with calls on: the encoder writes an empty text for lost reasoning.
func (a *stateStep) recallReasoning(m *codec.Message) {
	for j := range m.Parts {
		if m.Parts[j].Kind == codec.PartReasoning {
			return
		}
	}
	text := []byte(nil)
	for j := range m.Parts {
		if p := &m.Parts[j]; isCall(p) {
			if text = a.fromLedger(ledgerReasoning, p.CallID); text != nil {
				break
			}
		}
	}
	if text == nil {
		a.r.Notes.Emulate(a.from.Members.Reasoning)
		return
	}
	parts := append(a.r.NewParts(len(m.Parts)+1), codec.Part{Kind: codec.PartReasoning, Text: text})
	m.Parts = append(parts, m.Parts...)
}

func (a *stateStep) fromLedger(kind string, id []byte) []byte {
	return a.memory.recall(kind, id)
}
