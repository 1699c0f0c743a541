package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/search"
)

// harness is a proxy on a store of its own, before a provider that answers what a set says it did.
type harness struct {
	dir      string
	url      string
	store    *engine.Engine
	routes   *router.Router
	client   *http.Client
	provider *http.Server
	stop     func() error
	keys     map[string]string // by account

	answers  sync.Map // assistant's text, or a step, by document id
	sessions sync.Map // the set's name of a session by the proxy's id

	mu    sync.Mutex
	fresh []time.Duration // from the end of an answer until all that had ended could be found, for some exchanges
}

// freshEvery is how many sessions pass between two of which it is measured when they can be found.
const freshEvery = 25

// accountOf names the account that stands for one of a set.
func accountOf(name string) string {
	if name == "" {
		return "everyone"
	}
	return name
}

// build starts a harness whose searches have an embedder. The caller closes it.
func build(ctx context.Context, e search.Embedder) (h *harness, err error) {
	h = &harness{keys: make(map[string]string), client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	if h.dir, err = os.MkdirTemp("", "mneme-eval-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, h.close())
		}
	}()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	h.provider = &http.Server{Handler: http.HandlerFunc(h.answer), ReadHeaderTimeout: time.Minute}
	go func() { _ = h.provider.Serve(listener) }()

	h.store, err = engine.Open(store.Options{Dir: h.dir, Digest: digest.Exchange},
		&search.Options{Dir: filepath.Join(h.dir, "index"), Embedder: e})
	if err != nil {
		return nil, err
	}
	origin := "http://" + listener.Addr().String()
	h.routes, err = router.New(router.Config{Providers: map[string]router.ProviderConfig{
		"openai": router.ProviderConfig{}.WithSimulated("openai", origin),
	}})
	if err != nil {
		return nil, err
	}
	err = h.serve(ctx, server.Over(h.store))
	return h, err
}

// serve runs a proxy on an engine until stop is called.
func (h *harness) serve(ctx context.Context, engine server.Engine) error {
	proxy, err := server.New(server.Options{Listen: []string{"127.0.0.1:0"}, Engine: engine, Router: h.routes, Version: "eval"})
	if err != nil {
		return err
	}
	h.url = "http://" + proxy.Addr().String()
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- proxy.Run(running) }()
	h.stop = func() error {
		stop()
		return <-ended
	}
	return nil
}

func (h *harness) close() (err error) {
	h.client.CloseIdleConnections()
	if h.stop != nil {
		err = h.stop()
	}
	if h.routes != nil {
		h.routes.Close()
	}
	if h.store != nil {
		err = errors.Join(err, h.store.Close())
	}
	if h.provider != nil {
		err = errors.Join(err, h.provider.Close())
	}
	return errors.Join(err, os.RemoveAll(h.dir))
}

// answer is the provider: the request's user member names the document whose answer is wanted.
func (h *harness) answer(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		User  string `json:"user"`
		Model string `json:"model"`
	}
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	said, _ := h.answers.Load(asked.User)
	message := map[string]any{"role": "assistant", "content": said}
	if s, calls := said.(step); calls {
		message["content"], message["tool_calls"] = s.saying, []any{s.call()}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "chatcmpl-" + strconv.FormatInt(time.Now().UnixNano(), 36), "object": "chat.completion", "model": asked.Model,
		"choices": []any{map[string]any{
			"index": 0, "finish_reason": "stop", "message": message,
		}},
		"usage": map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
	})
}

// remember lets every document of a set pass the proxy, and gives which document each exchange is.
func (h *harness) remember(ctx context.Context, s *set) (documents map[string]string, err error) {
	for i := range s.documents {
		if err := h.admit(accountOf(s.documents[i].Account)); err != nil {
			return nil, err
		}
	}
	documents = make(map[string]string, len(s.documents))
	var mu sync.Mutex
	senders, ctx := errgroup.WithContext(ctx)
	senders.SetLimit(16)
	for i, session := range s.sessions() {
		senders.Go(func() error {
			for _, d := range session {
				exchange, err := h.pass(ctx, d)
				if err != nil {
					return fmt.Errorf("document %s: %w", d.ID, err)
				}
				mu.Lock()
				documents[exchange] = d.ID
				mu.Unlock()
			}
			if i%freshEvery != 0 {
				return nil
			}
			return h.measureFreshness(ctx, accountOf(session[0].Account))
		})
	}
	return documents, senders.Wait()
}

// admit creates an account with a key, unless there is one.
func (h *harness) admit(account string) (err error) {
	if h.keys[account] != "" {
		return nil
	}
	if _, err := h.store.Accounts().Create(account); err != nil {
		return err
	}
	h.keys[account], _, err = h.store.Keys().Create(account, store.ScopeRead|store.ScopeWrite, "eval")
	return err
}

// measureFreshness is called when an answer has ended, while others go on.
func (h *harness) measureFreshness(ctx context.Context, account string) error {
	began := time.Now()
	if err := h.store.Index().Wait(ctx, account); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fresh = append(h.fresh, time.Since(began))
	return nil
}

// pass lets a document pass the proxy, and returns the exchange in which its answer is.
func (h *harness) pass(ctx context.Context, d *doc) (exchange string, err error) {
	user, assistant := d.spoken()
	messages := []any{map[string]any{"role": "user", "content": user}}
	for i := range d.Steps {
		if _, err := h.say(ctx, d, messages, d.Steps[i]); err != nil {
			return "", err
		}
		messages = append(messages, d.Steps[i].passed()...)
	}
	if d.Command != "" {
		messages = append(messages, step{command: d.Command, output: d.Output}.passed()...)
	}
	return h.say(ctx, d, messages, assistant)
}

func (s step) id() string {
	return fmt.Sprintf("call_%08x", crc32.ChecksumIEEE([]byte(s.command+s.output)))
}

// call is the step as a call in an answer.
func (s step) call() any {
	arguments, _ := json.Marshal(map[string]string{"command": s.command}) // of a string
	return map[string]any{
		"id": s.id(), "type": "function", "function": map[string]any{"name": "bash", "arguments": string(arguments)},
	}
}

// passed is the step in the history of a request.
func (s step) passed() []any {
	said := map[string]any{"role": "assistant", "content": nil, "tool_calls": []any{s.call()}}
	if s.saying != "" {
		said["content"] = s.saying
	}
	return []any{said, map[string]any{"role": "tool", "tool_call_id": s.id(), "content": s.output}}
}

// say sends messages of a document's session, which are answered by a text or a step.
func (h *harness) say(ctx context.Context, d *doc, messages []any, answer any) (exchange string, err error) {
	h.answers.Store(d.ID, answer)
	defer h.answers.Delete(d.ID)
	body, err := json.Marshal(map[string]any{"model": "gpt-eval", "user": d.ID, "messages": messages})
	if err != nil {
		return "", err
	}
	response, err := h.post(ctx, "/v1/chat/completions", accountOf(d.Account), body, map[string]string{"X-Service-Chat-Key": strconv.QuoteToASCII(d.session())})
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	h.sessions.Store(response.Header.Get("X-Service-Session-ID"), d.session())
	_, err = io.Copy(io.Discard, response.Body)
	return response.Header.Get("X-Service-Exchange-ID"), err
}

func (h *harness) post(ctx context.Context, path, account string, body []byte, header map[string]string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+h.keys[account])
	r.Header.Set("Content-Type", "application/json")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := h.client.Do(r)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		_ = response.Body.Close()
		return nil, fmt.Errorf("POST %s: %s: %s", path, response.Status, text)
	}
	return response, nil
}

// indexed waits until everything that passed can be found, by words and by vectors.
func (h *harness) indexed(ctx context.Context) error {
	for account := range h.keys {
		if err := h.store.Index().WaitVectors(ctx, account); err != nil {
			return err
		}
		if err := h.warm(ctx, account); err != nil {
			return err
		}
	}
	return nil
}

// warm makes the first search of an account, which reads all its vectors: on a busy machine that takes longer than a search may.
func (h *harness) warm(ctx context.Context, account string) (err error) {
	for range 10 {
		if _, _, err = h.ask(ctx, account, &search.Request{Query: "first", Mode: search.Hybrid}); err == nil {
			return nil
		}
	}
	return err
}

// ask searches, and gives the exchanges that were found; of a search for sessions, the names of these in the set.
func (h *harness) ask(ctx context.Context, account string, r *search.Request) (found []string, took time.Duration, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	response, err := h.post(ctx, "/v1/memory/search", account, body, nil)
	if err != nil {
		return nil, 0, err
	}
	defer response.Body.Close()
	var answer search.Answer
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return nil, 0, err
	}
	took = time.Since(began)
	if len(answer.Degraded) > 0 {
		return nil, took, fmt.Errorf("the answer is degraded: %v", answer.Degraded)
	}
	for i := range answer.Data {
		hit := &answer.Data[i]
		if r.Granularity == search.Sessions {
			name, _ := h.sessions.Load(hit.Session)
			session, _ := name.(string)
			found = append(found, session)
			continue
		}
		found = append(append(found, hit.Exchange), hit.Duplicates...) // what is folded into a hit is shown with it
	}
	return found, took, nil
}
