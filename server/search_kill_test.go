package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/search"
)

// envKillRounds is how often the program is killed; a few times without it.
const envKillRounds = "MNEME_TEST_KILL_ROUNDS"

// remembered is what a client knows of an exchange that it has received whole.
type remembered struct {
	exchange, word string
	erasing        bool // it has asked for it to be erased
	erased         bool // and was told that this will be done
}

// Killed at any moment between capture, digest, embedding, batch and watermark, the program finds every turn that a
// client has received exactly once when it has started again, and never one whose erasure was taken on.
func TestKilledAnywhereTheProgramFindsEveryTurnOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("rounds of a killed process, one after the other")
	}
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv(envKillRounds)); err == nil {
		rounds = n
	}
	up, err := provider.Start(provider.Options{Keep: -1, FreshIDs: true})
	ok(t, err)
	defer func() { ok(t, up.Close()) }()
	dir := t.TempDir()
	embedder := "search: {embedder: {model: text-embedding-3-small, dimensions: 64, batch_texts: 8}}"
	var all, fresh []*remembered
	for round := range rounds {
		p := startProgram(t, dir, up, embedder)
		p.checkFound(t, fresh)
		fresh = p.captureAndKill(round)
		all = append(all, fresh...)
	}
	p := startProgram(t, dir, up, embedder)
	p.checkFound(t, all)
	p.checkCounts(t)
	p.kill()
	if len(all) == 0 {
		t.Error("nothing was captured")
	}
	t.Logf("%d kills, %d turns", rounds, len(all))
}

// captureAndKill has clients say words of their own, and erase some of them again, until the program is killed.
func (p *program) captureAndKill(round int) (all []*remembered) {
	const clients = 8
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	left := 20 + rand.IntN(200)
	var mu sync.Mutex
	var running sync.WaitGroup
	for c := range clients {
		running.Go(func() {
			for i := 0; ; i++ {
				r := &remembered{word: fmt.Sprintf("w%dx%dx%d", round, c, i)}
				a := p.ask(client, chat, chat.said(chat.model, "", sim("remember "+r.word, "noted")))
				if !a.complete || a.exchange == "" {
					return
				}
				r.exchange = a.exchange
				mu.Lock()
				all = append(all, r)
				if left--; left == 0 {
					_ = p.process.Process.Kill()
				}
				mu.Unlock()
				if i%7 == 6 {
					r.erasing = true
					status, _ := p.call(client, http.MethodDelete, "/v1/memory/exchanges/"+r.exchange, "")
					r.erased = status == http.StatusAccepted
				}
			}
		})
	}
	running.Wait()
	p.kill()
	return all
}

// call asks the program's memory; status is 0 when no answer came.
func (p *program) call(client *http.Client, method, path, body string) (status int, answer []byte) {
	r, err := http.NewRequestWithContext(context.Background(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	r.Header.Set("Authorization", "Bearer "+programsKey)
	r.Header.Set("X-Service-Memory-Wait", "indexed")
	response, err := client.Do(r)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	if answer, err = io.ReadAll(response.Body); err != nil {
		return 0, nil
	}
	return response.StatusCode, answer
}

// recall decodes what the memory answers. It asks again where the machine has not let a search end in time.
func (p *program) recall(t *testing.T, method, path, body string, into any) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	status, answer := p.call(client, method, path, body)
	for deadline := time.Now().Add(timeout); status == http.StatusGatewayTimeout && time.Now().Before(deadline); {
		status, answer = p.call(client, method, path, body)
	}
	if status != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, status, answer)
	}
	ok(t, json.Unmarshal(answer, into))
}

// find searches once everything that was said before the kill is indexed.
func (p *program) find(t *testing.T, word string) (found []string) {
	t.Helper()
	for deadline := time.Now().Add(timeout); ; {
		var a search.Answer
		p.recall(t, http.MethodPost, "/v1/memory/search", fmt.Sprintf(`{"query":%q,"mode":"lexical"}`, word), &a)
		if slices.Contains(a.Degraded, "index:behind") && time.Now().Before(deadline) {
			continue
		}
		for i := range a.Data {
			found = append(append(found, a.Data[i].Exchange), a.Data[i].Duplicates...)
		}
		return found
	}
}

func (p *program) checkFound(t *testing.T, all []*remembered) {
	t.Helper()
	for _, r := range all {
		if r.erased { // what was taken on before the kill is gone on with
			eventually(t, func() error {
				if found := p.find(t, r.word); len(found) > 0 {
					return fmt.Errorf("%s was to be erased and is found as %q", r.exchange, found)
				}
				return nil
			})
			continue
		}
		if found := p.find(t, r.word); !slices.Equal(found, []string{r.exchange}) && !(r.erasing && len(found) == 0) {
			t.Fatalf("%s finds %q, want %s once", r.word, found, r.exchange)
		}
	}
}

// checkCounts compares how many documents and vectors there are with how many exchanges.
func (p *program) checkCounts(t *testing.T) {
	t.Helper()
	eventually(t, func() error {
		var s api.Stats
		p.recall(t, http.MethodGet, "/v1/memory/stats", "", &s)
		if s.Index == nil || s.Index.Vectors == nil {
			return fmt.Errorf("stats say nothing of the index and its vectors: %+v", s.Index)
		}
		v := s.Index.Vectors
		if s.Index.Lag > 0 || v.Lag > 0 || v.Building || v.Done != v.Total || int64(s.Index.Documents) > s.Exchanges {
			return fmt.Errorf("%d documents and %d of %d vectors of %d exchanges, behind by %d and %d: %s",
				s.Index.Documents, v.Done, v.Total, s.Exchanges, s.Index.Lag, v.Lag, v.Error)
		}
		return nil
	})
}
