package grid

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Every translated answer, and every error, says what was done to the request; nothing is dropped silently.
func TestTheTranslationIsReportedInAHeader(t *testing.T) {
	h := build(t)
	for _, c := range []struct {
		name, script, extra, strict string
		status                      int
		header, body                string
	}{
		{"answer", `text "a"`, `,"top_k":5`, "", 200, "messages->responses; dropped=top_k", ""},
		{"streamed answer", `text "a"`, `,"top_k":5,"stream":true`, "", 200, "messages->responses; dropped=top_k", ""},
		{"error of the provider", `error rate-limit`, `,"top_k":5`, "", 429, "messages->responses; dropped=top_k", `"rate_limit_error"`},
		{"error inside the stream", `error-inside overloaded after=0`, `,"top_k":5,"stream":true`, "", 529, "messages->responses; dropped=top_k", `"overloaded_error"`},
		{"nothing to tell", `text "a"`, ``, "", 200, "messages->responses", ""},
		{"strict", `text "a"`, `,"top_k":5`, "1", 400, "", "top_k"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := `{"model":"gpt-5.5","max_tokens":99,"messages":[{"role":"user","content":` + mustJSON("[[sim: "+c.script+" ]]") + `}]` + c.extra + `}`
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/v1/messages", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+h.key)
			request.Header.Set("Content-Type", "application/json")
			if c.strict != "" {
				request.Header.Set("X-Service-Strict", c.strict)
			}
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			said, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			if got := response.Header.Get("X-Service-Translation"); response.StatusCode != c.status || got != c.header || !strings.Contains(string(said), c.body) {
				t.Errorf("%s, %q, %s", response.Status, got, said)
			}
		})
	}
}
