//go:build !race

package server_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"
)

func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Long answers in the provider's own format take no memory of their length, however slowly they are read. With the
// race detector the heap is larger.
func TestSlowReadersOfLongAnswersAllocateLittle(t *testing.T) {
	const readers, size = 8, 8 << 20 // more than the kernel holds for a connection
	vectors, words := vectorsOf(size), wordsOf(size)
	for name, c := range map[string]struct {
		path, body string
		provider   http.HandlerFunc
		want       []byte
	}{
		"embeddings":             {"/v1/embeddings", embeddingsBody, jsonAnswer(vectors, ""), vectors},
		"whole answers, as gzip": {chat.path, chat.body("", false), jsonAnswer([]byte(gzipped(string(words))), "gzip"), words},
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, func(p *plan) {
				leadTo(p, answering(t, c.provider))
				p.server.AnswerMemory = 4 << 20
				p.server.CaptureOff = true // the memory of the store is bounded elsewhere
			})
			before := liveHeap()
			var responses []*http.Response
			for range readers {
				response, err := h.client.Do(h.request(context.Background(), http.MethodPost, c.path, c.body, "Authorization", "Bearer "+h.key))
				ok(t, err)
				t.Cleanup(func() { _ = response.Body.Close() })
				if response.StatusCode != http.StatusOK {
					t.Fatalf("status %d", response.StatusCode)
				}
				responses = append(responses, response)
			}
			if taken := liveHeap() - before; taken > readers*size/3 {
				t.Errorf("%d answers of %d bytes that nobody reads take %d bytes", readers, size, taken)
			}
			var reading sync.WaitGroup
			for _, response := range responses {
				reading.Go(func() {
					if got, err := io.ReadAll(response.Body); err != nil || !bytes.Equal(got, c.want) {
						t.Errorf("%d bytes of %d came, %v", len(got), len(c.want), err)
					}
				})
			}
			reading.Wait()
		})
	}
}
