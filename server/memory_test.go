package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// get reads a path of the memory API with the harness's key.
func (h *harness) get(path string, headers ...string) *answer {
	h.t.Helper()
	return h.do(http.MethodGet, "/v1/memory"+path, "", append([]string{"Authorization", "Bearer " + h.key}, headers...)...)
}

// ask sends a request to the memory API that has to be answered with the status.
func (h *harness) ask(status int, method, path, body string) *answer {
	h.t.Helper()
	a := h.do(method, "/v1/memory"+path, body, "Authorization", "Bearer "+h.key)
	if a.status != status {
		h.t.Fatalf("%s %s: want %d, got %d %s", method, path, status, a.status, a.body)
	}
	return a
}

// ids are those of a list, in order.
func (a *answer) ids(t testing.TB) (ids []string) {
	t.Helper()
	var list struct {
		Data []struct {
			ID       string `json:"id"`
			Exchange struct {
				ID string `json:"id"`
			} `json:"exchange"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 {
		t.Fatalf("%d %s: %v", a.status, a.body, err)
	}
	for _, d := range list.Data {
		ids = append(ids, d.ID+d.Exchange.ID)
	}
	return ids
}

func TestAConversationCanBeFoundReadAndNamed(t *testing.T) {
	h := remembering(t)
	first := sim("what is 6 times 7", "42")
	session := h.session(chat.path, chat.said(chat.model, "Count.", first), "X-Service-Chat-Key", "k1")
	h.session(chat.path, chat.said(chat.model, "Count.", first, "42", sim("and 8", "48")), "X-Service-Chat-Key", "k1")
	other := h.session(messages.path, messages.said(messages.model, "Talk.", sim("hello", "hi")), "X-Service-External-Session-ID", "x1")
	h.turns(session)

	if diff := cmp.Diff([]string{other, session}, h.get("/sessions").ids(t)); diff != "" {
		t.Error(diff)
	}
	for query, want := range map[string][]string{
		"chat_key=k1": {session}, "external_id=x1": {other}, "model=" + messages.model: {other}, "chat_key=none": nil,
		"since=2000-01-01T00:00:00Z": {other, session}, "until=2000-01-01T00:00:00Z": nil, "order=asc": {session, other},
		"limit=1": {other}, "limit=1&after=" + other: {session}, "before=" + session: {other},
	} {
		if diff := cmp.Diff(want, h.get("/sessions?"+query).ids(t)); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}

	shown := h.ask(200, "PATCH", "/sessions/"+session, `{"title":"Arithmetic","tags":["sums","easy"],"note":"Ask again."}`)
	if member(shown.body, "title") != "Arithmetic" || member(shown.body, "exchanges") != "2" || member(shown.body, "object") != "memory.session" {
		t.Error(shown.body)
	}
	if diff := cmp.Diff([]string{session}, h.get("/sessions?tag=easy").ids(t)); diff != "" {
		t.Error(diff)
	}

	var page struct {
		Data    []api.Turn
		HasMore bool `json:"has_more"`
	}
	ok(t, json.Unmarshal([]byte(h.get("/sessions/"+session+"/timeline").body), &page))
	if len(page.Data) != 2 || page.HasMore || words(page.Data[1].Turn) != "user: "+sim("and 8", "48")+" | assistant: 48" {
		t.Errorf("%+v", page)
	}

	exchange := page.Data[0].Exchange.ID
	bare := h.get("/exchanges/" + exchange).body
	if strings.Contains(bare, "raw_") || strings.Contains(bare, "normalized") || member(bare, "session") != session {
		t.Error(bare)
	}
	full := h.get("/exchanges/" + exchange + "?include=raw_request,raw_response,normalized").body
	if member(full, "raw_request") != chat.said(chat.model, "Count.", first) || !strings.Contains(member(full, "raw_response"), `"content":"42"`) {
		t.Error(full)
	}
	if got := member(full, "normalized", "answer"); !strings.Contains(got, "text:42") {
		t.Error(got)
	}
	if stats := h.get("/stats").body; member(stats, "exchanges") != "3" || member(stats, "sessions") != "2" || member(stats, "stored") == "0" {
		t.Error(stats)
	}
}

func TestAConversationCanBeSplitAndMerged(t *testing.T) {
	h := remembering(t)
	key := []string{"X-Service-Chat-Key", "k"}
	session := h.session(chat.path, chat.said(chat.model, "", sim("one", "1")), key...)
	second := h.post(chat.path, chat.said(chat.model, "", sim("two", "2")), key...).exchange()
	split := member(h.ask(200, "POST", "/sessions/"+session+"/split", `{"exchange":"`+second+`"}`).body, "id")
	if diff := cmp.Diff([]string{second}, h.get("/sessions/"+split+"/timeline").ids(t)); diff != "" {
		t.Error(diff)
	}
	h.ask(200, "POST", "/sessions/"+split+"/merge", `{"into":"`+session+`"}`)
	if got := h.get("/sessions/" + session + "/timeline").ids(t); len(got) != 2 {
		t.Errorf("%q", got)
	}
	if got := member(h.get("/sessions/"+split).body, "merged_into"); got != session {
		t.Errorf("merged into %q", got)
	}
	h.ask(409, "POST", "/sessions/"+session+"/merge", `{"into":"`+session+`"}`)
	h.ask(404, "POST", "/sessions/"+session+"/merge", `{"into":"sess_none"}`)
}

// erased waits for an erasure to be done and gives its receipt.
func (h *harness) erased(id string) (e api.Erasure) {
	h.t.Helper()
	eventually(h.t, func() error {
		ok(h.t, json.Unmarshal([]byte(h.ask(200, "GET", "/erasures/"+id, "").body), &e))
		if e.State != record.ErasureDone {
			return fmt.Errorf("the erasure is %s", e.State)
		}
		return nil
	})
	return e
}

func TestErasuresReturnAReceipt(t *testing.T) {
	h := remembering(t)
	var exchanges []string
	for _, key := range []string{"a", "a", "b"} {
		exchanges = append(exchanges, h.post(chat.path, chat.said(chat.model, "", sim("hello", "hi")), "X-Service-Chat-Key", key).exchange())
	}
	session := member(h.get("/exchanges/"+exchanges[2]).body, "session")

	count := h.ask(200, "POST", "/erasures", `{"chat_key":"a","dry_run":true}`)
	if member(count.body, "exchanges") != "2" || member(count.body, "dry_run") != "true" || len(h.get("/exchanges").ids(t)) != 3 {
		t.Errorf("dry run: %s", count.body)
	}
	h.ask(400, "POST", "/erasures", `{}`)
	h.ask(400, "POST", "/erasures", `{"chat-key":"a"}`)
	h.ask(404, "DELETE", "/exchanges/exch_none", "")

	receipt := h.erased(member(h.ask(202, "DELETE", "/exchanges/"+exchanges[0], "").body, "id"))
	if receipt.Exchanges != 1 || receipt.Sessions != 0 {
		t.Errorf("%+v", receipt)
	}
	h.ask(404, "GET", "/exchanges/"+exchanges[0], "")
	receipt = h.erased(member(h.ask(202, "DELETE", "/sessions/"+session, "").body, "id"))
	if receipt.Exchanges != 1 || receipt.Sessions != 1 {
		t.Errorf("%+v", receipt)
	}
	h.ask(404, "GET", "/sessions/"+session, "")
	if diff := cmp.Diff([]string{exchanges[1]}, h.get("/exchanges").ids(t)); diff != "" {
		t.Error(diff)
	}
	h.erased(member(h.ask(202, "POST", "/erasures", `{"all":true}`).body, "id"))
	if left := h.get("/sessions").ids(t); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
}

// Everything that one account can ask of the memory shows nothing of another, and changes nothing of it.
func TestAccountsDoNotSeeEachOther(t *testing.T) {
	h := remembering(t)
	h.account("zeta")
	body := chat.said(chat.model, "Secret plans.", sim("hello", "hi"))
	theirs := h.post(chat.path, body, "X-Service-Chat-Key", "shared-key", "X-Service-External-Session-ID", "shared-id", "X-Session-Id", "native")
	exchange, session := theirs.exchange(), theirs.header.Get("X-Service-Session-ID")
	h.turns(session)
	erasure := member(h.ask(202, "POST", "/erasures", `{"chat_key":"none"}`).body, "id")
	h.erased(erasure)
	before := h.get("/export.jsonl").body

	acme := h.key
	h.key = h.createKey("zeta", store.AllScopes)
	emptyStats := h.get("/stats").body
	own := h.post(chat.path, body, "X-Service-Chat-Key", "shared-key", "X-Service-External-Session-ID", "shared-id", "X-Session-Id", "native")
	if own.header.Get("X-Service-Session-ID") == session {
		t.Fatal("the same key leads into another account's session")
	}
	fresh := own.header.Get("X-Service-Session-ID")
	for _, path := range []string{"/sessions", "/sessions?chat_key=shared-key", "/sessions?external_id=shared-id"} {
		if diff := cmp.Diff([]string{fresh}, h.get(path).ids(t)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
	if diff := cmp.Diff([]string{own.exchange()}, h.get("/exchanges").ids(t)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{own.exchange()}, h.get("/exchanges?before="+exchange+"&order=desc").ids(t)); diff != "" {
		t.Error(diff)
	}
	for _, q := range []struct{ method, path, body string }{
		{"GET", "/sessions/" + session, ""},
		{"GET", "/sessions/" + session + "/timeline", ""},
		{"PATCH", "/sessions/" + session, `{"title":"mine"}`},
		{"POST", "/sessions/" + session + "/merge", `{"into":"` + fresh + `"}`},
		{"POST", "/sessions/" + fresh + "/merge", `{"into":"` + session + `"}`},
		{"POST", "/sessions/" + session + "/split", `{"exchange":"` + exchange + `"}`},
		{"DELETE", "/sessions/" + session, ""},
		{"GET", "/exchanges/" + exchange + "?include=raw_request", ""},
		{"PATCH", "/exchanges/" + exchange, `{"note":"mine"}`},
		{"DELETE", "/exchanges/" + exchange, ""},
		{"GET", "/erasures/" + erasure, ""},
	} {
		theirs := h.ask(404, q.method, q.path, q.body).body
		nobodys := h.ask(404, q.method, strings.NewReplacer(session, "sess_"+strings.Repeat("0", 26), exchange, "exch_"+strings.Repeat("0", 26), erasure, "eras_"+strings.Repeat("0", 26)).Replace(q.path), strings.ReplaceAll(q.body, session, "sess_"+strings.Repeat("0", 26))).body
		if len(theirs) != len(nobodys) {
			t.Errorf("%s %s: the error for what another account has differs from that for what nobody has:\n%s\n%s", q.method, q.path, theirs, nobodys)
		}
	}
	for path, what := range map[string]string{"/export.jsonl": "", "/export.jsonl?session=" + session: "", "/export.jsonl?exchange=" + exchange: "", "/export.jsonl?chat_key=shared-key": ""} {
		if got := h.get(path); got.status != 200 || strings.Contains(got.body, session) || strings.Contains(got.body, exchange) {
			t.Errorf("%s %s: %d %s", path, what, got.status, got.body)
		}
	}
	got := h.erased(member(h.ask(202, "POST", "/erasures", `{"sessions":["`+session+`"],"exchanges":["`+exchange+`"]}`).body, "id"))
	if got.Exchanges+got.Sessions+got.Objects+got.Bytes+got.Open != 0 {
		t.Errorf("an erasure counts another account's data: %+v", got)
	}
	h.erased(member(h.ask(202, "POST", "/erasures", `{"all":true}`).body, "id"))
	if got := h.get("/stats").body; got != emptyStats {
		t.Errorf("statistics of an empty account changed from %s to %s", emptyStats, got)
	}
	h.ask(400, "GET", "/sessions?account=acme", "")

	h.key = acme
	if after := h.get("/export.jsonl").body; after != before {
		t.Errorf("another account changed this one's memory from\n%s\nto\n%s", before, after)
	}
}

func TestScopesDecideWhatAKeyMayDo(t *testing.T) {
	h := remembering(t)
	session := h.session(chat.path, chat.said(chat.model, "", sim("hello", "hi")))
	exchange := h.get("/exchanges").ids(t)[0]
	for _, q := range []struct {
		scope              store.Scopes
		method, path, body string
	}{
		{store.ScopeRead, "GET", "/sessions", ""},
		{store.ScopeRead, "GET", "/sessions/" + session, ""},
		{store.ScopeRead, "GET", "/sessions/" + session + "/timeline", ""},
		{store.ScopeRead, "GET", "/exchanges", ""},
		{store.ScopeRead, "GET", "/stats", ""},
		{store.ScopeRead, "GET", "/export.jsonl", ""},
		{store.ScopeWrite, "PATCH", "/sessions/" + session, `{}`},
		{store.ScopeWrite, "PATCH", "/exchanges/" + exchange, `{"tags":["good"],"note":"as it should be"}`},
		{store.ScopeWrite, "POST", "/imports", `{"object":"memory.export","version":1}`},
		{store.ScopeErase, "POST", "/erasures", `{"all":true,"dry_run":true}`},
	} {
		h.key = h.createKey("acme", store.AllScopes&^q.scope)
		if a := h.ask(403, q.method, q.path, q.body); !strings.Contains(a.body, "missing_scope") {
			t.Error(a.body)
		}
		h.key = h.createKey("acme", q.scope)
		h.ask(200, q.method, q.path, q.body)
	}
	h.key = "mnm_unknown"
	h.ask(401, "GET", "/sessions", "")
}

func TestMistakesInParametersAreReported(t *testing.T) {
	h := remembering(t)
	for path, param := range map[string]string{
		"/sessions?limit=0": "limit", "/sessions?limit=101": "limit", "/sessions?order=up": "order", "/sessions?since=yesterday": "since",
		"/sessions?chat-key=a": "chat-key", "/sessions?after=exch_x": "after", "/sessions?tag=a&tag=b": "tag", "/exchanges?model=x": "model",
		"/export.jsonl?session=x": "sessions", "/events?after=soon": "after",
	} {
		if a := h.ask(400, "GET", path, ""); member(a.body, "error", "param") != param {
			t.Errorf("%s: %s", path, a.body)
		}
	}
	h.ask(404, "GET", "/nothing", "")
	h.ask(404, "PUT", "/sessions", "")
	h.ask(400, "PATCH", "/sessions/sess_x", `{"titel":"x"}`)
	h.ask(400, "PATCH", "/sessions/sess_x", `{}{}`)
	h.ask(413, "POST", "/erasures", `{"chat_key":"`+strings.Repeat("x", 1<<20)+`"}`)
}

// While others write, pages neither repeat nor skip what was there when the first one was read.
func TestCursorsAreStableUnderConcurrentWrites(t *testing.T) {
	h := remembering(t)
	write := func(n int) string {
		return h.session(chat.path, chat.said(chat.model, "", sim(fmt.Sprint("hello ", n), "hi")), "X-Service-Chat-Key", fmt.Sprint("k", n))
	}
	var there []string
	for n := range 30 {
		there = append(there, write(n))
	}
	stop := make(chan struct{})
	var writer sync.WaitGroup
	writer.Go(func() {
		for n := 100; ; n++ {
			select {
			case <-stop:
				return
			default:
				write(n)
			}
		}
	})
	for _, order := range []string{"asc", "desc"} {
		var seen []string
		for after, more := "", true; more; {
			page := h.get("/sessions?limit=7&order=" + order + "&after=" + after)
			seen = append(seen, page.ids(t)...)
			after, more = member(page.body, "last_id"), member(page.body, "has_more") == "true" && len(seen) < 200
		}
		seen = slices.DeleteFunc(seen, func(id string) bool { return !slices.Contains(there, id) })
		if order == "desc" {
			slices.Reverse(seen)
		}
		if diff := cmp.Diff(there, seen); diff != "" {
			t.Errorf("%s: %s", order, diff)
		}
	}
	close(stop)
	writer.Wait()
}

// tail follows the events of an account.
type tail struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
}

func (h *harness) tail(t *testing.T, headers ...string) *tail {
	t.Helper()
	return h.tailOf(t, "", headers...)
}

// tailOf is a tail of what a query selects.
func (h *harness) tailOf(t *testing.T, query string, headers ...string) *tail {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	t.Cleanup(cancel)
	r := h.request(ctx, http.MethodGet, "/v1/memory/events"+query, "", append([]string{"Authorization", "Bearer " + h.key}, headers...)...)
	response, err := h.client.Do(r)
	ok(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(response.Status)
	}
	return &tail{t: t, response: response, lines: bufio.NewScanner(response.Body)}
}

// next returns the id, the name and the exchange of the next event.
func (l *tail) next() (id, name, exchange string) {
	l.t.Helper()
	for l.lines.Scan() {
		field, value, _ := strings.Cut(l.lines.Text(), ": ")
		switch field {
		case "id":
			id = value
		case "event":
			name = value
		case "data":
			return id, name, member(value, "exchange")
		}
	}
	l.t.Fatalf("the tail has ended: %v", l.lines.Err())
	return
}

func TestATailShowsEventsAndResumesWhereItEnded(t *testing.T) {
	h := remembering(t)
	live := h.tail(t)
	hello := chat.said(chat.model, "", sim("hello", "hi"))
	first := h.post(chat.path, hello).exchange()
	var last string
	for _, want := range []string{"exchange.created", "exchange.completed", "turn.digested"} {
		id, name, exchange := live.next()
		if name != want || exchange != first {
			t.Fatalf("want %s of %s, got %s of %s", want, first, name, exchange)
		}
		last = id
	}
	ok(t, live.response.Body.Close())

	second := h.post(chat.path, hello).exchange()
	if _, name, exchange := h.tail(t, "Last-Event-ID", last).next(); name != "exchange.created" || exchange != second {
		t.Errorf("the tail goes on with %s of %s", name, exchange)
	}
	if _, name, _ := h.tail(t, "Last-Event-ID", "formerrun-12").next(); name != "missed" {
		t.Errorf("a caller from before a restart is told %s", name)
	}
	h.account("zeta")
	acme := h.key
	h.key = h.createKey("zeta", store.AllScopes)
	foreign := h.tail(t)
	own := h.post(chat.path, hello).exchange()
	if _, _, exchange := foreign.next(); exchange != own {
		t.Errorf("an account's tail tells of %s", exchange)
	}
	h.key = acme
}

func TestATailIsFilteredBySessionAndKey(t *testing.T) {
	h := remembering(t)
	mine, theirs := h.key, h.createKey("acme", store.AllScopes)
	say := func(key, conversation string) (exchange string) {
		h.key = key
		defer func() { h.key = mine }()
		return h.post(chat.path, chat.said(chat.model, "", sim("hello", "hi")), "X-Service-Chat-Key", conversation).exchange()
	}
	know := func(exchange, field string) string { return member(h.get("/exchanges/"+exchange).body, field) }
	session, key := know(say(mine, "one"), "session"), know(say(theirs, "two"), "key_id")

	ofSession := h.tailOf(t, "?session="+session+",sess_another")
	ofKey := h.tailOf(t, "?key="+key)
	ofBoth := h.tailOf(t, "?key="+key+"&session="+session)
	say(mine, "two")
	first, second, third := say(mine, "one"), say(theirs, "two"), say(theirs, "one")
	for name, tail := range map[string]struct {
		*tail
		want []string
	}{"session": {ofSession, []string{first, third}}, "key": {ofKey, []string{second, third}}, "both": {ofBoth, []string{third}}} {
		for _, want := range tail.want {
			for _, kind := range []string{"exchange.created", "exchange.completed", "turn.digested"} {
				if _, told, exchange := tail.next(); exchange != want || told != kind {
					t.Errorf("the tail of the %s has %s of %s, want %s of %s", name, told, exchange, kind, want)
				}
			}
		}
	}
	if refused := h.ask(400, "GET", "/events?key="+mine, "").body; !strings.Contains(refused, "begin with key_") || strings.Contains(refused, mine) {
		t.Errorf("a secret in place of an id: %s", refused)
	}
}

func TestATailEndsWhenTheServerIsToldToStop(t *testing.T) {
	h := remembering(t)
	live := h.tail(t)
	ok(t, h.stop())
	for live.lines.Scan() {
	}
	if err := live.lines.Err(); err != nil {
		t.Errorf("the tail has no clean end: %v", err)
	}
}

func TestAnExportIsImportedWithoutLoss(t *testing.T) {
	h := remembering(t)
	first := sim("what is 6 times 7", "42")
	session := h.session(chat.path, chat.said(chat.model, "Count.", first), "X-Service-Chat-Key", "k")
	h.session(chat.path, chat.said(chat.model, "Count.", first, "42", sim("and 8", "48")), "X-Service-Chat-Key", "k")
	h.post(messages.path, "{\"model\":\"claude-opus-4-8\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"é\u2028\"}]}", "X-Session-Id", "n1")
	h.post(chat.path, `{"model":"nobody's"}`)
	h.ask(200, "PATCH", "/sessions/"+session, `{"title":"Arithmetic","tags":["sums"]}`)
	exported := h.get("/export.jsonl")
	if lines := strings.Count(exported.body, "\n"); exported.header.Get("Content-Type") != "application/x-ndjson" || lines != 1+2+4 { // the last exchange has no session
		t.Fatalf("%d lines:\n%s", lines, exported.body)
	}

	h.account("zeta")
	h.key = h.createKey("zeta", store.AllScopes)
	took := h.ask(200, "POST", "/imports", exported.body).body
	if member(took, "sessions") != "2" || member(took, "exchanges") != "4" || member(took, "skipped") != "0" {
		t.Error(took)
	}
	if again := h.ask(200, "POST", "/imports", exported.body).body; member(again, "skipped") != "6" {
		t.Error(again)
	}
	want := strings.ReplaceAll(exported.body, `"account":"acme"`, `"account":"zeta"`)
	want = regexp.MustCompile(`"key_id":"[^"]*"`).ReplaceAllString(want, `"key_id":"imported"`)             // nobody's here,
	want = regexp.MustCompile(`("cost":{[^}]*"price"[^}]*)}`).ReplaceAllString(want, `$1,"notional":true}`) // and not spent here
	want = regexp.MustCompile(`"cost":{"usd":([0-9.]+)}`).ReplaceAllString(want, `"cost":{"usd":0,"notional_usd":$1}`)
	got := regexp.MustCompile(`,"imported":"[^"]*"`).ReplaceAllString(h.get("/export.jsonl").body, "")
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Error(diff)
	}
	eventually(t, func() error {
		page, err := h.store.Archive().Timeline("zeta", session, record.TimelineQuery{})
		if err == nil && (len(page.Data) != 2 || page.Data[1].Turn == nil || page.Data[1].Turn.Known != 2) {
			err = errors.New("the imported exchanges are no turns yet")
		}
		return err
	})

	for body, want := range map[string]string{
		"":                                       "empty",
		"{}":                                     "line 1",
		"not JSON":                               "line 1",
		`{"object":"memory.export","version":2}`: "version 2",
		`{"object":"memory.export","version":1}` + "\n" + `{"object":"memory.other"}`:  "line 2",
		`{"object":"memory.export","version":1}` + "\n\n" + `{"object":"memory.exch`:   "line 3",
		`{"object":"memory.export","version":1}` + "\n" + `{"object":"memory.session"`: "line 2",
	} {
		if a := h.ask(400, "POST", "/imports", body); !strings.Contains(a.body, want) {
			t.Errorf("%q: %s", body, a.body)
		}
	}
}

// Every path of the memory is asked by another account, in ways that would show this one's data if a path showed any. A
// path that is not in the table fails the test.
func TestNoPathOfTheMemoryShowsAnotherAccount(t *testing.T) {
	const secret = "marmalade-4711"
	h := remembering(t)
	h.account("zeta")
	theirs := h.post(chat.path, chat.said(chat.model, "Where is "+secret+"?", sim(secret, secret)), "X-Service-Chat-Key", secret, "X-Service-External-Session-ID", secret)
	exchange, session := theirs.exchange(), theirs.header.Get("X-Service-Session-ID")
	h.turns(session)
	h.ask(200, "PATCH", "/sessions/"+session, `{"title":"`+secret+`","tags":["`+secret+`"],"note":"`+secret+`"}`)
	erasure := member(h.ask(202, "POST", "/erasures", `{"chat_key":"none"}`).body, "id")
	h.erased(erasure)

	h.key = h.createKey("zeta", store.AllScopes)
	header := `{"object":"memory.export","version":1}`
	ids, asked := strings.NewReplacer("{id}", session, "{message}", "0", "{part}", "0"), map[string]bool{}
	for pattern, requests := range map[string][]struct {
		query, body string
		status      int
	}{
		"GET /v1/memory/sessions": {
			{"", "", 200},
			{"?chat_key=" + secret, "", 200},
			{"?external_id=" + secret, "", 200},
			{"?tag=" + secret, "", 200},
			{"?parent=" + session, "", 200},
			{"?after=" + session, "", 200},
			{"?before=" + session, "", 200},
		},
		"GET /v1/memory/sessions/{id}":          {{"", "", 404}},
		"PATCH /v1/memory/sessions/{id}":        {{"", `{"title":"x"}`, 404}},
		"GET /v1/memory/sessions/{id}/timeline": {{"", "", 404}, {"?after=" + exchange, "", 404}},
		"GET /v1/memory/sessions/{id}/cache":    {{"", "", 404}},
		"GET /v1/memory/sessions/{id}/forecast": {{"", "", 404}, {"?model=gpt-4.1", "", 404}},
		"POST /v1/memory/sessions/{id}/merge":   {{"", `{"into":"` + session + `"}`, 404}},
		"POST /v1/memory/sessions/{id}/split":   {{"", `{"exchange":"` + exchange + `"}`, 404}},
		"DELETE /v1/memory/sessions/{id}":       {{"", "", 404}},
		"GET /v1/memory/exchanges":              {{"", "", 200}, {"?after=" + exchange, "", 200}, {"?before=" + exchange, "", 200}},
		"GET /v1/memory/exchanges/{id}":         {{"?include=raw_request,raw_response,normalized", "", 404}},
		"DELETE /v1/memory/exchanges/{id}":      {{"", "", 404}},
		"PATCH /v1/memory/exchanges/{id}":       {{"", `{"note":"x"}`, 404}},

		"GET /v1/memory/exchanges/{id}/translation":                     {{"", "", 404}},
		"GET /v1/memory/exchanges/{id}/context":                         {{"", "", 404}},
		"GET /v1/memory/exchanges/{id}/messages/{message}/parts/{part}": {{"", "", 404}},
		"GET /v1/memory/exchanges/{id}/answer/parts/{part}":             {{"", "", 404}},

		"GET /v1/memory/cache": {{"", "", 200}, {"?since=2000-01-01T00:00:00Z", "", 200}},
		"GET /v1/memory/costs": {{"", "", 200}, {"?by=part,tool,server", "", 200}, {"?session=" + session, "", 404}, {"?exchange=" + exchange, "", 404}},
		"GET /v1/memory/usage": {{"", "", 200}, {"?by=key,model,project", "", 200}},

		"POST /v1/memory/erasures": {
			{"", `{"sessions":["` + session + `"],"dry_run":true}`, 200}, {"", `{"chat_key":"` + secret + `","dry_run":true}`, 200}, {"", `{"all":true,"dry_run":true}`, 200},
		},
		"GET /v1/memory/erasures/{id}": {{"", "", 404}},
		"POST /v1/memory/search":       {}, // TestAFreshAnswerIsFound, with an index
		"POST /v1/memory/recall":       {}, // TestAnEarlierSessionIsRecalledOnlyInItsProject, with two accounts
		"GET /v1/memory/stats":         {{"", "", 200}},
		"GET /v1/memory/events":        {}, // TestATailShowsEventsAndResumesWhereItEnded, with two accounts
		"GET /v1/memory/export.jsonl": {
			{"", "", 200}, {"?session=" + session, "", 200}, {"?exchange=" + exchange, "", 200}, {"?chat_key=" + secret, "", 200},
		},
		"POST /v1/memory/imports": {{"", header, 200}, {"", header + "\n{}", 400}},
	} {
		asked[pattern] = true
		method, path, _ := strings.Cut(pattern, " ")
		switch {
		case strings.Contains(path, "/exchanges/"):
			path = strings.ReplaceAll(path, "{id}", exchange)
		case strings.Contains(path, "/erasures/"):
			path = strings.ReplaceAll(path, "{id}", erasure)
		}
		for _, q := range requests {
			target := strings.TrimPrefix(ids.Replace(path), "/v1/memory") + q.query
			got := h.ask(q.status, method, target, q.body).body
			for _, shown := range []string{secret, exchange, session, erasure, `"exchanges":1`, `"sessions":1`} {
				if strings.Contains(got, shown) && !strings.Contains(target+q.body, shown) { // what was asked may be repeated
					t.Errorf("%s%s %s shows %s:\n%s", pattern, q.query, q.body, shown, got)
				}
			}
		}
	}
	for _, pattern := range memory.Patterns() {
		if !asked[pattern] {
			t.Errorf("%s is not asked here", pattern)
		}
	}
}

// A HEAD answer with a body would be taken for the next answer.
func TestHeadOfAMemoryPathHasNoBody(t *testing.T) {
	h := remembering(t)
	h.post(chat.path, chat.said(chat.model, "", sim(strings.Repeat("hello ", 50_000), "hi")))
	for _, path := range []string{"/sessions", "/stats", "/export.jsonl", "/events", "/sessions/none"} {
		conn := h.dial()
		reader := bufio.NewReader(conn)
		head := func(path string) *http.Response {
			_, err := fmt.Fprintf(conn, "HEAD %s HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer %s\r\n\r\n", path, h.key)
			ok(t, err)
			response, err := http.ReadResponse(reader, &http.Request{Method: http.MethodHead})
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			return response
		}
		if response := head("/v1/memory" + path); response.StatusCode >= 500 {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
		if response := head("/healthz"); response.StatusCode != http.StatusOK {
			t.Errorf("%s: the next answer is %d", path, response.StatusCode)
		}
	}
}

// The page of another site may send what it likes to an address that its own name was made to resolve to.
func TestPagesOfOtherSitesGetNoMemory(t *testing.T) {
	h := build(t)
	reader := h.createKey("acme", store.ScopeRead)
	const list = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, row := range []struct {
		host, origin string
		status       int
	}{
		{"localhost:7788", "", 200},
		{"127.0.0.1", "http://localhost:5173", 200},
		{"[::1]", "", 200},
		{"evil.example.com", "", 403},
		{"localhost", "http://evil.example.com", 403},
		{"localhost", "null", 403},
	} {
		head := fmt.Sprintf("Host: %s\r\nAuthorization: Bearer %s\r\n", row.host, reader)
		if row.origin != "" {
			head += "Origin: " + row.origin + "\r\n"
		}
		rpc := fmt.Sprintf("POST /mcp HTTP/1.1\r\n%sContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: %d\r\n\r\n%s", head, len(list), list)
		for what, raw := range map[string]string{"/mcp": rpc, "/v1/memory/stats": "GET /v1/memory/stats HTTP/1.1\r\n" + head + "\r\n"} {
			if a := exchangeOn(t, h.dial(), raw); a.status != row.status || row.status == 403 && errorMessage(a.body) == "" {
				t.Errorf("%s with %+v: %d %s", what, row, a.status, a.body)
			}
		}
	}
}

func TestTheContextOfARequestCountsItsOpeningInstructions(t *testing.T) {
	h := remembering(t)
	instructions := strings.Repeat("Be brief. ", 50)
	for name, body := range map[string]string{
		chat.path:      fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":%q},{"role":"user","content":"Hello."}]}`, chat.model, instructions),
		responses.path: fmt.Sprintf(`{"model":%q,"input":[{"type":"message","role":"developer","content":%q},{"role":"user","content":"Hello."}]}`, responses.model, instructions),
		messages.path:  fmt.Sprintf(`{"model":%q,"max_tokens":9,"system":%q,"messages":[{"role":"user","content":"Hello."}]}`, messages.model, instructions),
	} {
		var filled api.Context
		a := h.ask(http.StatusOK, http.MethodGet, "/exchanges/"+h.post(name, body).exchange()+"/context", "")
		ok(t, json.Unmarshal([]byte(a.body), &filled))
		if len(filled.Parts) != 2 || filled.Parts[0].Name != "system" || filled.Parts[0].Count != 1 || filled.Parts[0].Bytes < int64(len(instructions)) {
			t.Errorf("%s: %+v", name, filled.Parts)
		}
	}
}

func TestTheContextOfARequestCountsWhatItsClientAdded(t *testing.T) {
	h := remembering(t)
	reminder := "<system-reminder>" + strings.Repeat("The list is empty. ", 20) + "</system-reminder>"
	environment := "<environment_context><cwd>/src</cwd></environment_context>"
	agents := "# AGENTS.md instructions for /src\n\nBe brief."
	for name, body := range map[string]string{
		chat.path:      fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":[{"type":"text","text":%[2]q},{"type":"text","text":%[4]q}]},{"role":"user","content":%[3]q},{"role":"user","content":%[5]q}]}`, chat.model, reminder, environment, "Hello."+reminder, agents),
		responses.path: fmt.Sprintf(`{"model":%q,"input":[{"role":"user","content":[{"type":"input_text","text":%[5]q}]},{"role":"user","content":[{"type":"input_text","text":%[3]q}]},{"role":"user","content":%[4]q},{"role":"user","content":%[2]q}]}`, responses.model, reminder, environment, "Hello."+reminder, agents),
		messages.path:  fmt.Sprintf(`{"model":%q,"max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","text":%[2]q},{"type":"text","text":%[5]q}]},{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"read","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":%[4]q},{"type":"text","text":%[3]q}]}]}`, messages.model, reminder, environment, "Hello."+reminder, agents),
	} {
		var filled api.Context
		a := h.ask(http.StatusOK, http.MethodGet, "/exchanges/"+h.post(name, body).exchange()+"/context", "")
		ok(t, json.Unmarshal([]byte(a.body), &filled))
		want := []api.ContextPart{
			{Name: "system-reminder", Count: 2, Bytes: int64(2 * len(reminder))},
			{Name: "environment_context", Count: 1, Bytes: int64(len(environment))},
			{Name: "AGENTS.md", Count: 1, Bytes: int64(len(agents))},
		}
		if diff := cmp.Diff(want, filled.Woven); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		all := int64(0)
		for _, p := range want {
			all += p.Bytes
		}
		if i := slices.IndexFunc(filled.Parts, func(p api.ContextPart) bool { return p.Name == "woven" }); i < 0 || filled.Parts[i].Bytes != all || filled.Parts[i].Count != 4 {
			t.Errorf("%s: %+v", name, filled.Parts)
		}
	}
}

func TestTheContextOfABranchIsComparedWithTheRequestBefore(t *testing.T) {
	h := remembering(t)
	say := func(words ...string) *answer {
		return h.post(chat.path, chat.said(chat.model, "Be brief.", words...), "X-Service-Chat-Key", "k")
	}
	first := say(sim("Where?", "Here."))
	second := say(sim("Where?", "Here."), "Here.", sim("And when?", "Now."))
	branch := say(sim("Where?", "Here."), "Here.", sim("And why?", "So."))
	h.turns(first.header.Get("X-Service-Session-ID"))
	var filled api.Context
	ok(t, json.Unmarshal([]byte(h.ask(http.StatusOK, http.MethodGet, "/exchanges/"+branch.exchange()+"/context", "").body), &filled))
	if filled.Previous != second.exchange() || filled.Break == nil || filled.Break.Kind != "messages" || filled.Break.Index != 3 || filled.Cache != nil {
		t.Errorf("it is compared with %s, and breaks at %+v", filled.Previous, filled.Break)
	}
}
