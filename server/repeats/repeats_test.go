package repeats_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/repeats"
)

// act is one step of a conversation: a person's words, or a call with its result.
type act struct {
	says            string // a person
	thinks          string // of the agent, before the call
	call, arguments string
	result          string
}

// surfaces are those on which agents send their history.
var surfaces = []codec.Format{codec.Chat, codec.Messages, codec.Responses, codec.Gemini}

// request writes a conversation as an agent sends it on a surface.
func request(surface codec.Format, acts []act) []byte {
	var items []any
	for i, a := range acts {
		id := fmt.Sprintf("call_%020d", i)
		said := map[string]any{"role": "user", "content": a.says}
		switch {
		case a.says != "" && surface == codec.Gemini:
			items = append(items, map[string]any{"role": "user", "parts": []any{map[string]any{"text": a.says}}})
		case surface == codec.Gemini:
			items = append(items,
				map[string]any{"role": "model", "parts": []any{
					map[string]any{"text": a.thinks},
					map[string]any{"functionCall": map[string]any{"name": a.call, "args": json.RawMessage(a.arguments)}},
				}},
				map[string]any{"role": "user", "parts": []any{map[string]any{"functionResponse": map[string]any{"name": a.call, "response": map[string]any{"output": a.result}}}}})
		case a.says != "" && surface == codec.Responses:
			said["type"] = "message"
			items = append(items, said)
		case a.says != "":
			items = append(items, said)
		case surface == codec.Chat:
			items = append(items,
				map[string]any{"role": "assistant", "content": a.thinks, "tool_calls": []any{
					map[string]any{"id": id, "type": "function", "function": map[string]any{"name": a.call, "arguments": a.arguments}},
				}},
				map[string]any{"role": "tool", "tool_call_id": id, "content": a.result})
		case surface == codec.Messages:
			result := map[string]any{"type": "tool_result", "tool_use_id": id, "content": a.result}
			if i >= len(acts)-2 { // as Claude Code marks the end for the cache
				result["cache_control"] = map[string]any{"type": "ephemeral"}
			}
			items = append(items,
				map[string]any{"role": "assistant", "content": []any{
					map[string]any{"type": "text", "text": a.thinks},
					map[string]any{"type": "tool_use", "id": id, "name": a.call, "input": json.RawMessage(a.arguments)},
				}},
				map[string]any{"role": "user", "content": []any{result}})
		default:
			items = append(items,
				map[string]any{"type": "message", "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": a.thinks}}},
				map[string]any{"type": "function_call", "call_id": id, "name": a.call, "arguments": a.arguments},
				map[string]any{"type": "function_call_output", "call_id": id, "output": a.result})
		}
	}
	body := map[string]any{"model": "m", "messages": items}
	switch surface {
	case codec.Responses:
		body = map[string]any{"model": "m", "input": items}
	case codec.Gemini:
		body = map[string]any{"contents": items}
	}
	text, _ := json.Marshal(body)
	return text
}

func find(t testing.TB, surface codec.Format, acts []act, least int) repeats.Loop {
	body := request(surface, acts)
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		t.Fatal(err)
	}
	return repeats.Find(surface, body, e.Items, least)
}

// healthy returns an agent's conversation in which much is alike: results without content, tests that pass again, files
// read twice, a command that waits, a person who asks the same again.
func healthy(r *rand.Rand, length int) (acts []act) {
	acts = append(acts, act{says: "Fix the tests of the invoices."})
	thinks := func() string {
		return []string{"", "Let me look.", "Now the tests.", "I see the cause."}[r.IntN(4)]
	}
	for len(acts) < length {
		file := fmt.Sprintf("invoice_%d.go", r.IntN(40))
		switch r.IntN(6) {
		case 0, 1: // an edit and its test
			acts = append(acts,
				act{thinks: thinks(), call: "Edit", arguments: fmt.Sprintf(`{"file":%q,"new":"%08d"}`, file, r.IntN(1e8)), result: "The file has been updated."},
				act{thinks: thinks(), call: "Bash", arguments: `{"command":"go test ./..."}`, result: "ok  \tinvoices\t(cached)"})
		case 2:
			acts = append(acts, act{thinks: thinks(), call: "Read", arguments: fmt.Sprintf(`{"file":%q}`, file), result: strings.Repeat(file+"\n", 20)})
		case 3: // a command that waits
			for i := range 3 + r.IntN(12) {
				acts = append(acts, act{call: "Output", arguments: `{"id":"b1"}`, result: fmt.Sprintf("running, %02d s", i)})
			}
		case 4: // a person who asks the same again and again
			for range 2 + r.IntN(8) {
				acts = append(acts, act{says: "Is it done?"}, act{call: "Bash", arguments: `{"command":"git status"}`, result: "clean"})
			}
		default: // the same twice or three times
			for range 1 + r.IntN(3) {
				acts = append(acts, act{thinks: thinks(), call: "Glob", arguments: `{"pattern":"*.go"}`, result: "invoice.go"})
			}
			acts = append(acts, act{call: "Todo", arguments: fmt.Sprintf(`{"done":"%02d"}`, len(acts)), result: "noted"})
		}
	}
	return acts
}

// circling returns one round of a loop: one to three calls that find nothing new.
func circling(r *rand.Rand) (round []act) {
	for i := range 1 + r.IntN(3) {
		round = append(round, act{
			thinks: "Let me try again.", call: []string{"Bash", "Edit", "WebFetch"}[i],
			arguments: fmt.Sprintf(`{"at":"%d"}`, r.IntN(1000)),
			result:    strings.Repeat("no such file or directory\n", 1+r.IntN(30)),
		})
	}
	return round
}

func TestNoHealthySessionIsTakenForALoop(t *testing.T) {
	if testing.Short() {
		t.Skip("many sessions, one after the other")
	}
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 1))
		acts := healthy(r, 20+r.IntN(40))
		surface := surfaces[seed%uint64(len(surfaces))]
		for end := max(len(acts)-12, 2); end <= len(acts); end += 3 {
			if loop := find(t, surface, acts[:end], 8); loop.Times > 0 {
				t.Fatalf("seed %d, %s, %d steps: %s", seed, surface, end, &loop)
			}
		}
	}
}

func TestALoopIsFoundByItsEighthRound(t *testing.T) {
	if testing.Short() {
		t.Skip("many sessions, one after the other")
	}
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 2))
		acts, round := healthy(r, 10+r.IntN(30)), circling(r)
		acts = append(acts, act{call: "Write", arguments: `{}`, result: fmt.Sprint("written ", seed)})
		for times := 1; times <= 9; times++ {
			for _, a := range round { // the agent excuses itself in other words each time
				a.thinks = strings.Repeat("Let me try again. ", 1+r.IntN(3))
				acts = append(acts, a)
			}
			surface := surfaces[seed%uint64(len(surfaces))]
			loop := find(t, surface, acts, 5)
			if want := times >= 5; want != (loop.Times == times) || want && len(loop.Calls) != len(round) {
				t.Fatalf("seed %d, %s: round %d of %d calls: %s", seed, surface, times, len(round), &loop)
			}
		}
	}
}

// An agent may go in circles without going the same way round twice.
func TestALoopInAnyOrderIsFound(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 3))
		surface := surfaces[seed%uint64(len(surfaces))]
		acts := append(healthy(r, 10+r.IntN(30)), act{call: "Write", arguments: `{}`, result: fmt.Sprint("written ", seed)})
		round := make([]act, 1+r.IntN(5))
		for i := range round {
			round[i] = act{call: fmt.Sprint("look_", i), arguments: `{"at":"here"}`, result: strings.Repeat(fmt.Sprint("nothing ", i, "\n"), 1+r.IntN(30))}
		}
		found := 0
		for times := 1; times <= 8 && found == 0; times++ {
			r.Shuffle(len(round), func(i, j int) { round[i], round[j] = round[j], round[i] })
			acts = append(acts, round...)
			if loop := find(t, surface, acts, 5); loop.Times > 0 {
				found = times
				if len(loop.Calls) != len(round) || loop.Times != times || loop.Tokens < int64(len(round)*(times-1)) {
					t.Errorf("seed %d, %s: in round %d of %d calls: %+v", seed, surface, times, len(round), loop)
				}
			}
		}
		if found < 5 {
			t.Errorf("seed %d, %s, %d calls in any order: found in round %d", seed, surface, len(round), found)
		}
	}
}

// Claude Code adds reminders to results now and then.
func TestRemarksOfAClientHideNoLoop(t *testing.T) {
	items := []string{`{"role":"user","content":"Build it."}`}
	for i := range 12 {
		remark := ""
		if i%4 == 3 {
			remark = fmt.Sprintf(`,{"type":"text","text":"<system-reminder>\nToken usage: %d/200000\n</system-reminder>"}`, 1000*i)
		}
		items = append(items, fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%02d","name":"Bash","input":{"command":"make"}}]}`, i),
			fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%02d","content":"make: *** No rule"}%s]}`, i, remark))
	}
	body := []byte(`{"messages":[` + strings.Join(items, ",") + `]}`)
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		t.Fatal(err)
	}
	if loop := repeats.Find(codec.Messages, body, e.Items, 5); loop.Times != 12 {
		t.Errorf("%s", &loop)
	}
}

func TestAPersonsWordsEndALoop(t *testing.T) {
	round := act{call: "Bash", arguments: `{"command":"make"}`, result: "make: *** No rule"}
	for _, surface := range surfaces {
		acts := []act{{says: "Build it."}, round, round, round, round, round, round}
		if loop := find(t, surface, acts, 6); loop.Times != 6 || loop.String() != "6 times Bash" {
			t.Errorf("%s: %s", surface, &loop)
		}
		acts = append(acts, act{says: "Try once more."})
		if loop := find(t, surface, acts, 4); loop.Times != 0 {
			t.Errorf("%s, after a person's words: %s", surface, &loop)
		}
		if loop := find(t, surface, append(acts, round, round, round), 4); loop.Times != 0 {
			t.Errorf("%s, three more: %s", surface, &loop)
		}
	}
}

// Clients write members in any order, and put several results into one message.
func TestALoopIsFoundHoweverItsClientWritesIt(t *testing.T) {
	long := strings.Repeat("no rule to make it\n", 20)
	for name, write := range map[string]func(id int) string{
		"role first, kind of the result last": func(id int) string {
			return fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"toolu_%d","name":"Bash","input":{}}]},{"role":"user","content":[{"content":%q,"tool_use_id":"toolu_%d","type":"tool_result"}]}`, id, long, id)
		},
		"two calls at once, ids of other lengths": func(id int) string {
			return fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":"a%d","name":"Bash","input":{}},{"type":"tool_use","id":"b%d","name":"Read","input":{"n":1}}]},`+
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"a%d","content":%q},{"type":"tool_result","tool_use_id":"b%d","content":%q}]}`, id, id, id, long, id, long)
		},
		"with spaces": func(id int) string {
			return fmt.Sprintf(`{"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_%d", "name": "Bash", "input": {"command": "make"}}]}, {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_%d", "content": %q}]}`, id, id, long)
		},
	} {
		items := []string{`{"role":"user","content":"Build it."}`}
		for i := range 7 {
			items = append(items, write(7+i)) // ids of one digit and of two
		}
		body := []byte(`{"messages":[` + strings.Join(items, ",") + `]}`)
		var e codec.Envelope
		if err := e.Read(body); err != nil {
			t.Fatal(err)
		}
		if loop := repeats.Find(codec.Messages, body, e.Items, 5); loop.Times != 7 {
			t.Errorf("%s: %s", name, &loop)
		}
	}
}

func TestRequestsWithoutAHistoryAreNoLoop(t *testing.T) {
	for _, body := range []string{`{"model":"m","input":"hi"}`, `{"model":"m","input":[]}`, `{"model":"m","messages":[]}`, `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, `{"model":"m","messages":[1,1,1,1,1,1,1,1]}`} {
		var e codec.Envelope
		if err := e.Read([]byte(body)); err != nil {
			t.Fatal(err)
		}
		for _, surface := range surfaces {
			if loop := repeats.Find(surface, []byte(body), e.Items, 1); loop.Times != 0 {
				t.Errorf("%s on %s: %s", body, surface, &loop)
			}
		}
	}
}

// Every request of an agent is looked at; all but a few cost a comparison of what they end with.
func BenchmarkFindInHealthySessions(b *testing.B) {
	benchmarkFind(b, healthy(rand.New(rand.NewPCG(1, 1)), 400))
}

// Edits that end in the same words, and a command that waits, are alike but in what they say.
func BenchmarkFindInNearRepetitions(b *testing.B) {
	acts := []act{{says: "Rename it in every file."}}
	for i := range 200 {
		acts = append(acts, act{thinks: "Next.", call: "Edit", arguments: fmt.Sprintf(`{"file":"invoice_%03d.go","old":%q,"new":%q}`, i, strings.Repeat("old line\n", 20), strings.Repeat("new line\n", 20)), result: "The file has been updated."})
	}
	for i := range 200 {
		acts = append(acts, act{call: "Output", arguments: `{"id":"b1"}`, result: fmt.Sprintf("%s\nrunning, %03d s", strings.Repeat("compiling\n", 100), i)})
	}
	benchmarkFind(b, acts)
}

// A loop is read each time.
func BenchmarkFindInALoop(b *testing.B) {
	acts := []act{{says: "Build it."}}
	for range 200 {
		acts = append(acts, act{thinks: "Again.", call: "Bash", arguments: `{"command":"make"}`, result: strings.Repeat("no rule\n", 20)})
	}
	benchmarkFind(b, acts)
}

func benchmarkFind(b *testing.B, acts []act) {
	body := request(codec.Messages, acts)
	var e codec.Envelope
	if err := e.Read(body); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for end := 1; b.Loop(); end = (end + 2) % (len(e.Items) + 1) { // each request ends with a result, or with a person's words
		repeats.Find(codec.Messages, body, e.Items[:end], 5)
	}
}
