package crossing

import (
	"bytes"
	"crypto/sha256"

	"github.com/mnemeproxy/mneme/codec"
)

// order notes in the ledger which reasoning led to a call, for clients whose format puts all reasoning of a turn before
// its text and its calls. Anthropic refuses a turn whose blocks have moved (docs/wire/translation.md#5.1).
type order struct {
	said bool     // there was text or a call before the reasoning
	led  [][]byte // ids of the proofs since then
}

// proofID identifies a piece of reasoning by its proof.
func proofID(signature []byte) []byte { return []byte(base62(sha256.Sum256(signature), 22)) }

func (o *order) open(it *item, memory *Memory) {
	if it.kind == codec.ItemReasoning || it.kind == codec.ItemRedacted {
		return
	}
	if isCallItem(it.kind) && !it.json && o.said && len(o.led) > 0 {
		memory.keep(ledgerOrder, it.callID, bytes.Join(o.led, []byte{','}))
	}
	o.said, o.led = true, nil
}

func (o *order) close(it *item) {
	if o.said && len(it.signature) > 0 && (it.kind == codec.ItemReasoning || it.kind == codec.ItemRedacted) {
		o.led = append(o.led, proofID(it.signature))
	}
}

// orderReasoning puts the reasoning of a turn back before the calls that it led to.
func (a *stateStep) orderReasoning(m *codec.Message) {
	proofs := 0
	for i := range m.Parts {
		if isProved(&m.Parts[i]) {
			proofs++
		}
	}
	if proofs < 2 {
		return // it stands before everything else
	}
	for i := range m.Parts {
		if !isCall(&m.Parts[i]) {
			continue
		}
		for id := range bytes.SplitSeq(a.fromLedger(ledgerOrder, m.Parts[i].CallID), []byte{','}) {
			moveBefore(m.Parts[:i], id)
		}
	}
}

// isProved reports whether a part is reasoning with a proof.
func isProved(p *codec.Part) bool {
	return (p.Kind == codec.PartReasoning || p.Kind == codec.PartRedacted) && len(p.Signature) > 0
}

// moveBefore moves the reasoning with that proof to the end of parts.
func moveBefore(parts []codec.Part, id []byte) {
	for i := range parts {
		if isProved(&parts[i]) && bytes.Equal(proofID(parts[i].Signature), id) {
			moved := parts[i]
			copy(parts[i:], parts[i+1:])
			parts[len(parts)-1] = moved
			return
		}
	}
}
