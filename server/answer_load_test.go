package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The largest answers that providers give, many at once and read slowly, pass through the real program: each is whole or
// refused with the time to come back, the process stays small, and it ends in time. It takes minutes: make answer-load.
func TestLargeAnswersAtOnceFitInMemory(t *testing.T) {
	if os.Getenv("MNEME_ANSWER_LOAD") == "" {
		t.Skip("takes minutes: make answer-load")
	}
	const most = 512 << 20
	vectors, words := vectorsOf(58<<20), []byte(gzipped(string(wordsOf(100<<20))))
	stream := packedStream(t, 2000, 256<<10)
	up := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		header, answer := w.Header(), words
		header.Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/v1/embeddings":
			answer = vectors
		case bytes.Contains(body, []byte(`"stream":true`)):
			header.Set("Content-Type", "text/event-stream")
			answer = stream
			fallthrough
		default:
			header.Set("Content-Encoding", "gzip")
		}
		_, _ = w.Write(answer)
	})
	p := startProgram(t, t.TempDir(), origin(up))
	idle := p.resident(t)

	sampled, stop, largest := make(chan struct{}), make(chan struct{}), int64(0)
	go func() {
		defer close(sampled)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			largest = max(largest, p.resident(t))
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	}()
	var calls sync.WaitGroup
	for _, load := range []struct {
		callers    int
		path, body string
	}{
		{30, "/v1/embeddings", embeddingsBody},
		{24, chat.path, chat.body("", false)},
		{4, chat.path, chat.body("", true)},
	} {
		for range load.callers {
			calls.Go(func() {
				if err := p.readSlowly(load.path, load.body); err != nil {
					t.Errorf("%s: %v", load.path, err)
				}
			})
		}
	}
	calls.Wait()
	close(stop)
	<-sampled
	signaled := time.Now() // the answers are still being digested
	ok(t, p.process.Process.Signal(syscall.SIGTERM))
	_ = p.process.Wait()
	took := time.Since(signaled)
	t.Logf("resident: %d MB idle, %d MB at most; ended in %v", idle>>20, largest>>20, took)
	if largest-idle > most {
		t.Errorf("the process took %d MB more than idle", (largest-idle)>>20)
	}
	if took > 10*time.Second {
		t.Errorf("it took %v to end", took)
	}
}

// origin is where a provider is.
type origin string

func (o origin) URL() string { return string(o) }

// packedStream is a chat stream of so many events of a size, as gzip.
func packedStream(t *testing.T, events, size int) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	event := `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-4.1","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("all is well ", size/12) + `"}}]}` + "\n\n"
	for range events {
		_, err := io.WriteString(w, event)
		ok(t, err)
	}
	_, err := io.WriteString(w, `data: {"id":"c1","object":"chat.completion.chunk","model":"gpt-4.1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
	ok(t, err)
	ok(t, w.Close())
	return b.Bytes()
}

// readSlowly makes a call and reads its answer at some 20 MB a second.
func (p *program) readSlowly(path, body string) error {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+programsKey)
	r.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") != "" {
		return nil
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", response.StatusCode)
	}
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for {
		_, err := io.CopyN(io.Discard, response.Body, 200<<10)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		<-pace.C
	}
}
