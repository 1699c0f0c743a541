package server_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/search"
)

// A program that is told of another embedder than the one that made its vectors does not start, and says what to do; once
// that is done it starts, and searches go by the new vectors.
func TestAChangeOfEmbedderNeedsConsent(t *testing.T) {
	up, err := provider.Start(provider.Options{Keep: -1, FreshIDs: true})
	ok(t, err)
	defer func() { ok(t, up.Close()) }()
	dir := t.TempDir()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	spelling := "search: {embedder: {model: local-hash-v1}}"
	p := startProgram(t, dir, up, spelling)
	if a := p.ask(client, chat, chat.said(chat.model, "", sim("where do quokkas live", "on Rottnest"))); !a.complete {
		t.Fatal("no answer")
	}
	vectorsBy := func(embedder string) {
		t.Helper()
		eventually(t, func() error {
			var s api.Stats
			p.recall(t, http.MethodGet, "/v1/memory/stats", "", &s)
			if v := s.Index.Vectors; v == nil || v.Embedder != embedder || v.Documents != 1 || v.Building || v.Lag > 0 {
				return fmt.Errorf("vectors: %+v, want one of %s", v, embedder)
			}
			return nil
		})
		var a search.Answer
		p.recall(t, http.MethodPost, "/v1/memory/search", `{"query":"quokkas","mode":"hybrid","explain":true}`, &a)
		if a.ModeUsed != search.Hybrid || len(a.Data) != 1 || a.Data[0].Scores.Vector == nil || len(a.Degraded) > 0 {
			t.Errorf("found %+v by %s, %q", a.Data, a.ModeUsed, a.Degraded)
		}
	}
	vectorsBy("local-hash-v1/1024")
	p.kill()

	other := "search: {embedder: {model: text-embedding-3-small, dimensions: 64}}"
	data := filepath.Join(dir, "data")
	config := configure(t, dir, up, other)
	said, err := programCommand("serve", "--config", config, "--data", data, "--listen", "127.0.0.1:0").CombinedOutput()
	if err == nil || !strings.Contains(string(said), "vectors of 1 turns were made by local-hash-v1/1024") || !strings.Contains(string(said), "mneme reindex vectors") {
		t.Fatalf("with another embedder the program says %q, %v", said, err)
	}
	if said, err := programCommand("reindex", "vectors", "--config", config, "--data", data).CombinedOutput(); err != nil || !strings.Contains(string(said), "openai/text-embedding-3-small/64") {
		t.Fatalf("reindex: %s, %v", said, err)
	}
	p = startProgram(t, dir, up, other)
	vectorsBy("openai/text-embedding-3-small/64")
	p.kill()
}

// Without an embedder, as by default, nothing is embedded and searches go by words; the vectors that a store has stay, and
// are completed when their embedder is named again.
func TestVectorsBySpellingAreMadeOnRequest(t *testing.T) {
	up, err := provider.Start(provider.Options{Keep: -1, FreshIDs: true})
	ok(t, err)
	defer func() { ok(t, up.Close()) }()
	dir := t.TempDir()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	serve := func(settings ...string) (p *program, ask func(question string)) {
		p = startProgram(t, dir, up, settings...)
		return p, func(question string) {
			t.Helper()
			if a := p.ask(client, chat, chat.said(chat.model, "", sim(question, "on Rottnest"))); !a.complete {
				t.Fatal("no answer")
			}
		}
	}
	find := func(p *program, mode search.Mode) (a search.Answer) {
		t.Helper()
		p.recall(t, http.MethodPost, "/v1/memory/search", fmt.Sprintf(`{"query":"quokkas","mode":%q}`, mode), &a)
		return a
	}
	vectors := func(p *program, want int) {
		t.Helper()
		eventually(t, func() error {
			var s api.Stats
			p.recall(t, http.MethodGet, "/v1/memory/stats", "", &s)
			if v := s.Index.Vectors; v == nil || v.Documents != uint64(want) || v.Building || v.Lag > 0 {
				return fmt.Errorf("vectors: %+v, want %d", v, want)
			}
			return nil
		})
	}
	spelling := "search: {embedder: {model: local-hash-v1}}"

	p, ask := serve(spelling)
	ask("where do quokkas live")
	vectors(p, 1)
	if a := find(p, search.Auto); a.ModeUsed != search.Lexical || len(a.Data) != 1 || len(a.Degraded) > 0 {
		t.Errorf("of itself a search goes by %s, finds %+v, %q", a.ModeUsed, a.Data, a.Degraded)
	}
	p.kill()

	p, ask = serve()
	ask("what do quokkas eat")
	var s api.Stats
	p.recall(t, http.MethodGet, "/v1/memory/stats", "", &s)
	if s.Index.Vectors != nil {
		t.Errorf("without an embedder there are vectors: %+v", s.Index.Vectors)
	}
	eventually(t, func() error {
		if a := find(p, search.Auto); a.ModeUsed != search.Lexical || len(a.Data) != 2 || len(a.Degraded) > 0 {
			return fmt.Errorf("without an embedder a search goes by %s, finds %+v, %q", a.ModeUsed, a.Data, a.Degraded)
		}
		return nil
	})
	p.kill()

	p, _ = serve(spelling)
	vectors(p, 2)
	if a := find(p, search.Hybrid); a.ModeUsed != search.Hybrid || len(a.Data) != 2 || len(a.Degraded) > 0 {
		t.Errorf("asked for both a search goes by %s, finds %+v, %q", a.ModeUsed, a.Data, a.Degraded)
	}
	p.kill()
}
