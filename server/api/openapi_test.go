package api_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/memory"
)

// Generators make types for errors of the statuses that are named, and many none for the default.
func TestEveryOperationHasTheTypeOfItsErrors(t *testing.T) {
	for path, item := range readDescription(t).document.Paths.Map() {
		for method, operation := range item.Operations() {
			errors := operation.Responses.Value("4XX")
			if errors == nil || errors.Ref != "#/components/responses/Error" {
				t.Errorf("%s %s has no 4XX", method, path)
			}
		}
	}
}

func TestTheFileHasEveryRouteAndNoOther(t *testing.T) {
	var served []string
	for _, pattern := range admin.Patterns() {
		method, path, _ := strings.Cut(pattern, " ")
		served = append(served, method+" "+server.ManagementPrefix+path)
	}
	served = slices.Concat(served, memory.Patterns())
	described := readDescription(t).operations()
	for _, pattern := range served {
		if described[pattern] == "" {
			t.Errorf("%s is served and not described", pattern)
		}
		delete(described, pattern)
	}
	for pattern := range described {
		t.Errorf("%s is described and not served", pattern)
	}
}

// member returns a member of a JSON object that is a string.
func member(t *testing.T, object, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	var value string
	ok(t, json.Unmarshal([]byte(object), &members))
	ok(t, json.Unmarshal(members[name], &value))
	return value
}

func TestEveryRouteAnswersAsTheFileSays(t *testing.T) {
	h := build(t)
	const memory, management = "/v1/memory", server.ManagementPrefix
	first, session := h.converse("gpt-4.1", "newts", "does a newt regrow its limbs", "it does")
	second, _ := h.converse("claude-opus-4-8", "newts", "does an axolotl regrow its heart", "in part")
	shown := h.show()
	_, other := h.converse("gpt-4.1", "toads", "do toads have teeth", "they do not")

	h.ask(h.key, "POST", memory+"/search", `{"query":"regrow limbs","filters":{"field":"session","op":"eq","value":"`+session+`"},"facets":true,"explain":true}`, "X-Service-Memory-Wait", "indexed")
	h.ask(h.key, "POST", memory+"/search", `{"query":"regrow","granularity":"session"}`)
	for _, path := range []string{
		"/sessions", "/sessions?client=curl&project=/tmp&outcome=complete", "/sessions?include=beginning&chat_key=newts&limit=1&order=asc", "/sessions/" + session, "/sessions/" + session + "/timeline",
		"/exchanges", "/exchanges/" + first, "/exchanges/" + first + "?include=raw_request,raw_response,normalized",
		"/exchanges/" + shown + "/messages/0/parts/1", "/exchanges/" + h.draw() + "/answer/parts/1",
		"/exchanges/" + second + "/translation", "/exchanges/" + second + "/context", "/sessions/" + session + "/cache", "/sessions/" + session + "/forecast", "/cache?since=2000-01-01T00:00:00Z", "/costs?by=part,tool",
		"/stats", "/usage", "/usage?by=day,model&since=2000-01-01T00:00:00Z", "/export.jsonl",
	} {
		h.ask(h.key, "GET", memory+path, "")
	}
	h.ask(h.key, "POST", memory+"/recall", `{"prompt":"does a newt regrow its limbs","scope":"account"}`)
	h.ask(h.key, "POST", memory+"/recall", `{"hook_event_name":"UserPromptSubmit","prompt":"does a newt regrow its limbs"}`)
	h.ask(h.key, "PATCH", memory+"/sessions/"+session, `{"title":"Amphibia","tags":["zoology"]}`)
	h.ask(h.key, "PATCH", memory+"/exchanges/"+first, `{"tags":["good"],"note":"as it should be"}`)
	split := member(t, h.ask(h.key, "POST", memory+"/sessions/"+session+"/split", `{"exchange":"`+second+`"}`), "id")
	h.ask(h.key, "POST", memory+"/sessions/"+split+"/merge", `{"into":"`+session+`"}`)
	h.ask(h.key, "POST", memory+"/imports", h.ask(h.key, "GET", memory+"/export.jsonl?session="+session, ""), "Content-Type", "application/x-ndjson")

	tail := h.send(h.key, "GET", memory+"/events", "")
	_, err := bufio.NewReader(tail.Body).ReadString('\n')
	ok(t, err)
	ok(t, tail.Body.Close())

	h.ask(h.key, "POST", memory+"/erasures", `{"exchanges":["`+first+`"],"dry_run":true}`)
	h.ask(h.key, "DELETE", memory+"/sessions/"+other, "")
	h.ask(h.key, "DELETE", memory+"/exchanges/"+first, "")
	erasure := member(t, h.ask(h.key, "POST", memory+"/erasures", `{"until":"2000-01-01T00:00:00Z"}`), "id")
	h.ask(h.key, "GET", memory+"/erasures/"+erasure, "")

	h.ask(h.key, "GET", management+"/key", "")
	h.ask(h.operator, "POST", management+"/accounts", `{"name":"acme"}`)
	h.ask(h.operator, "PATCH", management+"/accounts/acme", `{"budget_usd_day":2.5}`)
	h.ask(h.operator, "PUT", management+"/accounts/acme/credentials/openai", `{"secret":"sk-of-acme-0123456789"}`)
	h.ask(h.operator, "GET", management+"/accounts", "")
	h.ask(h.operator, "DELETE", management+"/accounts/acme/credentials/openai", "")
	h.ask(h.operator, "PUT", management+"/accounts/acme/retention", `{"max_age":86400000000000,"max_bytes":1000000000}`)
	h.ask(h.operator, "DELETE", management+"/accounts/acme/retention", "")
	created := h.ask(h.operator, "POST", management+"/keys", `{"account":"acme","scopes":"write,read","label":"a program","models":["gpt-4.1","claude-*"],"limits":{"requests_per_minute":60,"budget_usd_day":1}}`)
	key := member(t, created, "id")
	h.ask(h.operator, "POST", management+"/keys/import", `{"keys":[{"account":"acme","scopes":"write","label":"Ada"},{"account":"default","scopes":"read"}]}`)
	h.ask(h.operator, "PATCH", management+"/keys/"+key, `{"label":"another program"}`)
	rotated := member(t, h.ask(h.operator, "POST", management+"/keys/"+key+"/rotate", `{"overlap":60000000000}`), "id")
	held := h.send(h.operator, "POST", management+"/keys/"+rotated+"/hold", "")
	ok(t, held.Body.Close())
	h.ask(h.operator, "DELETE", management+"/keys/"+key, "")
	for _, path := range []string{"/keys", "/keys?account=acme", "/audit?limit=100", "/usage?by=account,model", "/exchanges?account=default", "/exchanges/" + second, "/backup?since=0"} {
		h.ask(h.operator, "GET", management+path, "")
	}
	for _, path := range []string{"/check?repair=false", "/compact", "/reindex?what=words", "/master-key/rotate"} {
		h.ask(h.operator, "POST", management+path, "")
	}
	h.ask(h.operator, "DELETE", management+"/accounts/acme?dry_run=true", "")
	for _, path := range []string{"/providers", "/origins", "/process", "/cluster"} {
		h.ask(h.operator, "GET", management+path, "")
	}
	h.ask(h.operator, "POST", management+"/cluster/edges/7/write-off", "")
	h.ask(h.operator, "POST", management+"/ui/codes", `{"account":"default"}`)

	for pattern, id := range h.described.operations() {
		if !h.described.answered[id] {
			t.Errorf("%s (%s) was not tried", pattern, id)
		}
	}
}

func TestRefusalsAreAsTheFileSays(t *testing.T) {
	h := build(t)
	for path, status := range map[string]int{
		"/v1/memory/sessions/none":                         http.StatusNotFound,
		server.ManagementPrefix + "/exchanges/none":        http.StatusNotFound,
		server.ManagementPrefix + "/usage?by=hour":         http.StatusUnauthorized,
		"/v1/memory/exchanges?after=none&before=exch_none": http.StatusUnauthorized,
	} {
		key := h.key
		if status == http.StatusUnauthorized {
			key = "of nobody"
		}
		answer := h.send(key, "GET", path, "")
		ok(t, answer.Body.Close())
		if answer.StatusCode != status {
			t.Errorf("GET %s: want %d, got %d", path, status, answer.StatusCode)
		}
	}
}
