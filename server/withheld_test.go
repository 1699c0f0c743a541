package server_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// lodge lets an agent decide something about a file and run a command that fails, each in an exchange with a word of its own.
func (h *harness) lodge(directory, session string, mark func(string) string) (decided, failed *answer) {
	h.t.Helper()
	said := func(text, answer string) string {
		return `{"role":"user","content":` + quoted(sim(mark(text), mark(answer))) + `}`
	}
	send := func(items ...string) *answer {
		system := `{"role":"system","content":` + quoted("You are an agent.\nWorking directory: "+directory+"\n") + `}`
		return h.post(chat.path, `{"model":"`+chat.model+`","messages":[`+system+`,`+strings.Join(items, ",")+`]}`, "X-Service-Chat-Key", session)
	}
	keep := "We decided that pkg/lodge.go keeps the quokkalodge instead of a cache."
	ask, answered := said(keep, "The quokkalodge in pkg/lodge.go stays."), `{"role":"assistant","content":`+quoted(mark("The quokkalodge in pkg/lodge.go stays."))+`}`
	call := `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"Bash","arguments":` + quoted(`{"command":"make lodge"}`) + `}},` +
		`{"id":"c2","type":"function","function":{"name":"Edit","arguments":` + quoted(`{"file_path":`+quoted(mark(directory+"/wombatlodge.go"))+`}`) + `}}]}`
	result := `{"role":"tool","tool_call_id":"c1","content":` + quoted(mark("Exit code 2\nmake: *** [wombatlodge] Error 2")) + `},{"role":"tool","tool_call_id":"c2","content":"done"}`
	return send(ask), send(ask, answered, call, result, said("What fails for the wombatlodge in pkg/lodge.go?", "The wombatlodge has no port."))
}

// tellings are the texts of all places where what an exchange says can come out, for a key.
func (h *harness) tellings(key, directory, session, id string, asks int) map[string]string {
	h.t.Helper()
	auth := []string{"Authorization", "Bearer " + key}
	found := make(map[string]string)
	get := func(name, path string) { found[name] = h.do(http.MethodGet, "/v1/memory"+path, "", auth...).body }
	get("sessions", "/sessions?include=beginning")
	get("stories", "/sessions?include=story")
	get("a session", "/sessions/"+id)
	get("a timeline", "/sessions/"+id+"/timeline")
	get("statistics", "/stats")
	get("costs", "/costs?by=part,tool,server")
	for name, request := range map[string]string{
		"search by a typing error":  `{"query":"where is the quokkalogde in the lodge","explain":true,"snippet_bytes":2000}`,
		"another by a typing error": `{"query":"where is the wombatlogde in the lodge","explain":true,"snippet_bytes":2000}`,
		"search by words":           `{"query":"lodge.go","mode":"lexical","snippet_bytes":2000,"facets":true}`,
		"search by vectors":         `{"query":"quokkalodges and wombatlodges","mode":"vector","explain":true}`,
		"search for sessions":       `{"query":"lodge.go","granularity":"session","facets":true}`,
		"hints":                     `{"query":"x","filters":{"and":[{"field":"file","op":"eq","value":"none.go"},{"field":"project","op":"eq","value":"none"}]}}`,
		"facets":                    `{"newest":true,"facets":true,"limit":1}`,
	} {
		_, _, found[name] = h.find(key, request)
	}
	event := func(members string) string {
		return fmt.Sprintf(`{"session_id":"asks %d %s %s","cwd":%s,%s}`, asks, key[len(key)-4:], directory, quoted(directory), members)
	}
	for name, body := range map[string]string{
		"recall":           askedIn("what did we decide about pkg/lodge.go", directory),
		"recall, asked":    strings.Replace(askedIn("what did we decide about pkg/lodge.go", directory), "{", `{"asked":true,"scope":"account",`, 1),
		"a hook":           event(`"hook_event_name":"UserPromptSubmit","prompt":"what did we decide about pkg/lodge.go"`),
		"a start":          event(`"hook_event_name":"SessionStart","source":"startup"`),
		"a compaction":     strings.Replace(event(`"hook_event_name":"SessionStart","source":"compact"`), `"session_id":"`, `"session_id":"`+session+`","x":"`, 1),
		"before an edit":   event(`"hook_event_name":"PreToolUse","tool_name":"Edit","tool_input":{"file_path":"` + directory + `/pkg/lodge.go"}`),
		"before a command": event(`"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"make lodge"}`),
	} {
		found[name] = h.do(http.MethodPost, "/v1/memory/recall", body, auth...).body
	}
	agent, err := h.agent(key)
	for tool, arguments := range map[string]map[string]any{
		"memory_search": {"query": "lodge.go"}, "memory_timeline": {"session_id": id}, "memory_list_sessions": {}, "memory_get_session": {"session_id": id},
		"memory_recall": {"prompt": "what did we decide about pkg/lodge.go"}, "project_digest": {"directory": directory, "session_id": session},
	} {
		if err == nil { // the key may read
			found[tool], _ = uses(h.t.(*testing.T), agent, tool, arguments)
		}
	}
	request := messages.said(messages.model, "Working directory: "+directory+"\n", sim("What did we decide about pkg/lodge.go?", "I see."))
	h.post(messages.path, request, "X-Service-Recall", "on", "X-Service-Chat-Key", "requests", "Authorization", "Bearer "+key)
	found["a request"] = string(h.upstream().Body)
	return found
}

// What is erased, belongs to another account, is asked for with a key that may not read, or is marked as private comes out nowhere.
func TestWhatIsWithheldIsToldNowhere(t *testing.T) {
	h := searching(t)
	h.account("globex")
	stranger, writer := h.createKey("globex", store.AllScopes), h.createKey("acme", store.AllScopes&^store.ScopeRead)
	const shed, first, second = "/home/ann/shed", "quokkalodge", "wombatlodge"
	decided, _ := h.lodge(shop, "open", func(text string) string { return text })
	session := decided.header.Get("X-Service-Session-ID")
	h.turns(session)
	h.find(h.key, `{"newest":true}`)
	asks := 0
	told := func(key, directory, session, id, word string) (where []string) {
		asks++
		for name, text := range h.tellings(key, directory, session, id, asks) {
			if strings.Contains(strings.ToLower(text), word) {
				where = append(where, name)
			}
		}
		slices.Sort(where)
		return where
	}
	silent := func(who, key, directory, session, id, word string) {
		t.Helper()
		if where := told(key, directory, session, id, word); len(where) > 0 {
			t.Errorf("%s: %s comes out in %q", who, word, where)
		}
	}
	open := h.tellings(h.key, shop, "open", session, asks)
	for _, name := range []string{"costs", "hints", "memory_get_session", "statistics"} { // have no words of exchanges
		delete(open, name)
	}
	for name, text := range open {
		if !strings.Contains(text, first) && !strings.Contains(text, second) {
			t.Errorf("%s shows nothing of what is to be withheld: %s", name, text)
		}
	}
	for _, word := range []string{first, second} {
		silent("another account", stranger, shop, "open", session, word)
		silent("a key that may not read", writer, shop, "open", session, word)
	}

	erase := func(path string) {
		h.erased(member(h.ask(http.StatusAccepted, http.MethodDelete, path, "").body, "id"))
	}
	erase("/exchanges/" + decided.exchange())
	silent("an erased exchange", h.key, shop, "open", session, first)
	erase("/sessions/" + session)
	silent("an erased session", h.key, shop, "open", session, second)

	for name, mark := range map[string]func(string) string{
		"marked":     func(text string) string { return "<private>" + text + "</private>" },
		"not closed": func(text string) string { return "Well. < PRIVATE a=\"b\">" + text },
		"nested":     func(text string) string { return "<private>a <private>b</private> " + text + "</private> Well." },
	} {
		decided, _ := h.lodge(shed, name, mark)
		session := decided.header.Get("X-Service-Session-ID")
		h.turns(session)
		for _, word := range []string{first, second} {
			silent(name, h.key, shed, name, session, word)
		}
	}
}
