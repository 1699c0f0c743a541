package provider_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/bench/published"
	"github.com/mnemeproxy/mneme/codec"
)

// beyond is what the simulated provider says that the types of the SDKs do not have, and where a page that was published says
// so: the problem with its place, and indexes left out.
var beyond = map[codec.Format]map[string]string{
	codec.Chat: {
		".choices[].delta.tool_calls[].custom: ChatCompletionChunkChoiceDeltaToolCall has no such member": "docs/wire/chat-completions.md#3.3",
		".choices[].delta.annotations: ChatCompletionChunkChoiceDelta has no such member":                 "docs/wire/chat-completions.md#2",
	},
	codec.Responses: {
		".user: it may be missing, but not be null":                                "docs/wire/responses.md#8",
		".store: Response has no such member":                                      "docs/wire/responses.md#8",
		".presence_penalty: Response has no such member":                           "docs/wire/responses.md#8",
		".frequency_penalty: Response has no such member":                          "docs/wire/responses.md#8",
		".response.presence_penalty: Response has no such member":                  "docs/wire/responses.md#8",
		".response.frequency_penalty: Response has no such member":                 "docs/wire/responses.md#8",
		".output[].status: ResponseCustomToolCall has no such member":              "docs/wire/responses.md#9.3",
		".response.user: it may be missing, but not be null":                       "docs/wire/responses.md#8",
		".response.store: Response has no such member":                             "docs/wire/responses.md#8",
		".response.usage: it may be missing, but not be null":                      "docs/wire/responses.md#9.3",
		".response.output[].status: ResponseCustomToolCall has no such member":     "docs/wire/responses.md#9.3",
		".item.status: ResponseCustomToolCall has no such member":                  "docs/wire/responses.md#9.3",
		".obfuscation: ResponseTextDeltaEvent has no such member":                  "docs/wire/responses.md#9.5",
		".obfuscation: ResponseRefusalDeltaEvent has no such member":               "docs/wire/responses.md#9.5",
		".obfuscation: ResponseReasoningSummaryTextDeltaEvent has no such member":  "docs/wire/responses.md#9.5",
		".obfuscation: ResponseFunctionCallArgumentsDeltaEvent has no such member": "docs/wire/responses.md#9.5",
		".obfuscation: ResponseCustomToolCallInputDeltaEvent has no such member":   "docs/wire/responses.md#9.5",
	},
	codec.Messages: {
		": {\"type\": \"ping\"} is no variant of MessageStreamEventUnion": "docs/wire/messages.md#4.1",
		".content[].citations: it is required, and missing":               "docs/wire/messages.md#3",
		".content_block.citations: it is required, and missing":           "docs/wire/messages.md#4.1",
	},
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

// What the simulated provider says is what providers publish that they say: it shares no code with the formats' codecs, and
// without this the two could misread a page alike.
func TestAnswersAreAsPublished(t *testing.T) {
	const (
		functions = `{"type":"object","properties":{"path":{"type":"string"}}}`
		chat      = `"tools":[{"type":"function","function":{"name":"read","parameters":` + functions + `}},{"type":"custom","custom":{"name":"patch"}}]`
		responses = `"tools":[{"type":"function","name":"read","parameters":` + functions + `,"strict":false},{"type":"custom","name":"patch"},{"type":"web_search"}]`
		messages  = `"tools":[{"name":"read","input_schema":` + functions + `},{"name":"patch","input_schema":{"type":"object","properties":{"input":{"type":"string"}}}}]`
		gemini    = `"tools":[{"functionDeclarations":[{"name":"read","parametersJsonSchema":` + functions + `},{"name":"patch"}]}]`
	)
	asked := []struct {
		format             codec.Format
		complete, streamed string // paths
		body               string // with %s in the place of the prompt, and without its end
		more               string // of the body of a streamed request
	}{
		{
			codec.Chat, "/v1/chat/completions", "/v1/chat/completions",
			`{"model":"gpt-5.5",` + chat + `,"messages":[{"role":"user","content":%s}]`, `,"stream":true,"stream_options":{"include_usage":true}`,
		},
		{codec.Responses, "/v1/responses", "/v1/responses", `{"model":"gpt-5.5",` + responses + `,"input":%s`, `,"stream":true`},
		{
			codec.Messages, "/v1/messages", "/v1/messages",
			`{"model":"claude-opus-5","max_tokens":2000,` + messages + `,"messages":[{"role":"user","content":%s}]`, `,"stream":true`,
		},
		{
			codec.Gemini, "/v1beta/models/gemini-3-pro:generateContent", "/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse",
			`{` + gemini + `,"contents":[{"role":"user","parts":[{"text":%s}]}]`, "",
		},
	}
	server := start(t, provider.Options{Strict: true})
	seen := make(map[string]bool) // of beyond
	judge := func(t *testing.T, f codec.Format, problems []string, said []byte) {
		t.Helper()
		for _, problem := range problems {
			kind := index.ReplaceAllString(problem, "[]")
			if seen[kind] = true; beyond[f][kind] == "" {
				t.Errorf("%s\nin %.300s", problem, said)
			}
		}
	}
	for name, script := range map[string]string{
		"text":                `text "Hello, world."`,
		"empty":               `empty`,
		"calls":               `text "before " ; call read {"path":"a.go"} ; call read {"path":"b.go"}`,
		"interleaved calls":   `interleave ; size 3 ; call read {"path":"a.go"} ; call read {"path":"b.go"}`,
		"freeform call":       `custom patch "*** \"Begin\"\n"`,
		"reasoning":           `reasoning "Think first." ; text "Then speak."`,
		"reasoning and call":  `reasoning "Look." ; call read {"path":"a.go"}`,
		"redacted reasoning":  `redacted ; text "Done."`,
		"stop sequence":       `text "up to" ; stop sequence "END"`,
		"output limit":        `text "cut off he" ; stop length`,
		"full context":        `text "no room" ; stop-at context`,
		"cut off in a call":   `text "t" ; call read {"path":"abc"} ; stop call`,
		"refusal":             `refuse "I would rather not."`,
		"content filter":      `text "half" ; stop filter`,
		"blocked":             `block`,
		"counts":              `text "hi" ; usage input=100 cached=64 output=20 reasoning=7`,
		"search and citation": `search "go release" url=https://go.dev ; text "Go 1.26 is out." ; cite https://go.dev/doc "Go"`,
	} {
		for _, a := range asked {
			t.Run(name+"/"+a.format.String(), func(t *testing.T) {
				body := fmt.Sprintf(a.body, quoted("[[sim: "+script+" ]]"))
				answer := post(t, server, a.complete, body+"}", http.StatusOK)
				judge(t, a.format, published.Answer(a.format, answer), answer)
				for line := range bytes.Lines(post(t, server, a.streamed, body+a.more+"}", http.StatusOK)) {
					data, is := bytes.CutPrefix(bytes.TrimRight(line, "\r\n"), []byte("data: "))
					if is && string(data) != "[DONE]" {
						judge(t, a.format, published.Event(a.format, data), data)
					}
				}
			})
		}
	}
	for f, problems := range beyond {
		for problem := range problems {
			if !seen[problem] {
				t.Errorf("%s: %q does not come about any more", f, problem)
			}
		}
	}
}

func TestErrorsAreAsPublished(t *testing.T) {
	server := start(t, provider.Options{Strict: true})
	for f, ask := range map[codec.Format]struct{ path, body string }{
		codec.Chat:      {"/v1/chat/completions", `{"model":"gpt-5.5","messages":[{"role":"user","content":%s}]}`},
		codec.Responses: {"/v1/responses", `{"model":"gpt-5.5","input":%s}`},
		codec.Messages:  {"/v1/messages", `{"model":"claude-opus-5","max_tokens":2000,"messages":[{"role":"user","content":%s}]}`},
	} {
		for _, status := range []int{400, 401, 403, 404, 429, 500, 503} {
			body := fmt.Sprintf(ask.body, quoted(fmt.Sprintf("[[sim: error %d ]]", status)))
			said := post(t, server, ask.path, body, status)
			for _, problem := range published.Error(f, said) {
				t.Errorf("%s %d: %s\nin %s", f, status, problem, said)
			}
		}
	}
}

func TestVectorsAreAsPublished(t *testing.T) {
	server := start(t, provider.Options{Strict: true})
	said := post(t, server, "/v1/embeddings", `{"model":"text-embedding-3-small","input":["a","b"]}`, http.StatusOK)
	for _, problem := range published.Answer(codec.Embeddings, said) {
		t.Errorf("%s\nin %.300s", problem, said)
	}
}

// post asks the simulated provider as the client of any format.
func post(t *testing.T, server *provider.Server, path, body string, status int) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer sk-test", "X-Api-Key": "sk-test", "X-Goog-Api-Key": "sk-test", "Anthropic-Version": "2023-06-01",
	} {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		t.Fatalf("%s %s: %d %s, %v", path, body, answer.StatusCode, said, err)
	}
	return said
}
