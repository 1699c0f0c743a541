package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// unknownHere is what errors about ids of other accounts say.
const unknownHere = "not found. With the server's credential"

func TestWhatAnotherAccountMadeWithTheServersCredentialIsUnknown(t *testing.T) {
	h := build(t)
	h.account("globex")
	other := h.createKey("globex", store.AllScopes)
	as := func(key, path, body string, headers ...string) *answer {
		return h.do(http.MethodPost, path, body, append(headers, "Authorization", "Bearer "+key)...)
	}
	first := h.post(responses.path, responses.body("", false))
	var answered struct {
		ID     string
		Output []struct{ ID string }
	}
	ok(t, json.Unmarshal([]byte(first.body), &answered))
	item := answered.Output[len(answered.Output)-1].ID
	responsesBody := func(input, more string) string {
		return fmt.Sprintf(`{"model":%q,"input":%s%s}`, responses.model, input, more)
	}
	previous := responsesBody(`"go on"`, `,"previous_response_id":`+quoted(answered.ID))
	for name, body := range map[string]string{
		"previous":               previous,
		"previous, escaped name": strings.Replace(previous, "previous_response", `previous\u005fresponse`, 1),
		"item":                   responsesBody(`[{"type":"item_reference","id":`+quoted(item)+`},{"role":"user","content":"go on"}]`, ""),
		"item without a type":    responsesBody(`[{"id":`+quoted(item)+`},{"role":"user","content":"go on"}]`, ""),
	} {
		if a := h.post(responses.path, body); strings.Contains(a.body, unknownHere) {
			t.Errorf("%s: to its own account it says %d %s", name, a.status, a.body)
		}
		a := as(other, responses.path, body)
		if a.status != http.StatusNotFound || !strings.Contains(a.body, unknownHere) {
			t.Errorf("%s: to another account it says %d %s", name, a.status, a.body)
		}
		if strings.HasPrefix(name, "previous") && !strings.Contains(a.body, `"previous_response_not_found"`) {
			t.Errorf("%s: the code is missing: %s", name, a.body)
		}
		a = as(other, responses.path, strings.Replace(body, responses.model, "claude-opus-4-8", 1))
		if a.status != http.StatusNotFound || !strings.Contains(a.body, "is not on record here") {
			t.Errorf("%s: with a model of another provider it says %d %s", name, a.status, a.body)
		}
	}

	file := `{"role":"user","content":[{"type":"input_file","file_id":"file-abc"}]}`
	foreign := map[string]struct{ path, body string }{
		"file":           {responses.path, responsesBody("["+file+"]", "")},
		"image":          {responses.path, responsesBody(`[{"role":"user","content":[{"type":"input_image","file_id":"file-abc","detail":"auto"}]}]`, "")},
		"conversation":   {responses.path, responsesBody(`"hi"`, `,"conversation":"conv_abc"`)},
		"conversation{}": {responses.path, responsesBody(`"hi"`, `,"conversation":{"id":"conv_abc"}`)},
		"prompt":         {responses.path, responsesBody(`"hi"`, `,"prompt":{"id":"pmpt_abc"}`)},
		"vector store":   {responses.path, responsesBody(`"hi"`, `,"tools":[{"type":"file_search","vector_store_ids":["vs_abc"]}]`)},
		"container":      {responses.path, responsesBody(`"hi"`, `,"tools":[{"type":"code_interpreter","container":"cntr_abc"}]`)},
		"its files":      {responses.path, responsesBody(`"hi"`, `,"tools":[{"type":"code_interpreter","container":{"type":"auto","file_ids":["file-abc"]}}]`)},
		"chat file":      {chat.path, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"file-abc"}}]}]}`, chat.model)},
		"chat audio":     {chat.path, fmt.Sprintf(`{"model":%q,"messages":[{"role":"assistant","audio":{"id":"audio_abc"}},{"role":"user","content":"hi"}]}`, chat.model)},
		"messages file":  {messages.path, fmt.Sprintf(`{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":[{"type":"document","source":{"type":"file","file_id":"file_abc"}}]}]}`, messages.model)},
		"a container":    {messages.path, fmt.Sprintf(`{"model":%q,"max_tokens":9,"container":"container_abc","messages":[{"role":"user","content":"hi"}]}`, messages.model)},
		"upload":         {messages.path, fmt.Sprintf(`{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":[{"type":"container_upload","file_id":"file_abc"}]}]}`, messages.model)},
	}
	const googles = "https://generativelanguage.googleapis.com/v1beta/files/abc"
	for name, row := range map[string]struct{ path, body string }{
		"a file of Google's by chat":      {chat.path, `{"model":"gemini-2.5-flash","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"` + googles + `"}}]}]}`},
		"a file of Google's by responses": {responses.path, `{"model":"gemini-2.5-flash","input":[{"role":"user","content":[{"type":"input_image","image_url":"` + googles + `"}]}]}`},
		"a file of Google's by messages":  {messages.path, `{"model":"gemini-2.5-flash","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"` + googles + `"}}]}]}`},
		"a file of Google's":              {"/gemini/v1beta/models/gemini-2.5-flash:generateContent", `{"contents":[{"role":"user","parts":[{"file_data":{"file_uri":"` + googles + `"}}]}]}`},
		"a cache of Google's":             {"/gemini/v1beta/models/gemini-2.5-flash:generateContent", `{"cachedContent":"cachedContents/abc","contents":[{"role":"user","parts":[{"text":"hi"}]}]}`},
	} {
		foreign[name] = row
	}
	for name, row := range foreign {
		if a := as(other, row.path, row.body); a.status != http.StatusNotFound || !strings.Contains(a.body, unknownHere) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for name, row := range map[string]struct{ path, body string }{
		"what a tool is called with": {messages.path, fmt.Sprintf(`{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"f","input":{"file_id":"file_abc"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"ok"}]}]}`, messages.model)},
		"metadata and schemas": {responses.path, responsesBody(`"hi"`, `,"metadata":{"file_id":"x"},"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"file_id":{"type":"string"}},"default":{"file_id":"x"}}}]`)},
		"an environment": {responses.path, responsesBody(`[{"role":"user","content":"hi"},{"type":"local_shell_call","id":"lsh_1","call_id":"call_1","status":"completed","action":{"type":"exec","command":["ls"],"env":{"file_id":"x"}}},
			{"type":"local_shell_call_output","call_id":"call_1","id":"lsho_1","output":"ok"}]`, "")},
		"words": {chat.path, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"say \"file_id\": \"x\""}]}`, chat.model)},
	} {
		if a := as(other, row.path, row.body); strings.Contains(a.body, unknownHere) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}

	if a := h.do(http.MethodPost, responses.path, previous, "X-Service-API-Key", other, "Authorization", "Bearer "+callersOwnKey); strings.Contains(a.body, unknownHere) {
		t.Errorf("with the caller's own credential: %d %s", a.status, a.body)
	}
	ok(t, h.store.Credentials().Set("globex", "openai", accountsOwnKey))
	if a := as(other, responses.path, previous); strings.Contains(a.body, unknownHere) {
		t.Errorf("with the account's own credential: %d %s", a.status, a.body)
	}
}

// Without a record an account can go on from its answers as well.
func TestAnAnswerOffTheRecordIsContinuedByItsAccountAlone(t *testing.T) {
	h := build(t, captureOff)
	h.account("globex")
	other := h.createKey("globex", store.AllScopes)
	for range 50 { // the client may go on before the note of the answer is committed
		first := h.post(responses.path, responses.body("", false))
		var answered struct{ ID string }
		ok(t, json.Unmarshal([]byte(first.body), &answered))
		body := fmt.Sprintf(`{"model":%q,"input":"go on","previous_response_id":%q}`, responses.model, answered.ID)
		if a := h.post(responses.path, body); strings.Contains(a.body, unknownHere) {
			t.Fatalf("its own account: %d %s", a.status, a.body)
		}
		if a := h.do(http.MethodPost, responses.path, body, "Authorization", "Bearer "+other); a.status != http.StatusNotFound || !strings.Contains(a.body, unknownHere) {
			t.Fatalf("another account: %d %s", a.status, a.body)
		}
	}
}

func TestASingleAccountRefersToWhatItLikes(t *testing.T) {
	h := build(t)
	if n := len(h.store.Accounts().List()); n != 1 {
		t.Fatalf("there are %d accounts", n)
	}
	body := fmt.Sprintf(`{"model":%q,"input":"go on","previous_response_id":"resp_abc"}`, responses.model)
	if a := h.post(responses.path, body); strings.Contains(a.body, unknownHere) {
		t.Errorf("%d %s", a.status, a.body)
	}
}
