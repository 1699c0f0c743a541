package recall_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
)

// told is a session of turns, oldest first.
type told []*record.Turn

func (s told) Timeline(_, _ string, q record.TimelineQuery) (page record.TimelinePage, err error) {
	for i := range s {
		at := i
		if q.Descending {
			at = len(s) - 1 - i
		}
		if len(page.Data) == q.Limit {
			page.HasMore = true
			break
		}
		page.Data = append(page.Data, record.TimelineEntry{Exchange: record.ExchangeInfo{ID: fmt.Sprint(at)}, Turn: s[at]})
	}
	return page, nil
}

func TestAStorySaysWhatIsLeftAndWhatStillFails(t *testing.T) {
	user := func(parts ...record.Part) []record.Message { return []record.Message{{Role: "user", Parts: parts}} }
	model := func(parts ...record.Part) []record.Message {
		return []record.Message{{Role: "assistant", Parts: parts}}
	}
	text := func(s string) record.Part { return record.Part{Kind: "text", Text: s} }
	call := func(id, name, arguments string) record.Part {
		return record.Part{Kind: "call", CallID: id, Name: name, Arguments: arguments}
	}
	result := func(id, s string) record.Part { return record.Part{Kind: "result", CallID: id, Text: s} }
	session := told{
		{Messages: user(text("Mend the lock.")), Answer: model(text("Let me look."), call("1", "Bash", `{"command":"go test"}`), call("2", "Bash", `{"command":"go vet"}`))},
		{Messages: user(result("1", "--- FAIL: TestLock"), result("2", "error: unused")), Answer: model(call("3", "Edit", `{"file_path":"/src/lock.go"}`), call("4", "TodoWrite", `{"todos":[{"content":"Vet it","status":"pending"},{"content":"Test it","status":"completed"}]}`))},
		{Messages: user(result("3", "changed"), result("4", "noted")), Answer: model(call("5", "Bash", `{"command":"go test"}`))},
		nil,
		{Messages: user(result("5", "ok")), Answer: model(text("The lock is mended. It waits."))},
	}
	got, err := recall.ReadStory(t.Context(), session, "acme", "sess_1")
	want := recall.Story{
		Goal: "Mend the lock.", Done: "The lock is mended.", Left: []string{"Vet it"}, Files: []string{"/src/lock.go"}, Errors: []string{"error: unused"},
		Commands: []recall.Run{{Exchange: "4", Command: "go test", Line: "ok"}, {Exchange: "1", Command: "go vet", Failed: true, Line: "error: unused"}},
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(recall.Run{})); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
	// Some providers give calls no ids: their results name the tool.
	unnamed := told{
		{Messages: user(text("Test it.")), Answer: model(call("", "Bash", `{"command":"go test"}`))},
		{Messages: user(record.Part{Kind: "result", Name: "Bash", Text: "--- FAIL: TestLock"}), Answer: model(text("It fails."))},
	}
	if got, err := recall.ReadStory(t.Context(), unnamed, "acme", "sess_1"); err != nil || len(got.Commands) != 1 || !got.Commands[0].Failed {
		t.Errorf("without ids: %+v %v", got, err)
	}
	if got, err := recall.ReadStory(t.Context(), told{}, "acme", "sess_1"); err != nil || got.Goal != "" {
		t.Errorf("an empty session: %+v %v", got, err)
	}
}
