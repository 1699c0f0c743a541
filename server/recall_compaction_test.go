package server_test

import (
	"net/http"
	"strings"
	"testing"
)

// A conversation that the client has compacted is given what it said and did before, once, with the words that open the next turn. Later
// requests have the same text at the same place, and what is erased leaves it.
func TestACompactedConversationIsGivenWhatItLost(t *testing.T) {
	h := searching(t)
	system := "You are an agent.\nWorking directory: " + shop + "\n"
	session := []string{"X-Service-Chat-Key", "quokka", "X-Service-Recall", "on"}
	rule := h.post(messages.path, messages.said(messages.model, system, sim("Never touch gen/api.go. Mend the lock.", "We decided to keep flock instead of fcntl.")), session...)
	h.find(h.key, `{"newest":true}`)
	compacted := []string{"This session is being continued from a previous conversation that ran out of context. The user wants the lock mended.", "I see.", "Go on."}
	a := h.post(messages.path, messages.said(messages.model, system, compacted...), session...)
	sent := string(h.upstream().Body)
	for _, want := range []string{"mneme-recall nonce", "Never touch gen/api.go", "flock instead of fcntl"} {
		if !strings.Contains(sent, want) {
			t.Errorf("%q is not in what the provider was sent: %s", want, sent)
		}
	}
	if said := a.header.Get("X-Service-Recall"); !strings.Contains(said, rule.exchange()) {
		t.Errorf("the header says %q", said)
	}
	h.find(h.key, `{"newest":true}`)
	later := append(compacted, "Yes.", "And then?")
	h.post(messages.path, messages.said(messages.model, system, later...), session...)
	if again := string(h.upstream().Body); strings.Count(again, "mneme-recall nonce") != 1 || !strings.Contains(again, "Never touch gen/api.go") {
		t.Errorf("the next request has the text %d times: %s", strings.Count(again, "mneme-recall nonce"), again)
	}
	h.erased(member(h.ask(http.StatusAccepted, http.MethodDelete, "/exchanges/"+rule.exchange(), "").body, "id"))
	h.post(messages.path, messages.said(messages.model, system, later...), session...)
	if again := string(h.upstream().Body); strings.Contains(again, "gen/api.go") || strings.Contains(again, "flock instead") {
		t.Errorf("after the erasure the provider was sent %s", again)
	}
}

// Without hooks an agent asks over MCP. Of several that run with its key the directory decides, and without a decision it is asked for.
func TestADigestOverMCPIsOfTheConversationInTheDirectory(t *testing.T) {
	h := searching(t)
	for session, directory := range map[string]string{"quokka": shop, "wombat": "/home/ann/farm"} {
		system := "You are an agent.\nWorking directory: " + directory + "\n"
		rule := sim("Never touch gen/"+session+".go.", "Understood.")
		h.post(messages.path, messages.said(messages.model, system, rule), "X-Service-Chat-Key", session)
		h.post(messages.path, messages.said(messages.model, system, rule, "Understood.", `Go on. [[sim: call project_digest {} ]]`), "X-Service-Chat-Key", session)
	}
	h.find(h.key, `{"newest":true}`)
	agent, err := h.agent(h.key)
	ok(t, err)
	if text, failed := uses(t, agent, "project_digest", map[string]any{"directory": shop}); failed || !strings.Contains(text, "- asked first") || !strings.Contains(text, "Never touch gen/quokka.go") || strings.Contains(text, "wombat") {
		t.Errorf("the digest is %s", text)
	}
	if text, failed := uses(t, agent, "project_digest", map[string]any{}); !failed || !strings.Contains(text, "directory") {
		t.Errorf("without a directory: %s", text)
	}
}
