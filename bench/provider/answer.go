package provider

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"
)

// An answer is what the simulated model says, in no particular format.
type answer struct {
	*step
	id      string // 24 characters, the stem of every id in the answer
	created int64  // Unix seconds
	model   string
	calls   int // how many of the parts are calls
}

type partKind uint8

const (
	partText partKind = iota
	partReasoning
	partRedacted
	partCall   // a function call; text is its arguments, "" for none
	partCustom // a freeform call; text is its input
	partRefusal
	partSearch     // a web search run by the provider; text is the query
	partCompaction // the state of a compacted conversation, which nothing can be read from
)

// A part is one piece of an answer.
type part struct {
	kind      partKind
	text      string
	events    int // instead of text: how many deltas of made-up text
	size      int // units per delta
	name      string
	namespace string // of a call, where the format knows namespaces
	malformed bool   // the arguments of a call are no JSON object
	open      bool   // cut off by the output limit
	url       string
	title     string
	citations []citation

	// Set when the answer is built.
	ordinal  int    // among all parts
	call     int    // among the calls
	callID   string // without a format's prefix
	searchID string // of a search, without a format's prefix
	escaped  string // text as the inside of a JSON string
}

type citation struct {
	url, title string
}

type stopReason uint8

const (
	stopEnd stopReason = iota
	stopSequence
	stopLength
	stopContext
	stopRefusal
	stopFilter
	stopPause
	stopMalformed
)

// usage counts tokens the way providers bill them: input includes cached and written, output includes reasoning.
type usage struct {
	input, cached, written, output, reasoning int
}

// Text that made-up deltas are cut from; 64 characters, no two neighboring words alike.
const corpus = "the quick brown fox jumps over the lazy dog and finds its home; "

const defaultDeltaSize = 8

// greeting answers a prompt without a script.
const greeting = "This is the simulated provider of mneme, not a model."

// build turns a step into an answer to a prompt.
func build(s *step, p *prompt, id string, created int64) (*answer, error) {
	a := &answer{step: s, id: id, created: created, model: p.model}
	total := 0
	for i := range s.parts {
		pt := &s.parts[i]
		pt.ordinal = i
		if s.delivery.stamped {
			s.delivery.size = StampSize
		}
		if total += len(pt.text) + pt.events*s.delivery.size; total > maxTextBytes {
			return nil, fmt.Errorf("the answer has more than %d bytes of text", maxTextBytes)
		}
		if pt.events > 0 {
			pt.size = s.delivery.size
			pt.text = madeUpText(pt.events * pt.size)
			if s.delivery.stamped {
				pt.text = stampedText(pt.events)
			}
		}
		if pt.kind == partSearch {
			pt.searchID = fmt.Sprintf("%ss%d", id[:20], i)
		}
		if pt.isCall() {
			pt.call = a.calls
			pt.callID = fmt.Sprintf("%s%02d", id[:20], a.calls)
			a.calls++
			p.resolve(pt)
		}
	}
	if s.openCall {
		a.cutLastCall()
	}
	for i := range s.parts {
		pt := &s.parts[i]
		pt.escaped = string(appendEscaped(nil, pt.text, s.splitPairs))
	}
	a.countTokens(p)
	return a, nil
}

func madeUpText(n int) string {
	return strings.Repeat(corpus, n/len(corpus)+1)[:n]
}

// cutLastCall drops the second half of the last call's arguments, as an output limit does.
func (a *answer) cutLastCall() {
	for i := len(a.parts) - 1; i >= 0; i-- {
		pt := &a.parts[i]
		if !pt.isCall() {
			continue
		}
		half := len(pt.text) / 2
		for half > 0 && !utf8.RuneStart(pt.text[half]) {
			half--
		}
		pt.text, pt.open = pt.text[:half], true
		if pt.kind == partCall {
			pt.malformed = true
		}
		return
	}
}

// countTokens fills the counters that the script leaves open: a token is about four bytes.
func (a *answer) countTokens(p *prompt) {
	if a.usage.input == 0 {
		a.usage.input = p.bytes/4 + 1 + a.usage.cached + a.usage.written
	}
	reasoning, output := 0, 0
	for i := range a.parts {
		tokens := len(a.parts[i].text)/4 + 1
		if a.parts[i].isReasoning() {
			reasoning += tokens
		}
		output += tokens
	}
	if a.usage.reasoning == 0 && a.usage.output == 0 {
		a.usage.reasoning = reasoning
	}
	if a.usage.output == 0 {
		a.usage.output = max(output-reasoning, 0) + a.usage.reasoning
	}
}

// text joins the texts of one kind without a separator.
func (a *answer) text(kind partKind) string {
	var all strings.Builder
	for i := range a.parts {
		if a.parts[i].kind == kind {
			all.WriteString(a.parts[i].text)
		}
	}
	return all.String()
}

// count is how many parts of this kind there are.
func (a *answer) count(kind partKind) int {
	n := 0
	for i := range a.parts {
		if a.parts[i].kind == kind {
			n++
		}
	}
	return n
}

// has reports whether a part of this kind is there.
func (a *answer) has(kind partKind) bool { return a.count(kind) > 0 }

// escapedArguments is a call's JSON text as the inside of a JSON string: "{}" when the script gave none.
func (p *part) escapedArguments() string {
	if p.text == "" && !p.open {
		return "{}"
	}
	return p.escaped
}

// run is how many neighboring parts from i on are calls.
func (a *answer) run(i int) int {
	n := 0
	for i+n < len(a.parts) && a.parts[i+n].isCall() {
		n++
	}
	return n
}

func (p *part) isReasoning() bool { return p.kind == partReasoning || p.kind == partRedacted }

func (p *part) isCall() bool { return p.kind == partCall || p.kind == partCustom }

// Opaque reasoning state. It looks like what the real providers send (base64, longer than 40 characters), and
// the request checker accepts exactly what this file makes.
const (
	signatureStem = "c2ltdWxhdGVk" // base64 of "simulated"
	opaqueLength  = 48             // bytes after the stem, 64 in base64
)

// opaque derives the state that belongs to one part.
func opaque(kind, id string, ordinal int) string {
	var state [opaqueLength]byte
	for i := 0; i < opaqueLength; i += 16 {
		sum := sha256.Sum256([]byte(fmt.Sprintf("%s %s %d %d", kind, id, ordinal, i)))
		copy(state[i:], sum[:16])
	}
	binary.BigEndian.PutUint32(state[opaqueLength-4:], checksum(kind, state[:opaqueLength-4]))
	return signatureStem + base64.StdEncoding.EncodeToString(state[:])
}

// isOpaque reports whether value was made by [opaque] for this kind of state, in this or any other process.
func isOpaque(kind, value string) bool {
	body, ok := strings.CutPrefix(value, signatureStem)
	if !ok {
		return false
	}
	state, err := base64.StdEncoding.DecodeString(body)
	if err != nil || len(state) != opaqueLength {
		return false
	}
	return binary.BigEndian.Uint32(state[opaqueLength-4:]) == checksum(kind, state[:opaqueLength-4])
}

func checksum(kind string, state []byte) uint32 {
	sum := sha256.Sum256(append([]byte("simulated "+kind+" "), state...))
	return binary.BigEndian.Uint32(sum[:])
}

// Kinds of opaque state, one per format that has a slot for it.
const (
	stateSignature = "signature"         // messages: thinking.signature
	stateRedacted  = "redacted"          // messages: redacted_thinking.data
	stateEncrypted = "encrypted_content" // responses: reasoning.encrypted_content
	stateThought   = "thought"           // gemini: thoughtSignature
)

// answerID derives the stem of an answer's ids.
func answerID(seed ...[]byte) string {
	hash := sha256.New()
	for _, part := range seed {
		hash.Write(part)
		hash.Write([]byte{0})
	}
	return hex.EncodeToString(hash.Sum(nil)[:12])
}
