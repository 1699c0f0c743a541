package recall_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// memory is a store with an index, on disk, that recalls. The bodies of its exchanges are what was said.
type memory struct {
	*recall.Memory
	t      testing.TB
	engine *engine.Engine
}

type script struct{ Messages, Answer []record.Message }

func openMemory(t testing.TB) *memory {
	t.Helper()
	dir := t.TempDir()
	read := func(x *record.Exchange) (d record.Digest, err error) {
		if x.Auxiliary != "" {
			return digest.Exchange(x)
		}
		var s script
		err = json.Unmarshal(x.RawRequest, &s)
		return record.Digest{Messages: s.Messages, Answer: s.Answer}, err
	}
	e, err := engine.Open(store.Options{Dir: dir, MinFreeDisk: -1, Digest: read}, &search.Options{Dir: filepath.Join(dir, "index")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := e.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	return &memory{recall.New(recall.Over(e), recall.Options{Deadline: time.Minute}), t, e}
}

// directory is where the sessions of these tests work.
const directory = "/home/ann/shop"

// say records an exchange of a session and returns its id.
func (m *memory) say(session string, messages, answer []record.Message) string {
	m.t.Helper()
	body, err := json.Marshal(script{messages, answer})
	if err != nil {
		m.t.Fatal(err)
	}
	return m.capture(&record.Opening{NativeSession: session, Project: directory, Body: body}, nil)
}

func (m *memory) capture(o *record.Opening, answer []byte) string {
	m.t.Helper()
	o.Account, o.Surface, o.Format, o.Provider, o.ModelAsked = "acme", codec.Chat, codec.Chat, "openai", "gpt-5"
	c, err := m.engine.Begin(context.Background(), o)
	if err != nil {
		m.t.Fatal(err)
	}
	if _, err := c.Write(answer); err != nil {
		m.t.Fatal(err)
	}
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}); err != nil {
		m.t.Fatal(err)
	}
	return c.ID()
}

// summarize records that the client asked for a summary of a session and got one.
func (m *memory) summarize(session, summary string) {
	m.t.Helper()
	answer, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": summary}}}})
	if err != nil {
		m.t.Fatal(err)
	}
	m.capture(&record.Opening{
		NativeSession: session, Project: directory, Auxiliary: record.AuxiliarySummary,
		Body: []byte(`{"model":"gpt-5","messages":[{"role":"user","content":"Your task is to create a detailed summary of the conversation"}]}`),
	}, answer)
}

// wait waits until everything is found.
func (m *memory) wait() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := m.engine.Index().Wait(ctx, "acme"); err != nil {
		m.t.Fatal(err)
	}
}

func message(role string, parts ...record.Part) record.Message {
	return record.Message{Role: role, Parts: parts}
}

func words(text string) record.Part { return record.Part{Kind: "text", Text: text} }

// agent makes the turns of a session: it asks, calls tools and answers.
type agent struct {
	*memory
	session string
	calls   int
	results []record.Part // of the calls before
}

// ask sends what a person says.
func (a *agent) ask(text string, answer ...record.Part) string {
	return a.send(message("user", words(text)), answer)
}

func (a *agent) send(sent record.Message, answer []record.Part) string {
	var list []record.Message
	if len(answer) > 0 {
		list = append(list, message("assistant", answer...))
	}
	return a.say(a.session, []record.Message{sent}, list)
}

// call returns a call, whose result the next step sends.
func (a *agent) call(tool, arguments, result string, failed bool) record.Part {
	a.calls++
	id := fmt.Sprintf("%s-%d", a.session, a.calls)
	a.results = append(a.results, record.Part{Kind: "result", CallID: id, Text: result, Failed: failed})
	return record.Part{Kind: "call", CallID: id, Name: tool, Arguments: arguments}
}

// step sends the results of the calls before.
func (a *agent) step(answer ...record.Part) string {
	results := a.results[:len(a.results)-count(answer)]
	a.results = a.results[len(results):]
	return a.send(message("user", results...), answer)
}

func count(parts []record.Part) (calls int) {
	for i := range parts {
		if parts[i].Kind == "call" {
			calls++
		}
	}
	return calls
}

// run asks for a command to be run, and answers with text.
func (a *agent) run(asked, command, result string, failed bool, said string) {
	a.ask(asked, a.call("Bash", asJSON(map[string]string{"command": command}), result, failed))
	a.step(words(said))
}

// edit asks for an edit, and answers with text.
func (a *agent) edit(asked, file, said string) {
	a.ask(asked, a.call("Edit", asJSON(map[string]string{"file_path": file, "old_string": "a", "new_string": "b"}), "The file was updated.", false))
	a.step(words(said))
}

func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// timeline returns the exchanges of a session.
func (m *memory) timeline(session string) (ids []string) {
	m.t.Helper()
	page, err := m.engine.Archive().Timeline("acme", m.SessionKnownAs("acme", session), record.TimelineQuery{Limit: 50})
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range page.Data {
		ids = append(ids, page.Data[i].Exchange.ID)
	}
	return ids
}
