package provider_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// cacheUsage is what answers say of the prompt cache: in Messages, Chat and Responses, and generateContent.
type cacheUsage struct {
	Input   int `json:"input_tokens"`
	Written int `json:"cache_creation_input_tokens"`
	Read    int `json:"cache_read_input_tokens"`
	Prompt  int `json:"prompt_tokens"`
	Chat    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	Responses struct {
		Cached int `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	Gemini int `json:"cachedContentTokenCount"`
}

func (u *cacheUsage) read() int { return u.Read + u.Chat.Cached + u.Responses.Cached + u.Gemini }

func usageOf(t *testing.T, url, body string) cacheUsage {
	t.Helper()
	response, text, err := send(t, url, body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%v: %s", err, text)
	}
	var answer struct{ Usage, UsageMetadata cacheUsage }
	must(json.Unmarshal([]byte(text), &answer))
	if strings.Contains(url, "generateContent") {
		return answer.UsageMetadata
	}
	return answer.Usage
}

// prose is text of n tokens.
func prose(n int) string { return strings.Repeat("word", n) }

const mark = `,"cache_control":{"type":"ephemeral"}`

func messagesBody(system string, messages ...string) string {
	return `{"model":"claude-sonnet-4-5","max_tokens":9,"system":"` + system + `","messages":[` + strings.Join(messages, ",") + `]}`
}

func message(role, text, mark string) string {
	return `{"role":"` + role + `","content":[{"type":"text","text":"` + text + `"` + mark + `}]}`
}

func TestMarkedPromptsAreReadUpToAMarkBefore(t *testing.T) {
	url := start(t, provider.Options{Cache: true}).URL() + "/v1/messages"
	system := prose(2000)
	first := usageOf(t, url, messagesBody(system, message("user", "one", mark)))
	if first.Read != 0 || first.Written < 2000 || first.Input > 100 {
		t.Errorf("the first request: %+v", first)
	}
	// The mark moves, and what was a block is a string.
	second := usageOf(t, url, messagesBody(system, `{"role":"user","content":"one"}`, message("assistant", "two", ""), message("user", prose(500), mark)))
	if second.Read != first.Written || second.Written < 500 || second.Written > 550 {
		t.Errorf("the second request: %+v after %+v", second, first)
	}
	if other := usageOf(t, url, messagesBody(system+"!", message("user", "one", mark))); other.Read != 0 || other.Written < 2000 {
		t.Errorf("with other instructions: %+v", other)
	}
	if unmarked := usageOf(t, url, messagesBody(system, message("user", "one", ""))); unmarked.Read != 0 || unmarked.Written != 0 {
		t.Errorf("without a mark: %+v", unmarked)
	}
	if short := usageOf(t, url, messagesBody("short", message("user", "one", mark))); short.Written != 0 {
		t.Errorf("a short prompt: %+v", short)
	}
}

func TestAMarkFarBehindIsNotFound(t *testing.T) {
	for behind, found := range map[int]bool{20: true, 21: false} {
		url := start(t, provider.Options{Cache: true}).URL() + "/v1/messages"
		usageOf(t, url, messagesBody("", message("user", prose(2000), mark)))
		conversation := []string{message("user", prose(2000), "")}
		for len(conversation) < behind {
			conversation = append(conversation, message("user", "on", ""))
		}
		if u := usageOf(t, url, messagesBody("", append(conversation, message("user", "end", mark))...)); (u.Read > 2000) != found {
			t.Errorf("%d blocks behind: %+v", behind, u)
		}
	}
}

func TestOtherPromptsAreReadInSteps(t *testing.T) {
	for name, form := range map[string]struct{ path, body, more string }{
		"chat":      {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":"%s"}%s]}`, `,{"role":"user","content":"more"}`},
		"responses": {"/v1/responses", `{"model":"gpt-5.5","store":false,"input":[{"role":"user","content":"%s"}%s]}`, `,{"role":"user","content":"more"}`},
		"gemini":    {"/v1beta/models/gemini-3-pro:generateContent", `{"contents":[{"role":"user","parts":[{"text":"%s"}]}%s]}`, `,{"role":"user","parts":[{"text":"more"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			url := start(t, provider.Options{Cache: true}).URL() + form.path
			body := func(text, more string) string { return fmt.Sprintf(form.body, text, more) }
			if first := usageOf(t, url, body(prose(1300), "")); first.read() != 0 {
				t.Errorf("the first request: %+v", first)
			}
			if second := usageOf(t, url, body(prose(1300), form.more)); second.read() != 1280 {
				t.Errorf("the second request: %+v", second)
			}
			if half := usageOf(t, url, body(prose(1100)+"!"+prose(300), "")); half.read() != 1024 {
				t.Errorf("a prompt that goes on otherwise: %+v", half)
			}
			if other := usageOf(t, url, body("!"+prose(1300), "")); other.read() != 0 {
				t.Errorf("a prompt that begins otherwise: %+v", other)
			}
			usageOf(t, url, body(prose(900), ""))
			if short := usageOf(t, url, body(prose(900), form.more)); short.read() != 0 {
				t.Errorf("a short prompt: %+v", short)
			}
		})
	}
}

func TestNobodyReadsAnothersCache(t *testing.T) {
	url := start(t, provider.Options{Cache: true}).URL() + "/v1/chat/completions"
	body := func(more string) string {
		return `{"model":"gpt-5.5",` + more + `"messages":[{"role":"user","content":"` + prose(2000) + `"}]}`
	}
	usageOf(t, url, body(""))
	if u := usageOf(t, url, body(`"prompt_cache_key":"elsewhere",`)); u.read() != 0 {
		t.Errorf("another key of the cache: %+v", u)
	}
	if u := usageOf(t, url, strings.Replace(body(""), "gpt-5.5", "gpt-5-mini", 1)); u.read() != 0 {
		t.Errorf("another model: %+v", u)
	}
	if u := usageOf(t, url, body("")); u.read() < 1900 {
		t.Errorf("the same again: %+v", u)
	}
}

func TestScriptsDecideAboutTheCache(t *testing.T) {
	url := start(t, provider.Options{Cache: true}).URL() + "/v1/chat/completions"
	body := `{"model":"gpt-5.5","messages":[{"role":"user","content":"` + prose(2000) + ` [[sim: usage input=3000 cached=7]]"}]}`
	for range 2 {
		if u := usageOf(t, url, body); u.Prompt != 3000 || u.read() != 7 {
			t.Errorf("%+v", u)
		}
	}
}

func TestWithoutACacheTheSameRequestHasTheSameAnswer(t *testing.T) {
	url := start(t, provider.Options{}).URL() + "/v1/messages"
	for range 2 {
		if u := usageOf(t, url, messagesBody(prose(2000), message("user", "one", mark))); u.Read != 0 || u.Written != 0 {
			t.Errorf("%+v", u)
		}
	}
}
