package store

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// agent writes the requests of a coding agent's session: a large opening, tools, a history that grows by a call and its
// result every turn, and a cache mark that moves on to the newest message.
type agent struct {
	rng      *rand.Rand
	scale    int // per cent of the sizes seen in real sessions
	lexicon  []string
	messages []string // without cache mark
	opening  string
	tools    string
}

func newAgent(seed uint64) *agent { return newAgentOf(seed, 100) }

func newAgentOf(seed uint64, scale int) *agent {
	a := &agent{rng: rand.New(rand.NewPCG(seed, 1)), scale: scale}
	for range 2000 {
		word := make([]byte, 2+a.rng.IntN(8))
		for i := range word {
			word[i] = "etaoinshrdlucmfwyp"[min(a.rng.IntN(18), a.rng.IntN(18))]
		}
		a.lexicon = append(a.lexicon, string(word)+" ")
	}
	a.opening = fmt.Sprintf(`[{"type":"text","text":"x-billing: v=1"},{"type":"text","text":"You are an agent.","cache_control":{"type":"ephemeral"}},{"type":"text","text":"%s","cache_control":{"type":"ephemeral"}}]`, a.words(27_000))
	var tools []string
	for i := range 12 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool%d","description":"%s","input_schema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{"path":{"type":"string","description":"%s"}},"required":["path"],"additionalProperties":false}}`, i, a.words(4000), a.words(200)))
	}
	a.tools = "[" + strings.Join(tools, ",") + "]"
	a.messages = []string{fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":"%s"},{"type":"text","text":"%s"MARK}]}`, a.words(6000), a.words(300))}
	return a
}

// words returns about n bytes of text, at the scale of the agent, that compresses the way prose does.
func (a *agent) words(n int) string {
	var b strings.Builder
	for b.Len() < n*a.scale/100 {
		b.WriteString(a.lexicon[a.rng.IntN(len(a.lexicon))])
	}
	return b.String()
}

func (a *agent) turn() {
	id := fmt.Sprintf("toolu_%016x", a.rng.Uint64())
	a.messages = append(a.messages,
		fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":"%s"},{"type":"tool_use","id":"%s","name":"tool3","input":{"path":"%s"},"caller":{"type":"direct"}}]}`, a.words(250), id, a.words(40)),
		fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"%s","content":"%s","is_error":falseMARK}]}`, id, a.words(1000+a.rng.IntN(16_000))))
}

func (a *agent) request() []byte {
	messages := make([]string, len(a.messages))
	for i, m := range a.messages {
		mark := ""
		if i >= len(a.messages)-1 {
			mark = `,"cache_control":{"type":"ephemeral"}`
		}
		messages[i] = strings.Replace(m, "MARK", mark, 1)
	}
	return fmt.Appendf(nil, `{"model":"claude-sonnet-5","messages":[%s],"system":%s,"tools":%s,"metadata":{"user_id":"{\"session_id\":\"7d9f\"}"},"max_tokens":32000,"stream":true}`,
		strings.Join(messages, ","), a.opening, a.tools)
}

func blocksOf(t testing.TB, body []byte) []codec.Span {
	t.Helper()
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		t.Fatal(err)
	}
	return e.Blocks(nil)
}

// captureBody captures a request with its blocks.
func captureBody(t testing.TB, s *Store, account string, body, answer []byte) string {
	t.Helper()
	ctx := context.Background()
	c, err := s.Begin(ctx, &record.Opening{Account: account, Surface: codec.Messages, Format: codec.Messages, Body: body, Spans: blocksOf(t, body)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(answer); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Fatal(err)
	}
	return c.ID()
}

// storedBytes is the size of all keys and values in the store, as the database is given them.
func storedBytes(t testing.TB, s *Store) (total int64, bySpace map[byte]int64) {
	t.Helper()
	bySpace = make(map[byte]int64)
	err := s.db.View(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			n := int64(len(it.Item().Key())) + it.Item().ValueSize()
			total += n
			bySpace[it.Item().Key()[0]] += n
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return total, bySpace
}

func TestALongAgentSessionCostsWhatItAdded(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	a := newAgent(1)
	var (
		raw    int64
		bodies = make(map[string][]byte)
		sizes  = make(map[int]int64)
	)
	for turn := range 100 {
		body := a.request()
		answer := []byte(`{"content":[{"type":"text","text":"` + a.words(800) + `"}]}`)
		bodies[captureBody(t, s, "acme", body, answer)] = body
		raw += int64(len(body) + len(answer))
		if turn%10 == 9 {
			sizes[turn], _ = storedBytes(t, s)
		}
		a.turn()
	}
	for id, body := range bodies {
		x, err := s.Archive().Exchange("acme", id)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x.RawRequest, body) {
			t.Fatalf("request of %s came back different", id)
		}
	}
	total, spaces := storedBytes(t, s)
	t.Logf("raw %d bytes, stored %d: 1/%.1f; by kind %v", raw, total, float64(raw)/float64(total), spaces)
	if total > raw/25 {
		t.Errorf("stored %d of %d raw bytes, more than a 25th", total, raw)
	}
	early, late := sizes[29]-sizes[9], sizes[99]-sizes[79]
	t.Logf("20 turns cost %d bytes early, %d late", early, late)
	if late > early*3/2 {
		t.Errorf("late turns cost %d bytes, early ones %d", late, early)
	}
	if overhead := spaces[kv.SpaceNode] + spaces[kv.SpaceRequest] + spaces[kv.SpaceExchange]; overhead/100 > 1500 {
		t.Errorf("skeletons, nodes and records cost %d bytes a turn", overhead/100)
	}
}

func TestHostileBodiesAreKeptWithinBounds(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	for name, body := range map[string]string{
		"a million tiny items": `{"model":"m","input":[` + strings.Repeat("1,", 1_000_000) + `1]}`,
		"many small items":     `{"model":"m","messages":[` + strings.Repeat(`{"role":"user","content":"the same words over and over"},`, 30_000) + `{}]}`,
		"one huge string":      `{"model":"m","input":"` + strings.Repeat(`\"`, 5_000_000) + `"}`,
		"an open string":       `{"model":"m","input":["` + strings.Repeat(`a`, 5000) + `"]}`,
	} {
		var e codec.Envelope
		var spans []codec.Span
		if e.Read([]byte(body)) == nil {
			spans = e.Blocks(nil)
		}
		number, _ := s.accounts.Find("acme")
		if held := s.planner.Plan(number, &blob.Body{Bytes: []byte(body), Blocks: spans}).Held; held > int64(2*len(body)+1<<20) {
			t.Errorf("%s: %d bytes are planned with %d", name, len(body), held)
		}
		ctx := context.Background()
		c, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Responses, Body: []byte(body), Spans: spans})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
		if x, err := s.Archive().Exchange("acme", c.ID()); err != nil || string(x.RawRequest) != body {
			t.Errorf("%s: comes back different (%v)", name, err)
		}
	}
	mustBeSound(t, s)
}

// TestAPieceThatWasABlockIsNotSplitTwice cuts a body where no reader of JSON would, so that what stands
// around a long string has been seen as a block, with a long string inside.
func TestAPieceThatWasABlockIsNotSplitTwice(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	ctx := context.Background()
	around := `"` + strings.Repeat("z", 2100) + `"`
	whole := `{"k":"` + strings.Repeat("a", 1500) + around + strings.Repeat("b", 1500) + `"}`
	for _, body := range []string{around, whole} {
		c, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat, Body: []byte(body)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
		if x, err := s.Archive().Exchange("acme", c.ID()); err != nil || string(x.RawRequest) != body {
			t.Errorf("it comes back different: %v", err)
		}
	}
	mustBeSound(t, s)
}

func TestLongStringsAreStoredOnceHoweverTheMessageChanges(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	a := newAgent(1)
	message := func(extra string) []byte {
		return fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":[{"text":"%s"},{"text":"say \"hi\""},{"text":"%s"}]%s}]}`,
			strings.Repeat("one \\\" ", 2000), a.lexicon[0]+strings.Repeat("two ", 4000), extra)
	}
	captureBody(t, s, "acme", message(""), nil)
	_, before := storedBytes(t, s)
	blocks := count(t, s, kv.SpaceBlock)
	captureBody(t, s, "acme", message(`,"cache_control":{"type":"ephemeral"}`), nil)
	_, after := storedBytes(t, s)
	if n := count(t, s, kv.SpaceBlock); blocks != 3 || n != 4 {
		t.Errorf("%d blocks at first, want the message and its two strings; %d after it changed", blocks, n)
	}
	if grown := after[kv.SpaceBlock] - before[kv.SpaceBlock]; grown > 400 {
		t.Errorf("the changed message costs %d bytes", grown)
	}
}

func TestAnyCutOfAnyBodyComesBackByteForByte(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	shared := strings.Repeat(`"a long string that occurs in many bodies \" \\", `, 60)
	rapid.Check(t, func(t *rapid.T) {
		var body []byte
		var spans []codec.Span
		for range rapid.IntRange(0, 12).Draw(t, "parts") {
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				body = append(body, ',')
			case 1:
				body = append(body, ",\n  "...)
			case 2:
				body = append(body, rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "gap")...)
			default:
				start := len(body)
				n := rapid.IntRange(0, len(shared)).Draw(t, "item")
				body = append(body, shared[:n]...)
				spans = append(spans, codec.Span{Start: start, End: len(body)})
			}
		}
		ctx := context.Background()
		c, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat, Body: body, Spans: spans})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
		x, err := s.Archive().Exchange("acme", c.ID())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x.RawRequest, body) {
			t.Fatalf("%q came back as %q", body, x.RawRequest)
		}
	})
}

func TestInstructionsOfSmallRequestsAreABlockFromTheSecondTimeOn(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	bodies := make(map[string][]byte)
	for n := range 4 {
		body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"system","content":"%s"},{"role":"user","content":"%s"}]}`,
			strings.Repeat("Answer in one word. ", 30), strings.Repeat(fmt.Sprintf("question %d ", n), 40))
		spans := blocksOf(t, body)
		c, err := s.Begin(t.Context(), &record.Opening{Account: "acme", Surface: codec.Chat, Body: body, Spans: spans, Prints: codec.Fingerprints(nil, "acme", body, spans)})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
		bodies[c.ID()] = body
		if blocks := count(t, s, kv.SpaceBlock); blocks != min(n, 1) {
			t.Errorf("%d blocks after %d requests, want the instructions once they have come again", blocks, n+1)
		}
	}
	for id, body := range bodies {
		if x, err := s.Archive().Exchange("acme", id); err != nil || !bytes.Equal(x.RawRequest, body) {
			t.Errorf("%s comes back different (%v)", id, err)
		}
	}
	mustBeSound(t, s)
}
