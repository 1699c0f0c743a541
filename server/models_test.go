package server_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/mnemeproxy/mneme/router"
)

func TestModelsAreListedInTheFormOfTheClient(t *testing.T) {
	h := build(t, func(p *plan) { p.router.Aliases = []router.Alias{{Model: "my-model", To: "gpt-4.1"}} })
	openai, anthropicClient := h.openai(), h.anthropic()

	var names []string
	eventually(t, func() error { // a provider that has no time to say its models is left out for a while
		list, err := openai.Models.List(context.Background())
		ok(t, err)
		names = nil
		for _, m := range list.Data {
			names = append(names, m.ID)
		}
		for _, want := range []string{"my-model", "gpt-5.5", "claude-opus-5-5", "gemini-3.8-flash", "deepseek-v4-pro", "text-embedding-3-small"} {
			if !slices.Contains(names, want) {
				return fmt.Errorf("%s is missing in %v", want, names)
			}
		}
		return nil
	})
	if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("models are listed twice: %v", names)
	}

	var theirs []string
	pages := anthropicClient.Models.ListAutoPaging(context.Background(), anthropic.ModelListParams{})
	for pages.Next() {
		theirs = append(theirs, pages.Current().ID)
		if pages.Current().DisplayName == "" || pages.Current().CreatedAt.IsZero() {
			t.Errorf("%s", pages.Current().RawJSON())
		}
	}
	ok(t, pages.Err())
	if slices.Sort(theirs); !slices.Equal(names, theirs) {
		t.Errorf("Anthropic's clients see\n%v\nOpenAI's\n%v", theirs, names)
	}

	for _, path := range []string{"/v1/models", "/v1/models/gpt-4.1"} {
		get := h.do(http.MethodGet, path, "", "Authorization", "Bearer "+h.key)
		head := h.do(http.MethodHead, path, "", "Authorization", "Bearer "+h.key)
		if head.status != 200 || head.body != "" || head.header.Get("Content-Type") != get.header.Get("Content-Type") {
			t.Errorf("HEAD %s: %d %q %v", path, head.status, head.body, head.header)
		}
	}
	if head := h.do(http.MethodHead, "/v1/models", ""); head.status != 401 {
		t.Errorf("HEAD without a key: %d", head.status)
	}

	// What a provider says of a model's limits reaches the client that asks, whichever it is.
	auth := []string{"Authorization", "Bearer " + h.key}
	if a := h.do(http.MethodGet, "/v1/models/claude-opus-5-5", "", append(auth, "Anthropic-Version", "2023-06-01")...); !strings.Contains(a.body, `"max_input_tokens":200000,"max_tokens":64000`) {
		t.Errorf("the limits of a model: %s", a.body)
	}
	if a := h.do(http.MethodGet, "/v1/models/claude-opus-5-5", "", auth...); !strings.Contains(a.body, `"context_length":200000`) {
		t.Errorf("the context of a model: %s", a.body)
	}
	if a := h.do(http.MethodGet, "/v1/models/gpt-4.1", "", auth...); strings.Contains(a.body, "context_length") {
		t.Errorf("a context that nobody knows: %s", a.body)
	}

	one, err := openai.Models.Get(context.Background(), "my-model")
	if err != nil || one.ID != "my-model" {
		t.Errorf("%v, %v", one, err)
	}
	if a := h.do(http.MethodGet, "/v1/models/nobody-knows-this", "", "Authorization", "Bearer "+h.key); a.status != 404 || member(a.body, "error", "code") != "model_not_found" {
		t.Errorf("an unknown model: %d %s", a.status, a.body)
	}
	if a := h.do(http.MethodGet, "/v1/models", "", "Anthropic-Version", "2023-06-01"); a.status != 401 || member(a.body, "type") != "error" {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
	before := len(h.provider.Requests())
	if a := h.do(http.MethodGet, "/v1/models", "", "Authorization", "Bearer "+h.key); a.status != 200 || len(h.provider.Requests()) != before {
		t.Errorf("the list is not kept: %d, %d more requests", a.status, len(h.provider.Requests())-before)
	}
}

func TestTokensAreCountedForEveryFamily(t *testing.T) {
	h := build(t)
	ask := func(model string) *answer {
		return h.post("/v1/messages/count_tokens", strings.Replace(messages.body("", false), messages.model, model, 1))
	}
	for _, model := range []string{messages.model, "gpt-4.1", "gemini-3.8-flash", "deepseek-v4-pro"} {
		if a := ask(model); a.status != 200 || member(a.body, "input_tokens") == "" || member(a.body, "input_tokens") == "0" {
			t.Errorf("%s: %d %s", model, a.status, a.body)
		}
	}
	if a := ask("nobody-knows-this"); a.status != 404 || member(a.body, "type") != "error" {
		t.Errorf("an unknown model: %d %s", a.status, a.body)
	}
	if a := h.do(http.MethodPost, "/v1/messages/count_tokens", "{}"); a.status != 401 || member(a.body, "type") != "error" {
		t.Errorf("without a key: %d %s", a.status, a.body)
	}
}
