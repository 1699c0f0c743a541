//go:build !race

package server_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
)

// Bodies of callers with a key take little more memory than the budget, however they are framed and whatever becomes of
// them. As many as fit are answered; the others are told to come again. With the race detector the heap is larger.
func TestBodiesOfCallersAllocateWithinTheBudget(t *testing.T) {
	const callers = 16
	size, budget := int64(24<<20), int64(256<<20)
	if os.Getenv(byteLoad) != "" {
		size, budget = 60<<20, 512<<20
	}
	long := func(s surface, model string) []byte {
		body := strings.Replace(s.body(`text "hi"`, false), s.model, model, 1)
		return []byte(gzipped(strings.Replace(body, "Hello.", strings.Repeat("a", int(size)-len(body)), 1)))
	}
	plain, unknown, translated := long(chat, chat.model), long(chat, "unknown/model"), long(messages, chat.model)
	up := answering(t, jsonAnswer([]byte(`{"id":"x","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`), ""))
	p := startProgram(t, t.TempDir(), origin(up), fmt.Sprintf("limits: {in_flight_bytes: %d, answer_memory: 16MiB}", budget))
	service := strings.TrimPrefix(p.url, "http://")
	idle := p.anonymous(t)
	for _, c := range []struct {
		name   string
		send   func() *answer
		status int
		least  int // answered
	}{
		{"with length", func() *answer { return flood(service, chat.path, programsKey, size, false, nil) }, http.StatusOK, 3},
		{"in chunks", func() *answer { return flood(service, chat.path, programsKey, size, true, nil) }, http.StatusOK, 1},
		{"gzip", func() *answer { return flood(service, chat.path, programsKey, size, false, plain) }, http.StatusOK, 1},
		{"gzip for an unknown model", func() *answer { return flood(service, chat.path, programsKey, size, false, unknown) }, http.StatusNotFound, 1},
		{"gzip, translated", func() *answer { return flood(service, messages.path, programsKey, size, false, translated) }, http.StatusOK, 1},
	} {
		var mu sync.Mutex
		var answered, told int
		var calls sync.WaitGroup
		load := p.watchMemory(t)
		for range callers {
			calls.Go(func() {
				a := c.send()
				mu.Lock()
				defer mu.Unlock()
				switch {
				case a != nil && a.status == c.status:
					answered++
				case a != nil && (a.status == http.StatusServiceUnavailable || a.status == 529) && a.header.Get("Retry-After") != "":
					told++
				default:
					t.Errorf("%s: a body is answered with %+v", c.name, a)
				}
			})
		}
		calls.Wait()
		took, most := load()-idle, budget*13/10
		t.Logf("%d bodies of %d MB, %s: %d answered, %d told to come again; they take %d of %d MB", callers, size>>20, c.name, answered, told, took>>20, most>>20)
		if took > most || answered < c.least {
			t.Errorf("%s: at least %d are to be answered, in %d MB", c.name, c.least, most>>20)
		}
		eventually(t, func() error { return p.isBack(t, idle) })
	}
}
