// Package turns finds the places in a request where a person opened a turn, and inserts text after that person's words.
// A place is identified by everything that the conversation said up to it, however clients write it.
package turns

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"sync/atomic"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Key identifies a place, or the text at a place.
type Key [16]byte

// Place is a message with which a person opens a turn.
type Place struct {
	Item   int  // of the envelope's items
	Key    Key  // of the conversation up to and with this message
	Said   Key  // of this message alone
	Newest bool // nothing of a model's follows
	Summed bool // between the place before and this one stands a client's summary of what it left out
}

// Reader reads requests. It remembers what messages add to which conversation, because agents send them again with every
// turn: 32,768 steps in 2.4 MB. It may be used from any goroutine.
type Reader struct {
	IsBoot func(text string) bool // tells text of a client's own

	steps [16 << 10][2]atomic.Pointer[step] // by conversation and message: the newer two of those that share a place
}

// step is what a message adds to a conversation.
type step struct {
	before Key // of the conversation up to this message
	print  codec.Fingerprint
	message
	after Key // of the conversation with it
}

// message is what a message means for places.
type message struct {
	said Key // zero: nothing that counts
	kind kind
	sums bool // it has a client's summary of earlier messages
}

type kind uint8

const (
	other  kind = iota // system text, notes of a client
	opens              // a person opens a turn
	models             // a model's
	tools              // what a tool gave back, or a user's message with it
)

// Request is what places are looked for in.
type Request struct {
	Body     []byte
	Envelope *codec.Envelope
	Scope    string              // whose conversation it is, and what about
	Pieces   []codec.Span        // with their fingerprints; may be nil
	Prints   []codec.Fingerprint // of Pieces
}

// Places returns the places of a request, the oldest first.
func (r *Reader) Places(q *Request) []Place {
	h := blake3.New()
	_, _ = h.WriteString(q.Scope)
	_, _ = h.Write([]byte{0})
	_, _ = h.WriteString(q.Envelope.PreviousResponse)
	_, _ = h.Write([]byte{0})
	_, _ = h.WriteString(q.Envelope.Conversation)
	chain := sum(h)
	var places []Place
	answered, summed, piece := false, false, 0
	for i, item := range q.Envelope.Items {
		for piece < len(q.Pieces) && q.Pieces[piece].Start < item.Start {
			piece++
		}
		var print codec.Fingerprint
		if piece < len(q.Pieces) && piece < len(q.Prints) && q.Pieces[piece] == item {
			print = q.Prints[piece]
		}
		s := r.step(chain, item.Of(q.Body), print)
		chain = s.after
		summed = summed || s.sums
		switch s.kind {
		case models:
			answered = true
		case opens:
			answered = false
			places = append(places, Place{Item: i, Key: chain, Said: s.said, Summed: summed})
			summed = false
		}
	}
	if n := len(places); n > 0 {
		places[n-1].Newest = !answered
	}
	return places
}

func joined(chain, said Key) Key {
	var both [32]byte
	copy(both[:16], chain[:])
	copy(both[16:], said[:])
	full := blake3.Sum256(both[:])
	return Key(full[:16])
}

// SessionKeys returns the keys of some of a request's places, which ascend, by the session that they are in, for clients that
// leave out old messages. Where the same was said several times, the keys differ.
func SessionKeys(session string, places []Place, of []int) []Key {
	keys := make([]Key, 0, len(of))
	times := make(map[Key]int) // that it was said before
	for i := range places {
		if len(keys) == len(of) {
			break
		}
		said := places[i].Said
		n := times[said]
		times[said]++
		if of[len(keys)] != i {
			continue
		}
		h := blake3.New()
		_, _ = h.WriteString("session\x00" + session + "\x00")
		_, _ = h.Write(said[:])
		_, _ = h.Write([]byte{byte(n), byte(n >> 8), byte(n >> 16)})
		keys = append(keys, sum(h))
	}
	return keys
}

func sum(h *blake3.Hasher) (k Key) {
	_, _ = h.Digest().Read(k[:])
	return k
}

// step returns what a message adds to a conversation.
func (r *Reader) step(before Key, item []byte, print codec.Fingerprint) *step {
	if print == 0 {
		print = codec.Fingerprint(maphash.Bytes(printSeed, item))
	}
	slots := &r.steps[(binary.LittleEndian.Uint64(before[:])^uint64(print))%uint64(len(r.steps))]
	for i := range slots {
		if known := slots[i].Load(); known != nil && known.before == before && known.print == print {
			return known
		}
	}
	next := &step{before: before, print: print, message: r.parse(item), after: before}
	if next.kind != other {
		next.after = joined(before, next.said)
	}
	slots[1].Store(slots[0].Load())
	slots[0].Store(next)
	return next
}

// printSeed is for messages that come without a fingerprint.
var printSeed = maphash.MakeSeed()

// parse reads a message or an input item of any surface: no name of theirs means two things.
func (r *Reader) parse(item []byte) message {
	if scan.IsString(item) { // an input that is a string
		return r.person([][]byte{item}, nil)
	}
	var role, wireType, content, parts []byte
	for m := scan.Object(item); m.Next(); {
		switch string(m.Key) {
		case "role":
			role = scan.Body(m.Value)
		case "type":
			wireType = scan.Body(m.Value)
		case "content":
			content = m.Value
		case "parts":
			parts = m.Value
		}
	}
	if parts != nil && role == nil { // Gemini's may lack the role of the user
		return r.user(parts)
	}
	if content == nil {
		content = parts
	}
	k := other
	switch string(role) {
	case "assistant", "model":
		k = models
	case "tool", "function":
		k = tools
	case "user":
		return r.user(content)
	case "":
		switch {
		case bytes.HasSuffix(wireType, []byte("_output")):
			k = tools
		case len(wireType) > 0:
			k = models // calls and reasoning
		}
	}
	if k == other {
		return message{}
	}
	h := blake3.New()
	writeStable(h, item, true)
	return message{said: sum(h), kind: k}
}

// user reads a user's message: texts, and what is no text.
func (r *Reader) user(content []byte) message {
	if scan.IsString(content) {
		return r.person([][]byte{content}, nil)
	}
	var texts, rest [][]byte
	result := false
	for e := scan.Array(content); e.Next(); {
		var wireType, text []byte
		for m := scan.Object(e.Value); m.Next(); {
			switch string(m.Key) {
			case "type":
				wireType = scan.Body(m.Value)
			case "text":
				text = m.Value
			case "functionResponse", "function_response":
				result = true
			}
		}
		switch {
		case isText(wireType), len(wireType) == 0 && text != nil:
			texts = append(texts, text)
		default:
			result = result || string(wireType) == "tool_result"
			rest = append(rest, e.Value)
		}
	}
	m := r.person(texts, rest)
	if result {
		m.kind = tools
	}
	return m
}

// isText reports whether a user's block of that type is text. Blocks of some surfaces have no type.
func isText(wireType []byte) bool {
	return string(wireType) == "text" || string(wireType) == "input_text"
}

// person reads what a person said: text without what clients enclose in it, and what is no text.
func (r *Reader) person(texts, rest [][]byte) message {
	h, spoke, sums := blake3.New(), false, false
	_, _ = h.WriteString("user")
	var plain, said []byte
	for _, text := range texts {
		plain = scan.Unescape(plain[:0], scan.Body(text))
		said = bytes.TrimSpace(chatkey.AppendSaid(said[:0], plain))
		beginning := string(said[:min(len(said), 200)])
		if sums = sums || chatkey.IsSummary(beginning); len(said) == 0 || r.IsBoot(beginning) {
			continue
		}
		spoke = true
		_, _ = h.Write([]byte{0})
		_, _ = h.Write(said)
	}
	for _, block := range rest {
		_, _ = h.Write([]byte{1})
		writeStable(h, block, false)
	}
	switch {
	case spoke:
		return message{sum(h), opens, sums}
	case len(rest) > 0:
		return message{sum(h), tools, sums}
	}
	return message{sums: sums}
}

// passing are members that change between requests and carry no text.
func passing(name []byte, top bool) bool {
	switch string(name) {
	case "cache_control", "internal_chat_message_metadata_passthrough":
		return true
	case "id", "status":
		return top
	}
	return false
}

// writeStable writes JSON without what changes between requests that say the same.
func writeStable(h *blake3.Hasher, v []byte, top bool) {
	switch {
	case scan.IsObject(v):
		_, _ = h.Write([]byte{'{'})
		for m := scan.Object(v); m.Next(); {
			switch {
			case passing(m.Key, top):
			case string(m.Key) == "content" && scan.IsString(m.Value): // the same as a list of one text
				_, _ = h.WriteString("content[")
				writeText(h, m.Value)
			case string(m.Key) == "content":
				_, _ = h.WriteString("content[")
				for e := scan.Array(m.Value); e.Next(); {
					writeBlock(h, e.Value)
				}
			default:
				_, _ = h.Write(m.Key)
				_, _ = h.Write([]byte{':'})
				writeStable(h, m.Value, false)
			}
		}
		_, _ = h.Write([]byte{'}'})
	case scan.IsArray(v):
		_, _ = h.Write([]byte{'['})
		for e := scan.Array(v); e.Next(); {
			writeStable(h, e.Value, false)
		}
		_, _ = h.Write([]byte{']'})
	default:
		_, _ = h.Write(v)
		_, _ = h.Write([]byte{','})
	}
}

// writeBlock writes a block of content; a text by its text alone.
func writeBlock(h *blake3.Hasher, block []byte) {
	if kind := scan.Body(scan.Get(block, "type")); string(kind) == "text" || string(kind) == "output_text" {
		writeText(h, scan.Get(block, "text"))
		return
	}
	writeStable(h, block, false)
}

func writeText(h *blake3.Hasher, v []byte) {
	_, _ = h.Write([]byte{'"'})
	_, _ = h.Write(scan.Body(v))
	_, _ = h.Write([]byte{'"'})
}

// Said is what a person said in an item, without what is a client's own.
func (r *Reader) Said(item []byte) string {
	var all []byte
	add := func(v []byte) {
		said := bytes.TrimSpace(chatkey.AppendSaid(nil, scan.Unescape(nil, scan.Body(v))))
		if len(said) == 0 || r.IsBoot(string(said[:min(len(said), 200)])) {
			return
		}
		if len(all) > 0 {
			all = append(all, '\n')
		}
		all = append(all, said...)
	}
	content := scan.Get(item, "content")
	if content == nil {
		content = scan.Get(item, "parts")
	}
	switch {
	case scan.IsString(item):
		add(item)
	case scan.IsString(content):
		add(content)
	default:
		for e := scan.Array(content); e.Next(); {
			text := scan.Get(e.Value, "text")
			if kind := scan.Body(scan.Get(e.Value, "type")); isText(kind) || len(kind) == 0 && text != nil {
				add(text)
			}
		}
	}
	return string(all)
}
