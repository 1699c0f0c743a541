package server_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// vectorsOf is an embeddings answer of about so many bytes.
func vectorsOf(size int) []byte {
	vector := `{"object":"embedding","index":0,"embedding":[` + strings.Repeat("-0.0123456,", 1535) + `0.5]}`
	var b bytes.Buffer
	b.WriteString(`{"object":"list","data":[` + vector)
	for b.Len() < size {
		b.WriteString("," + vector)
	}
	b.WriteString(`],"model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}`)
	return b.Bytes()
}

// wordsOf is a whole chat answer of about so many bytes.
func wordsOf(size int) []byte {
	return []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-4.1-2025","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("all is well ", size/12) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":4,"total_tokens":14}}`)
}

// answering is a provider whose every answer is what handle makes of it.
func answering(t *testing.T, handle http.HandlerFunc) (url string) {
	up := httptest.NewServer(handle)
	t.Cleanup(up.Close)
	return up.URL
}

func jsonAnswer(body []byte, encoding string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		if encoding != "" {
			w.Header().Set("Content-Encoding", encoding)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		_, _ = w.Write(body)
	}
}

const embeddingsBody = `{"model":"text-embedding-3-small","input":["a","b"]}`

// Answers that have to be held take room from one budget, whatever they were compressed to. A client for whose answer there is
// none is told to come back, and the room is there again when the others have their answers.
func TestHeldAnswersShareABudget(t *testing.T) {
	const callers, size = 12, 2 << 20
	answer := `{"id":"msg_1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","text":"` +
		strings.Repeat("all is well ", size/12) + `"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":6}}`
	var packed bytes.Buffer
	packer := gzip.NewWriter(&packed)
	_, _ = io.WriteString(packer, answer[:len(answer)-1])
	_ = packer.Flush()
	last := packed.Len() // where the last byte begins
	_, _ = io.WriteString(packer, answer[len(answer)-1:])
	_ = packer.Close()
	for _, s := range []surface{chat, responses} {
		t.Run(s.name, func(t *testing.T) {
			release := make(chan struct{})
			h := build(t, func(p *plan) {
				leadTo(p, answering(t, func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body)
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("Content-Encoding", "gzip")
					_, _ = w.Write(packed.Bytes()[:last])
					_ = http.NewResponseController(w).Flush()
					select {
					case <-release:
					case <-r.Context().Done():
					case <-time.After(timeout): // nobody was refused
					}
					_, _ = w.Write(packed.Bytes()[last:])
				}))
				p.server.AnswerMemory = 12 << 20
			})
			body := strings.Replace(s.body("", false), s.model, messages.model, 1)
			var refused atomic.Int32
			var calls sync.WaitGroup
			for range callers {
				calls.Go(func() {
					a := h.post(s.path, body)
					if a.status == http.StatusOK {
						return
					}
					if kind, message := errorOf(t, s, a); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" || !strings.Contains(message, "Try again") {
						t.Errorf("%d %s %q %v", a.status, kind, message, a.header)
					}
					if refused.Add(1) == 1 {
						close(release) // not before there is one
					}
				})
			}
			calls.Wait()
			if refused.Load() == 0 {
				t.Errorf("%d answers of %d bytes are held at once", callers, size)
			}
			if a := h.post(s.path, body); a.status != http.StatusOK || !strings.Contains(a.body, "all is well") {
				t.Errorf("when there is room again: %d", a.status)
			}
		})
	}
}

// A long answer that breaks off is visibly cut, and on record as far as it came.
func TestALongAnswerThatBreaksOffDoesNotLookComplete(t *testing.T) {
	whole, longer := wordsOf(1<<20), wordsOf(3<<20)
	for name, provider := range map[string]http.HandlerFunc{
		"its length says more": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)))
			_, _ = w.Write(whole[:len(whole)/2])
		},
		"the end of the JSON is missing": jsonAnswer(whole[:len(whole)-1], ""),
		"it goes on behind its end":      jsonAnswer(append(bytes.Clone(whole), `{"more":1}`...), ""),
		"it is longer than any":          jsonAnswer(longer, ""),
	} {
		t.Run(name, func(t *testing.T) {
			h := build(t, func(p *plan) {
				leadTo(p, answering(t, provider))
				p.server.AnswerBytes = 2 << 20
			})
			response, err := h.client.Do(h.request(context.Background(), http.MethodPost, chat.path, chat.body("", false), "Authorization", "Bearer "+h.key))
			ok(t, err)
			defer response.Body.Close()
			got, err := io.ReadAll(response.Body)
			if err == nil || json.Valid(got) || !bytes.HasPrefix(whole, got) && !bytes.HasPrefix(longer, got) {
				t.Errorf("%d bytes of %d came, and then %v", len(got), len(whole), err)
			}
			eventually(t, func() error {
				records := h.records("acme")
				if len(records) != 1 || records[0].Outcome != record.OutcomeUpstreamError || records[0].Error == nil || records[0].ResponseSize < int64(len(got)) {
					return fmt.Errorf("the record says %+v", records)
				}
				return nil
			})
		})
	}
}

// The last byte of a long answer is the promise that all of it is on record.
func TestTheLastByteOfALongAnswerWaitsForTheRecord(t *testing.T) {
	whole := append(wordsOf(1<<20), "\r\n"...)
	h := build(t, func(p *plan) { leadTo(p, answering(t, jsonAnswer(whole, ""))) })
	response, err := h.client.Do(h.request(context.Background(), http.MethodPost, chat.path, chat.body("", false), "Authorization", "Bearer "+h.key))
	ok(t, err)
	defer response.Body.Close()
	got := make([]byte, len(whole)-2)
	if _, err := io.ReadFull(response.Body, got); err != nil || !json.Valid(got) {
		t.Fatal(err)
	}
	records := h.records("acme") // as soon as the JSON is whole
	if len(records) != 1 || records[0].Outcome != record.OutcomeComplete || records[0].ResponseSize != int64(len(whole)) {
		t.Errorf("the record says %+v", records)
	}
}
