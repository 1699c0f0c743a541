package server_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// remembering is a harness that digests what passes.
func remembering(t *testing.T, changes ...func(*plan)) *harness {
	h := build(t, append(changes, func(p *plan) { p.store.Digest = digest.Exchange })...)
	h.key = h.createKey("acme", store.AllScopes)
	return h
}

// said is a request in which user and assistant have spoken in turns, the user first.
func (s surface) said(model, system string, turns ...string) string {
	var items []string
	for i, text := range turns {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		if s.name == "gemini" {
			role = strings.Replace(role, "assistant", "model", 1)
			items = append(items, fmt.Sprintf(`{"role":%q,"parts":[{"text":%s}]}`, role, quoted(text)))
			continue
		}
		items = append(items, fmt.Sprintf(`{"role":%q,"content":%s}`, role, quoted(text)))
	}
	list := strings.Join(items, ",")
	switch s.name {
	case "messages":
		return fmt.Sprintf(`{"model":%q,"max_tokens":100,"system":[{"type":"text","text":%s,"cache_control":{"type":"ephemeral"}}],"messages":[%s]}`, model, quoted(system), list)
	case "responses":
		return fmt.Sprintf(`{"model":%q,"instructions":%s,"input":[%s]}`, model, quoted(system), list)
	case "gemini":
		return fmt.Sprintf(`{"model":%q,"systemInstruction":{"parts":[{"text":%s}]},"contents":[%s]}`, model, quoted(system), list)
	default:
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%s},%s]}`, model, quoted(system), list)
	}
}

// sim is a user's text that makes the simulated provider answer with text.
func sim(words, answer string) string { return words + ` [[sim: text "` + answer + `"]]` }

// session sends a request that has to succeed and gives the session it was put into.
func (h *harness) session(path, body string, headers ...string) string {
	h.t.Helper()
	a := h.post(path, body, headers...)
	id := a.header.Get("X-Service-Session-ID")
	if a.status != 200 || !strings.HasPrefix(id, "sess_") {
		h.t.Fatalf("%d, session %q: %s", a.status, id, a.body)
	}
	return id
}

// turns are the turns of a session once all of its exchanges that are turns have been digested.
func (h *harness) turns(session string) []record.TimelineEntry {
	h.t.Helper()
	var entries []record.TimelineEntry
	eventually(h.t, func() error {
		page, err := h.store.Archive().Timeline("acme", session, record.TimelineQuery{Limit: 100})
		if err != nil {
			return err
		}
		entries = page.Data
		for _, e := range entries {
			if e.Exchange.Auxiliary == "" && e.Turn == nil {
				return errors.New("an exchange has not been digested")
			}
		}
		return nil
	})
	return entries
}

// words is what a turn added, in one line: "user: hi | assistant: hello".
func words(turn *record.Turn) string {
	var said []string
	for _, m := range slices.Concat(turn.Messages, turn.Answer) {
		var parts []string
		for _, p := range m.Parts {
			parts = append(parts, strings.TrimSpace(p.Text+p.Name+p.Arguments))
		}
		said = append(said, m.Role+": "+strings.Join(parts, " "))
	}
	return strings.Join(said, " | ")
}

func TestClaudeCodeIsIdentifiedByItsOwnIDs(t *testing.T) {
	const (
		one = "0b7d2c1e-1111-4222-8333-444455556666"
		two = "9f00aa11-1111-4222-8333-444455556666"
	)
	h := remembering(t)
	body := func(id string, turns ...string) string {
		user := fmt.Sprintf(`{"device_id":"d","account_uuid":"","session_id":%q}`, id)
		return with(messages.said(messages.model, "You code.", turns...), `"metadata":{"user_id":`+quoted(user)+`}`)
	}
	id := func(id string) []string { return []string{"X-Claude-Code-Session-Id", id} }
	first, second := sim("mend it", "mended"), sim("test it", "tested")

	session := h.session(messages.path, body(one, first), id(one)...)
	if again := h.session(messages.path, body(one, first, "mended", second)); again != session {
		t.Error("a continuation that has the id in its body only is another session")
	}
	if forked := h.session(messages.path, body(two, first, "mended", sim("no, lint it", "linted")), id(two)...); forked == session {
		t.Error("a forked session is the old one")
	}
	agent := h.session(messages.path, body(one, sim("search", "found")), append(id(one), "X-Claude-Code-Agent-Id", "a1")...)
	if s := h.show(agent); s.Parent != session || s.Agent != "a1" {
		t.Errorf("the subagent's session: %+v", s)
	}
	if again := h.session(messages.path, body(one, sim("search on", "found")), append(id(one), "X-Claude-Code-Agent-Id", "a1")...); again != agent {
		t.Error("the subagent's second request is another session")
	}
	compact := body(one, first, "mended", second, "tested", sim("Your task is to create a detailed summary of the conversation so far.", "mended, tested"))
	if h.session(messages.path, compact, id(one)...) != session {
		t.Error("a summary is asked for in another session")
	}
	if h.session("/v1/messages/count_tokens", body(one, first), id(one)...) != session {
		t.Error("tokens are counted in another session")
	}

	var kinds, said []string
	for _, e := range h.turns(session) {
		kinds = append(kinds, e.Exchange.Auxiliary)
		if e.Turn != nil {
			said = append(said, words(e.Turn))
		}
	}
	if want := []string{"", "", "summary", "count_tokens"}; !slices.Equal(kinds, want) {
		t.Errorf("want exchanges %q, got %q", want, kinds)
	}
	if want := []string{"user: " + first + " | assistant: mended", "user: " + second + " | assistant: tested"}; !slices.Equal(said, want) {
		t.Errorf("want turns %q, got %q", want, said)
	}
}

// A client that counts before it sends has one session, and no empty one beside it.
func TestACountOfTokensOpensNoSession(t *testing.T) {
	h := remembering(t)
	for _, model := range []string{messages.model, chat.model} { // counted by the provider, and by the rule of thumb
		first := sim("count and say of "+model, "said")
		count := h.post("/v1/messages/count_tokens", messages.said(model, "You code.", first))
		if id := count.header.Get("X-Service-Session-ID"); count.status != 200 || id != "" {
			t.Errorf("%s: counted with %d in session %q", model, count.status, id)
		}
		session := h.session(messages.path, messages.said(model, "You code.", first))
		if n := len(h.turns(session)); n != 1 {
			t.Errorf("%s: %d exchanges are in the session", model, n)
		}
		if again := h.session("/v1/messages/count_tokens", messages.said(model, "You code.", first, "said", "more")); again != session {
			t.Errorf("%s: what would go on with the session is counted in another", model)
		}
		if s := h.show(session); s.Exchanges != 2 || s.Auxiliary != 1 {
			t.Errorf("%s: %+v", model, s)
		}
	}
}

// Nobody knows what a request was about that cannot be read, or that leads nowhere and says nothing.
func TestUnreadableRequestsAreOnRecordWithoutASession(t *testing.T) {
	h := remembering(t)
	for _, s := range generating {
		for _, body := range []string{"", "{", `[]`, `{"model":"nobodys"}`} {
			a := h.post(s.path, body)
			if id := a.header.Get("X-Service-Session-ID"); a.status < 400 || id != "" || a.exchange() == "" {
				t.Errorf("%s, %q: %d, exchange %q in session %q", s.name, body, a.status, a.exchange(), id)
			}
		}
	}
	if page, err := h.store.Archive().Sessions("acme", record.SessionQuery{}); err != nil || len(page.Data) != 0 {
		t.Errorf("sessions are %+v (%v)", page.Data, err)
	}
}

func TestCodexResumesItsThread(t *testing.T) {
	const thread = "0199aaaa-bbbb-7ccc-8ddd-eeeeffff0000"
	h := remembering(t)
	first := sim("hello", "hi")
	body := with(responses.said(responses.model, "base", first), `"store":false,"prompt_cache_key":"`+thread+`"`)
	headers := func(kind string) []string {
		return []string{
			"Session-Id", thread, "Thread-Id", thread, "X-Client-Request-Id", thread, "Originator", "codex_exec",
			"X-Codex-Turn-Metadata", `{"session_id":"` + thread + `","thread_id":"` + thread + `","request_kind":"` + kind + `"}`,
		}
	}
	session := h.session(responses.path, body, headers("prewarm")...)
	for name, got := range map[string]string{
		"the turn":            h.session(responses.path, body, headers("turn")...),
		"the resumed turn":    h.session(responses.path, with(responses.said(responses.model, "base", first, "hi", sim("more", "yes")), `"store":false`), headers("turn")...),
		"with its key alone":  h.session(responses.path, body, "Originator", "codex_exec"),
		"with metadata alone": h.session(responses.path, body, "X-Codex-Turn-Metadata", headers("turn")[9]),
	} {
		if got != session {
			t.Errorf("%s: another session", name)
		}
	}
	if other := h.session(responses.path, body); other == session {
		t.Error("a prompt cache key of another client is taken for a conversation")
	}
	subagent := slices.Clone(headers("turn"))
	subagent[3], subagent[9] = "thread-2", ""
	if s := h.show(h.session(responses.path, body, subagent...)); s.Parent != session {
		t.Errorf("the subagent's session: %+v", s)
	}
	if e := h.turns(session)[0]; e.Exchange.Auxiliary != "prewarm" || e.Turn != nil {
		t.Errorf("the prewarming request is a turn: %+v", e.Exchange)
	}
}

func TestOpencodeAsksForATitleFirst(t *testing.T) {
	h := remembering(t)
	id := []string{"X-Session-Id", "ses_77", "X-Session-Affinity", "ses_77"}
	title := h.session(chat.path, chat.said(chat.model, "You are a title generator. You output only a title.", sim("mend it", "Mending")), id...)
	turn := h.session(chat.path, chat.said(chat.model, "You code.", sim("mend it", "mended")), id...)
	if title != turn {
		t.Error("the title request has a session of its own")
	}
	entries := h.turns(turn)
	if len(entries) != 2 || entries[0].Exchange.Auxiliary != "title" || entries[0].Turn != nil || entries[1].Turn == nil {
		t.Errorf("%+v", entries)
	}
	if s := h.show(turn); s.Auxiliary != 1 || s.Exchanges != 2 {
		t.Errorf("%+v", s)
	}
}

func TestClientsWithoutIDsAreIdentifiedByTheirMessages(t *testing.T) {
	h := remembering(t)
	system := func(day string) string { return "You help.\nToday's date: " + day }
	hello, joke, poem := sim("hello", "hi there"), sim("a joke", "knock knock"), sim("a poem", "roses")

	one := h.session(chat.path, chat.said(chat.model, system("2026-11-20"), hello))
	h.turns(one)
	other := h.session(chat.path, chat.said(chat.model, system("2026-11-20"), sim("hello", "hi there")))
	if other == one {
		t.Fatal("two conversations that open with the same words are one session")
	}
	h.turns(other)
	for _, next := range []struct{ name, path, body string }{
		{"on the next day", chat.path, chat.said(chat.model, system("2026-11-21"), hello, "hi there", joke)},
		{"on another surface", messages.path, messages.said(messages.model, system("2026-11-21"), hello, "hi there", joke, "knock knock", poem)},
		{"on a third one, with another model", responses.path, responses.said("claude-opus-4-8", system("2026-11-21"), hello, "hi there", joke, "knock knock", poem, "roses", hello)},
	} {
		if got := h.session(next.path, next.body); got != one {
			t.Errorf("%s: another session", next.name)
		}
	}
	lost := sim("differs", "yes")
	a := h.session(chat.path, chat.said(chat.model, "You help.", lost))
	h.turns(a)
	if got := h.session(chat.path, chat.said(chat.model, "You help.", lost, "no", joke)); got == a {
		t.Error("a conversation with another first answer is the same session")
	}
	if got := h.session(chat.path, chat.said(chat.model, "You help.", lost, "yes", joke)); got != a {
		t.Error("the conversation goes on in another session")
	}
}

func TestAForkedHistoryIsABranch(t *testing.T) {
	h := remembering(t)
	one, two, instead := sim("one", "1"), sim("two", "2"), sim("rather three", "3")
	session := h.session(chat.path, chat.said(chat.model, "Count.", one))
	h.turns(session)
	h.session(chat.path, chat.said(chat.model, "Count.", one, "1", two))
	h.session(chat.path, chat.said(chat.model, "Count.", one, "1", instead))
	entries := h.turns(session)
	if len(entries) != 3 {
		t.Fatalf("%d exchanges", len(entries))
	}
	for i, want := range []struct {
		said   string
		branch bool
	}{{"user: " + one + " | assistant: 1", false}, {"user: " + two + " | assistant: 2", false}, {"user: " + instead + " | assistant: 3", true}} {
		if got := entries[i].Turn; words(got) != want.said || got.Branch != want.branch {
			t.Errorf("turn %d: %q, branch %t", i, words(got), got.Branch)
		}
	}
	if entries[2].Turn.Parent != entries[0].Exchange.ID {
		t.Error("the branch does not grow out of the first turn")
	}
}

func TestChatKeysTakePrecedence(t *testing.T) {
	h := remembering(t)
	body := messages.said(messages.model, "You code.", sim("mend it", "mended"))
	native := []string{"X-Claude-Code-Session-Id", "native-1"}
	thread := []string{"X-Service-Chat-Key", "thread-1"}
	external := []string{"X-Service-External-Session-ID", "external-1"}

	session := h.session(messages.path, body, slices.Concat(thread, external, native)...)
	for name, got := range map[string]string{
		"the chat key alone":                  h.session(messages.path, body, thread...),
		"the chat key in the body":            h.session(messages.path, with(body, `"service_chat_key":"thread-1"`)),
		"the external id alone":               h.session(messages.path, body, external...),
		"the client's id alone":               h.session(messages.path, body, native...),
		"the chat key and another native id":  h.session(messages.path, body, append([]string{"X-Claude-Code-Session-Id", "native-2"}, thread...)...),
		"the chat key on another surface":     h.session(chat.path, chat.said("deepseek-chat", "", sim("else", "x")), thread...),
		"the chat key, embedding on the side": h.session(embeddings.path, `{"model":"text-embedding-3-small","input":"x"}`, thread...),
	} {
		if got != session {
			t.Errorf("%s: another session", name)
		}
	}
	if other := h.session(messages.path, body, append([]string{"X-Service-Chat-Key", "thread-2"}, external...)...); other == session {
		t.Error("two chat keys are one session")
	}
}

// The id is the one that the client was given: the provider's own, or where the answer was translated, ours.
func TestAResponseIDFindsItsSession(t *testing.T) {
	h := remembering(t)
	for _, model := range []string{responses.model, messages.model} {
		first := h.post(responses.path, responses.said(model, "base", sim("hello", "hi")))
		id := member(first.body, "id")
		next := with(responses.said(responses.model, "base", sim("more", "yes")), `"previous_response_id":`+quoted(id))
		if got := h.post(responses.path, next).header.Get("X-Service-Session-ID"); got != first.header.Get("X-Service-Session-ID") {
			t.Errorf("the request that continues %s of %s is in another session", id, model)
		}
	}
}

// show returns a session.
func (h *harness) show(id string) *record.Session {
	h.t.Helper()
	s, err := h.store.Archive().Session("acme", id)
	ok(h.t, err)
	return s
}

func TestEveryAnswerNamesItsSession(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		crossed := s
		if crossed.model = messages.model; s.name == "messages" {
			crossed.model = chat.model
		}
		for name, a := range map[string]*answer{
			"whole":    h.post(s.path, s.body(`text "hi"`, false), "X-Service-Chat-Key", s.name),
			"streamed": h.post(s.path, s.body(`text "hi"`, s.name != "embeddings"), "X-Service-Chat-Key", s.name),
			"crossed":  h.post(s.path, crossed.body(`text "hi"`, s.name != "embeddings"), "X-Service-Chat-Key", s.name),
			"refused":  h.post(s.path, strings.Replace(s.body(`text "hi"`, false), s.model, "nobodys-model", 1), "X-Service-Chat-Key", s.name),
		} {
			id := a.header.Get("X-Service-Session-ID")
			if want := h.settled(a.exchange()).Session; id == "" || id != want {
				t.Errorf("%s %s (%d): the answer names session %q, on record is %q", s.name, name, a.status, id, want)
			}
		}
	}
}

// The record of a session is written with each of its exchanges, so no request may make it large.
func TestNamesOfAnyLengthLeaveSessionsSmall(t *testing.T) {
	h := remembering(t)
	long := strings.Repeat("x", 1<<20)
	h.post(chat.path, chat.said(chat.model, "", sim("hello", "hi")), "X-Service-Chat-Key", "k")
	if a := h.post(chat.path, chat.said("gpt-"+long, "", "hello"), "X-Service-Chat-Key", "k"); a.status != 400 {
		t.Errorf("a model's name of 1 MB: %d", a.status)
	}
	body := with(responses.said(responses.model, "", sim("hello", "hi")), fmt.Sprintf(`"conversation":%q,"previous_response_id":%q`, long, long))
	h.post(responses.path, body)
	if list := h.get("/sessions").body; len(h.get("/sessions").ids(t)) != 2 || len(list) > 4<<10 {
		t.Errorf("sessions take %d bytes", len(list))
	}
}

func TestAReplayStaysOutOfItsConversation(t *testing.T) {
	h := build(t)
	body := messages.body(`text "hi"`, false)
	h.post(messages.path, body, "X-Session-Id", "native")
	h.post(messages.path, body, "X-Session-Id", "native", "X-Service-External-Session-ID", "replay of exch_x", "X-Service-Replay", "exch_x")
	all := h.records("acme")
	if len(all) != 2 {
		t.Fatalf("%d records", len(all))
	}
	for _, x := range all {
		replayed := x.ExternalSession != ""
		if replayed != (x.Auxiliary == record.AuxiliaryReplay) || replayed == (x.NativeSession != "") {
			t.Errorf("%+v", x)
		}
	}
	if all[0].Session == all[1].Session || all[0].Session == "" || all[1].Session == "" {
		t.Errorf("both are in session %s", all[0].Session)
	}
}

func TestARequestThatIsRefusedOpensNoSession(t *testing.T) {
	h := remembering(t)
	for _, s := range generating {
		var headers [][]string
		for _, id := range []string{"X-Service-Chat-Key", "X-Service-External-Session-ID", "X-Session-Id"} {
			headers = append(headers, []string{id, s.name + id})
		}
		for _, header := range append(headers, nil) {
			words := sim("hello "+s.name+strings.Join(header, " "), "hi")
			before := h.get("/sessions").ids(t)
			refused := h.post(s.path, s.said("nobodys-model", "", words), header...)
			if refused.status < 400 {
				t.Fatalf("%s: %d %s", s.name, refused.status, refused.body)
			}
			if x := h.settled(refused.exchange()); x.Session != "" || refused.header.Get("X-Service-Session-ID") != "" {
				t.Errorf("%s %v: a refused request is in session %q", s.name, header, x.Session)
			}
			answered := h.post(s.path, s.said(s.model, "", words), header...)
			session := h.settled(answered.exchange()).Session
			if after := h.get("/sessions").ids(t); len(after) != len(before)+1 || session == "" || h.show(session).Exchanges != 1 {
				t.Errorf("%s %v: %d sessions became %d; that of the answer is %q", s.name, header, len(before), len(after), session)
			}
		}
	}
	if all, want := len(h.records("acme")), 2*4*len(generating); all != want {
		t.Errorf("%d exchanges are on record, want %d", all, want)
	}
	_, err := h.store.Upkeep().Check(t.Context(), false, func(f store.Finding) { t.Errorf("the check finds %+v", f) })
	ok(t, err)
}
