package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// director is a proxy in front of the simulated provider that tells it what to answer. Otherwise scripts would be in
// prompts, and so in the pictures.
type director struct {
	scripts  map[string]string // by prompt
	provider *provider.Server
	server   *httptest.Server

	mu   sync.Mutex
	seen map[string]cached // by conversation
}

// cached is the part of a conversation that a provider's cache would have.
type cached struct {
	head   string // tools and instructions
	tokens int
}

func newDirector(talks []talk) (*director, error) {
	p, err := provider.Start(provider.Options{})
	if err != nil {
		return nil, err
	}
	d := &director{scripts: make(map[string]string), provider: p, seen: make(map[string]cached)}
	for _, t := range talks {
		for _, turn := range t.turns {
			d.scripts[turn.asks] = turn.script()
		}
	}
	origin, err := url.Parse(p.URL())
	if err != nil {
		return nil, err
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(origin) }}
	d.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = d.direct(body)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		proxy.ServeHTTP(w, r)
	}))
	return d, nil
}

func (d *director) url() string { return d.server.URL }

func (d *director) close() {
	d.server.Close()
	_ = d.provider.Close()
}

// direct appends the script for the newest prompt to the model's name, where the provider accepts it.
func (d *director) direct(body []byte) []byte {
	var members map[string]json.RawMessage
	var model string
	if json.Unmarshal(body, &members) != nil || json.Unmarshal(members["model"], &model) != nil {
		return body
	}
	newest, first, script := -1, len(body), ""
	for asks, s := range d.scripts {
		quoted, _ := json.Marshal(asks)
		if at := bytes.LastIndex(body, quoted[1:len(quoted)-1]); at > newest {
			newest, script = at, s
		}
		if at := bytes.Index(body, quoted[1:len(quoted)-1]); at >= 0 && at < first {
			first = at
		}
	}
	if newest < 0 {
		return body
	}
	usage := d.usage(string(body[first:min(first+40, len(body))]), string(members["system"])+string(members["instructions"]), len(body), members["system"] != nil)
	script = strings.ReplaceAll(script, "USAGE", usage)
	members["model"], _ = json.Marshal(model + "[[sim: " + script + "]]")
	body, _ = json.Marshal(members)
	return body
}

// usage returns the usage of an agent with a large head, with the previous request in the cache. Some providers charge
// for writing to it.
func (d *director) usage(conversation, head string, size int, writes bool) string {
	const tokensOfHead, bytesPerToken = 21_000, 2
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.seen[conversation]
	if before.head != head {
		before.tokens = 0
	}
	now := tokensOfHead + size/bytesPerToken
	d.seen[conversation] = cached{head, now}
	if !writes {
		return fmt.Sprintf("usage input=%d cached=%d", now, before.tokens)
	}
	return fmt.Sprintf("usage input=%d cached=%d written=%d", now+30, before.tokens, now-before.tokens)
}
