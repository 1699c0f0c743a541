package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// keeper is a provider that keeps files for whoever has its credential.
type keeper struct {
	*httptest.Server
	mu    sync.Mutex
	made  int
	files []string // ids, the newest first
	asked []askedOf
}

// askedOf is a request to a keeper.
type askedOf struct {
	method, target, body string
	header               http.Header
}

func newKeeper(t *testing.T) *keeper {
	k := &keeper{}
	k.Server = httptest.NewServer(k)
	t.Cleanup(k.Close)
	return k
}

// behind puts a keeper behind OpenAI, Anthropic and Google.
func (k *keeper) behind(p *plan) {
	for name, path := range map[string]string{"openai": "/v1", "anthropic": "", "gemini": "/v1beta"} {
		p.router.Providers[name] = router.ProviderConfig{BaseURL: k.URL + path, APIKey: serverDefaultKey}
	}
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.asked = append(k.asked, askedOf{r.Method, r.RequestURI, string(body), r.Header})
	w.Header().Set("X-Request-Id", "req_1")
	w.Header().Set("Set-Cookie", "a=b")
	if r.Header.Get("X-Goog-Upload-Command") == "start" {
		w.Header().Set("X-Goog-Upload-Url", k.URL+r.URL.Path+"?upload_id=u1&key="+serverDefaultKey)
	}
	list := func() {
		from, size := 0, 2
		for i, id := range k.files {
			if id == r.URL.Query().Get("after") {
				from = i + 1
			}
		}
		page := k.files[from:min(from+size, len(k.files))]
		data := make([]map[string]string, len(page))
		for i, id := range page {
			data[i] = map[string]string{"id": id, "object": "file"}
		}
		answer := map[string]any{"object": "list", "data": data, "has_more": from+size < len(k.files)}
		if len(page) > 0 {
			answer["first_id"], answer["last_id"] = page[0], page[len(page)-1]
		}
		_ = json.NewEncoder(w).Encode(answer)
	}
	switch path := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/v1beta"), "/v1"); {
	case path == "/files" && r.Method == http.MethodPost:
		k.made++
		id := fmt.Sprintf("file-%d", k.made)
		k.files = append([]string{id}, k.files...)
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":%q,"object":"file"}`, id)
	case r.Method == http.MethodDelete:
		k.files = slices.DeleteFunc(k.files, func(id string) bool { return path == "/files/"+id })
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"deleted":true}`)
	case path == "/files":
		w.Header().Set("Content-Type", "application/json")
		list()
	case strings.HasSuffix(path, "/content"):
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Content-Disposition", `attachment; filename="a.png"`)
		_, _ = w.Write(bytes.Repeat([]byte("\x89PNG\x00\xff"), 50_000))
	case path == "/batches":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"id":"batch_1","object":"batch","output_file_id":"file-out"}`)
	case strings.HasPrefix(path, "/images"):
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"created":1,"data":[{"b64_json":%q}],"usage":{"input_tokens":11,"output_tokens":22,"total_tokens":33}}`, strings.Repeat("A", 100_000))
	case path == "/completions":
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"one", "two"} {
			_, _ = fmt.Fprintf(w, "data: {\"choices\":[{\"text\":%q}]}\n\n", word)
			w.(http.Flusher).Flush()
		}
		_, _ = io.WriteString(w, "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n")
	case strings.Contains(path, "missing"):
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"message":"not here","type":"invalid_request_error"}}`)
	default:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"ok":true}`)
	}
}

// last is the newest request.
func (k *keeper) last() askedOf {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.asked) == 0 {
		return askedOf{}
	}
	return k.asked[len(k.asked)-1]
}

func (k *keeper) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.asked)
}

// form is a multipart form with a file, and then a model unless that is "".
func form(t *testing.T, content, model string) (body, contentType string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	part, err := w.CreateFormFile("file", "a.bin")
	ok(t, err)
	_, _ = io.WriteString(part, content)
	if model != "" {
		ok(t, w.WriteField("model", model))
	}
	ok(t, w.Close())
	return b.String(), w.FormDataContentType()
}

func (h *harness) key2(account string) string {
	h.account(account)
	return h.createKey(account, store.ScopeWrite)
}

func TestWhatNoSurfaceOwnsIsPassedOnByteForByteAndRecorded(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind)
	for name, size := range map[string]int{"small": 10, "large": 3 << 20} {
		body, contentType := form(t, strings.Repeat("\x00\xff\r\n--", size/6+1), "")
		a := h.post("/v1/files?purpose=x", body, "Content-Type", contentType, "X-Api-Key", "", "Cookie", "c=d")
		got := k.last()
		if a.status != 200 || !strings.Contains(a.body, `"file-`) || a.header.Get("X-Request-Id") != "req_1" || a.header.Get("Set-Cookie") != "" {
			t.Errorf("%s: %d %s %v", name, a.status, a.body, a.header)
		}
		if got.body != body || got.target != "/v1/files?purpose=x" || got.header.Get("Content-Type") != contentType {
			t.Errorf("%s: %d of %d bytes came, at %s, as %s", name, len(got.body), len(body), got.target, got.header.Get("Content-Type"))
		}
		if got.header.Get("Authorization") != "Bearer "+serverDefaultKey || got.header.Get("Cookie") != "" || strings.Contains(fmt.Sprint(got.header), h.key) {
			t.Errorf("%s: the provider sees %v", name, got.header)
		}
		x := h.settled(a.exchange())
		if x.Surface != "pass" || x.Format != "pass" || x.Provider != "openai" || x.Target != "POST /v1/files?purpose=x" || x.Outcome != record.OutcomeComplete || x.Session != "" {
			t.Errorf("%s: on record is %+v", name, x.ExchangeInfo)
		}
		if x.RequestSize+x.RequestUnrecorded != int64(len(body)) || !strings.HasPrefix(body, string(x.RawRequest)) || len(x.RawRequest) > 64<<10 || string(x.RawResponse) != a.body {
			t.Errorf("%s: on record are %d and %d bytes of %d", name, x.RequestSize, x.RequestUnrecorded, len(body))
		}
	}
	a := h.do(http.MethodGet, "/v1/files/file-1/content", "", "Authorization", "Bearer "+h.key, "Range", "bytes=0-")
	if want := strings.Repeat("\x89PNG\x00\xff", 50_000); a.body != want || a.cut != nil || a.header.Get("Content-Type") != "image/png" || a.header.Get("Content-Disposition") == "" {
		t.Errorf("%d bytes came back, %v, %v", len(a.body), a.cut, a.header)
	}
	if k.last().header.Get("Range") != "bytes=0-" {
		t.Errorf("the provider sees %v", k.last().header)
	}
	if x := h.settled(a.exchange()); x.ResponseSize != 64<<10 || x.ResponseUnrecorded != int64(len(a.body))-64<<10 {
		t.Errorf("on record are %d and %d bytes of %d", x.ResponseSize, x.ResponseUnrecorded, len(a.body))
	}
	if a := h.do(http.MethodHead, "/v1/files/file-1/content", "", "Authorization", "Bearer "+h.key); a.status != 200 || a.body != "" || k.last().method != http.MethodHead {
		t.Errorf("HEAD: %d %q", a.status, a.body)
	}
	if a := h.do(http.MethodGet, "/v1/files/missing", "", "Authorization", "Bearer "+h.key); a.status != http.StatusNotFound || !strings.Contains(a.body, "not here") {
		t.Errorf("an error: %d %s", a.status, a.body)
	}
}

func TestTheModelDecidesWhereARequestIsPassedAndItsUsageIsOnRecord(t *testing.T) {
	k, other := newKeeper(t), newKeeper(t)
	h := build(t, k.behind, func(p *plan) {
		p.router.Providers["xai"] = router.ProviderConfig{BaseURL: other.URL + "/v1", APIKey: serverDefaultKey}
		p.router.Aliases = []router.Alias{{Model: "draw", To: "gpt-image-1"}}
	})
	a := h.post("/v1/images/generations", `{"model":"draw","prompt":"a cat","background":"transparent"}`)
	if got := k.last(); a.status != 200 || got.body != `{"model":"gpt-image-1","prompt":"a cat","background":"transparent"}` {
		t.Errorf("%d %s", a.status, got.body)
	}
	if x := h.settled(a.exchange()); x.Usage.InputUncached != 11 || x.Usage.Output != 22 || x.ModelAsked != "draw" || x.ModelSent != "gpt-image-1" {
		t.Errorf("on record is %+v", x.ExchangeInfo)
	}
	if a := h.post("/v1/images/generations", `{"model":"grok-2-image","prompt":"a cat"}`); a.status != 200 || other.last().target != "/v1/images/generations" {
		t.Errorf("a model of another provider: %d, %+v", a.status, other.last())
	}
	if a := h.post("/v1/images/generations", `{"model":"dall-e-3","prompt":"a cat"}`); a.status != 200 || !strings.Contains(k.last().body, "dall-e-3") {
		t.Errorf("a model without a route: %d %s", a.status, a.body)
	}
	body, contentType := form(t, "sound", "grok-voice")
	if a := h.post("/v1/audio/transcriptions", body, "Content-Type", contentType); a.status != 200 || other.last().body != body {
		t.Errorf("a form: %d %s", a.status, a.body)
	}
	a = h.post("/v1/completions", `{"model":"gpt-3.5-turbo-instruct","prompt":"x","stream":true}`)
	if want := "data: {\"choices\":[{\"text\":\"one\"}]}\n\ndata: {\"choices\":[{\"text\":\"two\"}]}\n\n"; !strings.HasPrefix(a.body, want) || !strings.HasSuffix(a.body, "data: [DONE]\n\n") {
		t.Errorf("a stream: %q", a.body)
	}
	if x := h.settled(a.exchange()); x.Usage.InputUncached != 3 || x.Usage.Output != 4 || x.Outcome != record.OutcomeComplete || string(x.RawResponse) != a.body {
		t.Errorf("on record is %+v", x.ExchangeInfo)
	}
}

func TestWhatAProviderKeepsBelongsToTheAccountThatMadeIt(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind)
	other := h.key2("globex")
	as := func(key, method, path, body string) *answer {
		return h.do(method, path, body, "Authorization", "Bearer "+key)
	}
	files := func(key string) (ids []string) {
		var list struct {
			Data    []struct{ ID string }
			FirstID *string `json:"first_id"`
			LastID  *string `json:"last_id"`
		}
		a := as(key, http.MethodGet, "/v1/files", "")
		ok(t, json.Unmarshal([]byte(a.body), &list))
		for _, f := range list.Data {
			ids = append(ids, f.ID)
		}
		if n := len(ids); n > 0 && (list.FirstID == nil || *list.FirstID != ids[0] || *list.LastID != ids[n-1]) || n == 0 && list.FirstID != nil {
			t.Errorf("the ends of the page are others: %s", a.body)
		}
		return ids
	}
	for _, key := range []string{h.key, other, other, other} { // file-1, and file-2 to 4 before it
		if a := as(key, http.MethodPost, "/v1/files", `{"purpose":"x"}`); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	if got := fmt.Sprint(files(h.key)); got != "[file-1]" {
		t.Errorf("acme sees %s", got)
	}
	if got := fmt.Sprint(files(other)); got != "[file-4 file-3]" {
		t.Errorf("globex sees %s", got)
	}
	if got := fmt.Sprint(files(h.key2("initech"))); got != "[]" {
		t.Errorf("initech sees %s", got)
	}
	before := k.count()
	for _, row := range []struct{ method, path, body string }{
		{http.MethodGet, "/v1/files/file-1", ""},
		{http.MethodGet, "/v1/files/file-1/content", ""},
		{http.MethodGet, "/openai/v1/files/file-1", ""},
		{http.MethodGet, "/openai/files/file-1", ""},
		{http.MethodDelete, "/v1/files/file-1", ""},
		{http.MethodGet, "/v1/files/%66ile-1", ""},
		{http.MethodPost, "/v1/batches", `{"input_file_id":"file-1"}`},
		{http.MethodPost, "/v1/vector_stores", `{"file_ids":["file-1"]}`},
		{http.MethodPost, "/v1/batches/batch_9/cancel", ""},
		{http.MethodGet, "/v1/batches/batch_9", ""},
	} {
		if a := as(other, row.method, row.path, row.body); a.status != http.StatusNotFound || !strings.Contains(a.body, unknownHere) {
			t.Errorf("%s %s: %d %s", row.method, row.path, a.status, a.body)
		}
	}
	if a := h.do(http.MethodPost, "/v1/batches", `{"input_file_id":"file-1"}`, "Authorization", "Bearer "+other, "Content-Type", "text/plain"); a.status != http.StatusUnsupportedMediaType {
		t.Errorf("JSON that says it is none: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/openai/v1/something", "/openai/v1/something/x1", "/anthropic/v1/agents", "/v1/audio/others"} {
		if a := as(other, http.MethodGet, path, ""); a.status != http.StatusForbidden || !strings.Contains(a.body, "account credential set globex") {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if k.count() != before {
		t.Error("the provider was asked")
	}
	if a := as(h.key, http.MethodPost, "/v1/batches", `{"input_file_id":"file-1"}`); a.status != 200 {
		t.Errorf("its own file: %d %s", a.status, a.body)
	}
	for _, path := range []string{"/v1/batches/batch_1", "/v1/files/file-out/content", "/v1/files/file-1"} {
		if a := as(h.key, http.MethodGet, path, ""); a.status != 200 {
			t.Errorf("%s of its own: %d %s", path, a.status, a.body)
		}
	}
	if a := as(h.key, http.MethodDelete, "/v1/files/file-1", ""); a.status != 200 {
		t.Errorf("%d %s", a.status, a.body)
	}
	if got := fmt.Sprint(files(h.key)); got != "[]" {
		t.Errorf("after it was deleted, acme sees %s", got)
	}
	ok(t, h.store.Credentials().Set("globex", "openai", accountsOwnKey))
	if a := as(other, http.MethodGet, "/v1/files/file-1", ""); a.status != 200 || k.last().header.Get("Authorization") != "Bearer "+accountsOwnKey {
		t.Errorf("with the account's own credential: %d %s", a.status, a.body)
	}
}

func TestWhatIsNotForAProxyIsRefusedInWords(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind)
	for path, why := range map[string]string{
		"/v1/fine_tuning/jobs":              "pass_through.allow: [fine_tuning]",
		"/openai/v1/organization/admin_api": "pass_through.allow: [administration]",
		"/openai/organization/users":        "pass_through.allow: [administration]",
		"/openai/v1/Organization":           "pass_through.allow: [administration]",
		"/anthropic/v1/organizations/me":    "pass_through.allow: [administration]",
		"/v1/realtime/client_secrets":       "pass_through.allow: [client_secrets]",
		"/v1beta/tunedModels":               "pass_through.allow: [fine_tuning]",
	} {
		if a := h.post(path, `{}`); a.status != http.StatusForbidden || !strings.Contains(a.body, why) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if a := h.do(http.MethodDelete, "/openai/v1/models/ft:x", "", "Authorization", "Bearer "+h.key); a.status != http.StatusForbidden {
		t.Errorf("a model is deleted: %d %s", a.status, a.body)
	}
	for _, path := range []string{
		"/openai/v1/files/%252e%252e/organization", "/openai/v1/files/..;/organization", "/openai/v1/files/%0d%0aX:%20y", "/openai/v1/files/a%00", "/openai/v1/files/%2e%2e%2f",
		"/v1/files?x=%zz\\y",
	} {
		a := exchangeOn(t, h.dial(), "GET "+path+" HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer "+h.key+"\r\n\r\n")
		if a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if k.count() > 0 {
		t.Errorf("the provider was asked: %+v", k.last())
	}
	if a := h.do(http.MethodGet, "/openai/v1/files/../organization/users", "", "Authorization", "Bearer "+h.key); a.status == 200 {
		t.Error("dots lead to another path")
	}
	if a := h.do(http.MethodGet, "/openai/@evil.example/files", "", "Authorization", "Bearer "+h.key); k.last().target != "/v1/@evil.example/files" {
		t.Errorf("%d, at %s", a.status, k.last().target)
	}
	if a := h.do(http.MethodGet, "/v1/files", ""); a.status != http.StatusUnauthorized {
		t.Errorf("without a key: %d", a.status)
	}

	allowed := build(t, k.behind, func(p *plan) { p.server.PassThrough = []string{"fine_tuning"} })
	if a := allowed.post("/v1/fine_tuning/jobs", `{"model":"gpt-4.1"}`); a.status != 200 {
		t.Errorf("allowed: %d %s", a.status, a.body)
	}
}

func TestAKeyForCertainModelsAndABudgetHoldForWhatIsPassedOn(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind)
	secret, _, err := h.store.Keys().Create("acme", store.ScopeWrite, "narrow", func(k *store.Key) { k.Models = store.Models{"gpt-image-1"} })
	ok(t, err)
	h.key = secret
	body, contentType := form(t, "sound", "whisper-1")
	for _, row := range []struct{ path, body, contentType string }{
		{"/v1/images/generations", `{"model":"dall-e-3"}`, "application/json"},
		{"/v1/images/generations", `{}`, "application/json"},
		{"/v1/audio/transcriptions", body, contentType},
		{"/v1/batches", `{"input_file_id":"file-1"}`, "application/json"},
		{"/gemini/v1beta/models/imagen-4:predict", `{}`, "application/json"},
		{"/openai/v1/chat/completions", `{"model":"gpt-4.1","messages":[{"role":"user","content":"hi"}]}`, "application/json"},
	} {
		if a := h.post(row.path, row.body, "Content-Type", row.contentType); a.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", row.path, a.status, a.body)
		}
	}
	if a := h.post("/v1/images/generations", `{"model":"gpt-image-1"}`); a.status != 200 || k.count() != 1 {
		t.Errorf("the model of the key: %d %s", a.status, a.body)
	}

	limited := build(t, k.behind, func(p *plan) { p.server.KeyLimits = store.Limits{TokensPerMonth: 1 << 30} })
	if a := limited.post("/v1/batches", `{"input_file_id":"file-1"}`); a.status != http.StatusForbidden || !strings.Contains(a.body, "limit of tokens") {
		t.Errorf("a batch: %d %s", a.status, a.body)
	}
	large, contentType := form(t, strings.Repeat("x", 1<<20), "")
	if a := limited.post("/v1/files", large, "Content-Type", contentType); a.status != 200 {
		t.Errorf("a file: %d %s", a.status, a.body)
	}
}

func TestBehindAProvidersNameTheSurfacesAreServed(t *testing.T) {
	h := build(t)
	for path, s := range map[string]surface{
		"/openai/v1/chat/completions": chat, "/openai/chat/completions": chat, "/openai/v1/responses": responses,
		"/anthropic/v1/messages": messages, "/openai/v1/embeddings": embeddings,
	} {
		a := h.post(path, s.body(`text "hi"`, false))
		if a.status != 200 || h.settled(a.exchange()).Surface != s.name {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	a := h.post("/anthropic/v1/messages", strings.Replace(messages.body(`text "hi"`, false), messages.model, "my-own-model", 1))
	if x := h.settled(a.exchange()); x.Provider != "anthropic" || x.ModelSent != "my-own-model" {
		t.Errorf("a model without a route: %d %+v", a.status, x.ExchangeInfo)
	}
}

func TestGooglesClientsSendTheirKeyInTheirOwnWay(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind)
	for name, row := range map[string]struct {
		path    string
		headers []string
		key     string
	}{
		"a service key in the header": {"/v1beta/cachedContents", []string{"X-Goog-Api-Key", h.key}, serverDefaultKey},
		"a service key in the query":  {"/v1beta/cachedContents?key=" + h.key + "&pageSize=5", nil, serverDefaultKey},
		"its own key beside ours":     {"/v1beta/cachedContents?pageSize=5", []string{"Authorization", "Bearer " + h.key, "X-Goog-Api-Key", callersOwnKey}, callersOwnKey},
		"its own in the query":        {"/gemini/v1beta/cachedContents?key=" + callersOwnKey, []string{"Authorization", "Bearer " + h.key}, callersOwnKey},
	} {
		a := h.do(http.MethodGet, row.path, "", row.headers...)
		got := k.last()
		if a.status != 200 || got.header.Get("X-Goog-Api-Key") != row.key || strings.Contains(got.target, "key=") || got.header.Get("Authorization") != "" {
			t.Errorf("%s: %d %s, and the provider sees %+v", name, a.status, a.body, got)
		}
		if x := h.settled(a.exchange()); strings.Contains(x.Target, "key=") {
			t.Errorf("%s: on record is %s", name, x.Target)
		}
	}
	// Newer ones have the paths of others.
	if a := h.do(http.MethodGet, "/v1/files?pageSize=5", "", "X-Goog-Api-Key", h.key); a.status != 200 || k.last().target != "/v1/files?pageSize=5" || k.last().header.Get("X-Goog-Api-Key") != serverDefaultKey {
		t.Errorf("%d %s, and the provider sees %+v", a.status, a.body, k.last())
	}
	for _, path := range []string{"/v1/files", "/v1/models", "/v1/models/gpt-4.1", "/v1/images"} {
		if a := h.do(http.MethodGet, path, "", "X-Goog-Api-Client", "google-genai-sdk"); a.status < 400 || member(a.body, "error", "status") == "" {
			t.Errorf("at %s: %d %s", path, a.status, a.body)
		}
		if a := h.do(http.MethodGet, path, "", "Anthropic-Version", "2023-06-01", "X-Goog-Api-Key", h.key); a.status < 400 {
			t.Errorf("another's client with Google's header at %s: %d", path, a.status)
		}
	}
}

func TestAPieceOfAFileIsNotReadWhateverItsTypeSays(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind)
	h.account("globex")
	a := h.post("/upload/v1beta/files?upload_id=u1", `{"file_id":"file-of-another"} and more`, "X-Goog-Upload-Command", "upload, finalize")
	if got := k.last(); a.status != 200 || got.target != "/upload/v1beta/files?upload_id=u1" || got.header.Get("X-Goog-Upload-Command") == "" || !strings.HasSuffix(got.body, "and more") {
		t.Errorf("%d %s, and the provider sees %+v", a.status, a.body, got)
	}
}

// Google's SDK for Python sends the pieces of a file without any credential, to the address that it was given for them.
func TestAnUploadGoesOnWhereItsBeginningWasAnswered(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind)
	for _, version := range []string{"/v1", "/v1beta"} {
		begun := h.do(http.MethodPost, "/upload"+version+"/files", `{}`, "X-Goog-Api-Key", h.key, "X-Goog-Upload-Command", "start")
		next, here := strings.CutPrefix(begun.header.Get("X-Goog-Upload-Url"), h.url)
		if !here || strings.Contains(next, serverDefaultKey) {
			t.Fatalf("%s: it goes on at %s", version, begun.header.Get("X-Goog-Upload-Url"))
		}
		a := h.do(http.MethodPost, next, "piece", "X-Goog-Upload-Command", "upload, finalize")
		if got := k.last(); a.status != 200 || got.target != "/upload"+version+"/files?upload_id=u1" || got.body != "piece" || got.header.Get("X-Goog-Api-Key") != serverDefaultKey {
			t.Errorf("%s: %d %s, and the provider sees %+v", version, a.status, a.body, got)
		}
		if x := h.settled(a.exchange()); strings.Contains(x.Target, "key=") {
			t.Errorf("%s: on record is %s", version, x.Target)
		}
	}
	if a := h.post("/upload/v1beta/files", `{}`, "X-Goog-Upload-Command", "start"); strings.Contains(a.header.Get("X-Goog-Upload-Url"), "key=") {
		t.Errorf("a key that came elsewhere is in %s", a.header.Get("X-Goog-Upload-Url"))
	}
}

func TestBrowsersAndUnknownPathsAreToldWhatThereIs(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind, func(p *plan) { p.server.Origins = []string{"https://app.example"} })
	a := h.do(http.MethodOptions, "/v1/files", "", "Origin", "https://app.example", "Access-Control-Request-Method", "POST")
	if a.status != http.StatusNoContent || a.header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(a.header.Get("Allow"), "POST") {
		t.Errorf("a preflight: %d %v", a.status, a.header)
	}
	a = h.do(http.MethodOptions, "/v1/files", "", "Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
	if a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("of another origin: %v", a.header)
	}
	if a := h.post("/v1/moderations", `{"input":"x"}`, "Origin", "https://app.example"); a.status != 200 || a.header.Get("Access-Control-Allow-Origin") == "" {
		t.Errorf("%d %v", a.status, a.header)
	}
	for path, headers := range map[string][]string{"/v1/nothing": nil, "/v1/messages/nothing": nil, "/nothing": {"Anthropic-Version", "2023-06-01"}} {
		a := h.post(path, `{}`, headers...)
		for _, part := range []string{"POST /v1/chat/completions", "/openai/…", "/anthropic/…", "files, ", "images"} {
			if a.status != http.StatusNotFound || !strings.Contains(a.body, part) {
				t.Errorf("%s: %d without %q: %s", path, a.status, part, a.body)
			}
		}
		if isMessages := strings.HasPrefix(a.body, `{"type":"error"`); isMessages != (path != "/v1/nothing") {
			t.Errorf("%s: the form of another surface: %s", path, a.body)
		}
	}
}

// The provider has the front of a body while the client has yet to send the rest, and the client has the front of an
// answer while the provider has yet to send the rest.
func TestAnUploadAndADownloadGoOnAsTheyArrive(t *testing.T) {
	reached, more := make(chan struct{}), make(chan struct{})
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if _, err := io.ReadFull(r.Body, make([]byte, 100_000)); err != nil {
				t.Error(err)
			}
			close(reached)
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = io.WriteString(w, `{"id":"file-1"}`)
			return
		}
		w.Header().Set("Content-Type", "audio/mpeg")
		_, _ = io.WriteString(w, strings.Repeat("a", 200_000))
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, "end")
	}))
	defer host.Close()
	h := build(t, func(p *plan) {
		p.router.Providers["openai"] = router.ProviderConfig{BaseURL: host.URL + "/v1", APIKey: serverDefaultKey}
	})
	body, writes := io.Pipe()
	go func() {
		_, _ = writes.Write(bytes.Repeat([]byte("a"), 200_000))
		<-reached
		_, _ = writes.Write([]byte("end"))
		_ = writes.Close()
	}()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.url+"/v1/files", body)
	ok(t, err)
	r.Header.Set("Authorization", "Bearer "+h.key)
	r.Header.Set("Content-Type", "application/octet-stream")
	response, err := h.client.Do(r)
	ok(t, err)
	if a := read(response); a.status != 200 || a.body != `{"id":"file-1"}` {
		t.Errorf("%d %s", a.status, a.body)
	}
	r, err = http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/v1/files/file-1/content", nil)
	ok(t, err)
	r.Header.Set("Authorization", "Bearer "+h.key)
	response, err = h.client.Do(r)
	ok(t, err)
	if _, err := io.ReadFull(response.Body, make([]byte, 200_000)); err != nil {
		t.Error(err)
	}
	close(more)
	if a := read(response); a.body != "end" || a.cut != nil {
		t.Errorf("%q %v", a.body, a.cut)
	}
}

// A client that stops sending, or a provider that answers early, leaves nothing behind.
func TestAProviderThatAnswersEarlyIsHeard(t *testing.T) {
	host := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		_, _ = io.WriteString(w, `{"error":{"message":"too large a file"}}`)
	}))
	defer host.Close()
	h := build(t, func(p *plan) {
		p.router.Providers["openai"] = router.ProviderConfig{BaseURL: host.URL + "/v1", APIKey: serverDefaultKey}
	})
	conn := h.dial()
	_, err := fmt.Fprintf(conn, "POST /v1/files HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer %s\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n%s", h.key, strings.Repeat("a", 100_000))
	ok(t, err)
	a := exchangeOn(t, conn, "")
	if a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.body, "too large a file") {
		t.Errorf("%d %s", a.status, a.body)
	}
	if x := h.settled(a.exchange()); x.Outcome != record.OutcomeUpstreamError {
		t.Errorf("on record is %+v", x.ExchangeInfo)
	}
}

func TestAClientThatLeavesDuringAnUploadStopsTheProvider(t *testing.T) {
	left := make(chan error, 1)
	begun := make(chan struct{})
	host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadFull(r.Body, make([]byte, 10))
		close(begun)
		_, err := io.Copy(io.Discard, r.Body)
		left <- err
	}))
	defer host.Close()
	h := build(t, func(p *plan) {
		p.router.Providers["openai"] = router.ProviderConfig{BaseURL: host.URL + "/v1", APIKey: serverDefaultKey}
	})
	conn := h.dial()
	_, err := fmt.Fprintf(conn, "POST /v1/files HTTP/1.1\r\nHost: proxy\r\nAuthorization: Bearer %s\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\n%s", h.key, strings.Repeat("a", 100_000))
	ok(t, err)
	<-begun
	ok(t, conn.Close())
	if err := <-left; err == nil {
		t.Error("the provider got a whole body")
	}
	eventually(t, func() error {
		if all := h.records("acme"); len(all) != 1 || all[0].Outcome != record.OutcomeClientClosed {
			return errors.New("it is not on record that the client left")
		}
		return nil
	})
}

func TestOpenAIsSDKFindsWhatIsPassedOn(t *testing.T) {
	k := newKeeper(t)
	h := build(t, k.behind)
	ctx, media := context.Background(), bytes.Repeat([]byte("\x00\xff\r\n--"), 1000)
	client := h.openai()
	others := openai.NewClient(openaioption.WithBaseURL(h.url+"/v1"), openaioption.WithAPIKey(h.key2("globex")), openaioption.WithHTTPClient(h.client))
	unknown := func(what string, err error) {
		if status, message := raised(err); status != http.StatusNotFound || !strings.Contains(message, unknownHere) {
			t.Errorf("%s of another account: %v", what, err)
		}
	}

	file, err := client.Files.New(ctx, openai.FileNewParams{File: bytes.NewReader(media), Purpose: openai.FilePurposeBatch})
	if err != nil || file.ID != "file-1" || !strings.Contains(k.last().body, string(media)) || k.last().header.Get("Authorization") != "Bearer "+serverDefaultKey {
		t.Errorf("a file: %v, %+v", err, file)
	}
	for name, c := range map[string]struct {
		client openai.Client
		want   int
	}{"its owner": {client, 1}, "another": {others, 0}} {
		listed := c.client.Files.ListAutoPaging(ctx, openai.FileListParams{})
		n := 0
		for listed.Next() {
			n++
		}
		if listed.Err() != nil || n != c.want {
			t.Errorf("%s sees %d files: %v", name, n, listed.Err())
		}
	}
	content, err := client.Files.Content(ctx, file.ID)
	ok(t, err)
	if got := read(content); got.body != strings.Repeat("\x89PNG\x00\xff", 50_000) {
		t.Errorf("%d bytes of the file came back", len(got.body))
	}
	_, err = others.Files.Content(ctx, file.ID)
	unknown("a file", err)
	job := openai.BatchNewParams{InputFileID: file.ID, Endpoint: openai.BatchNewParamsEndpointV1Responses, CompletionWindow: openai.BatchNewParamsCompletionWindow24h}
	if batch, err := client.Batches.New(ctx, job); err != nil || batch.ID != "batch_1" {
		t.Errorf("a batch: %v, %+v", err, batch)
	}
	_, err = others.Batches.New(ctx, job)
	unknown("a batch of a file", err)
	_, err = others.Batches.Cancel(ctx, "batch_1")
	unknown("a batch", err)
	images, err := client.Images.Generate(ctx, openai.ImageGenerateParams{Model: "gpt-image-2.5-flare", Prompt: "a cat"})
	if err != nil || len(images.Data) != 1 || len(images.Data[0].B64JSON) != 100_000 || images.Usage.TotalTokens != 33 {
		t.Errorf("a picture: %v", err)
	}
	_, err = client.Moderations.New(ctx, openai.ModerationNewParams{Input: openai.ModerationNewParamsInputUnion{OfString: openai.String("x")}})
	ok(t, err)
	if gone, err := client.Files.Delete(ctx, file.ID); err != nil || !gone.Deleted {
		t.Errorf("a deletion: %v, %+v", err, gone)
	}
	for _, x := range h.records("") {
		if x.Surface != "pass" {
			t.Errorf("on record is %+v", x)
		}
	}
}
