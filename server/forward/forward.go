// Package forward answers requests for the memory at an edge with what the centre of its cluster has. The edge has only what it
// has recorded itself: that is the answer while the centre is unreachable, and its handlers say that it is a part.
package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

const (
	dialTime   = time.Second
	answerTime = 15 * time.Second // to the head of an answer; a search takes five at most, and may wait for the index first
	awayTime   = 2 * time.Second  // after a failure, for which the centre is not asked
	idleTime   = time.Minute
	idleMost   = 64      // connections to the centre that are kept
	maxBody    = 1 << 20 // as the handlers of the memory have it; an import, which is larger, is not forwarded
	piece      = 32 << 10
)

// Centre is where the centre of a cluster serves its memory.
type Centre struct {
	url       *url.URL
	transport http.RoundTripper
	log       *slog.Logger
	away      atomic.Int64 // Unix time in nanoseconds until which it is not asked
}

// To returns the centre at a URL.
func To(centre *url.URL, log *slog.Logger) *Centre {
	return &Centre{url: centre, log: log, transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTime}).DialContext,
		TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: answerTime,
		MaxIdleConnsPerHost: idleMost, IdleConnTimeout: idleTime, DisableCompression: true, ForceAttemptHTTP2: true,
	}}
}

// Handling is how an edge handles a request besides.
type Handling struct {
	Own      http.Handler                // answers with the edge's own part
	Identify func(r *http.Request) error // the error for callers without a valid key, who do not reach the centre
	Fail     func(http.ResponseWriter, *http.Request, error)
}

// Handler returns a handler that asks the centre first.
func (c *Centre) Handler(h Handling) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if stays(r) {
			h.Own.ServeHTTP(w, r)
			return
		}
		if err := h.Identify(r); err != nil {
			h.Fail(w, r, err)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil {
			h.Fail(w, r, codec.Errorf(codec.KindInvalidRequest, "The body could not be read."))
			return
		}
		asked := asks(r, body)
		own := func() {
			r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), r.Body))
			h.Own.ServeHTTP(w, r)
		}
		if asked == aNote || len(body) > maxBody {
			own()
			return
		}
		answer, err := c.ask(r, body)
		switch {
		case err == nil && (answer.StatusCode == http.StatusUnauthorized || asked == aRead && answer.StatusCode == http.StatusNotFound):
			_ = answer.Body.Close() // the account is the edge's own, or the exchange has not arrived there yet
			own()
		case err == nil:
			pass(w, answer)
		case r.Context().Err() != nil: // the caller has left
		case asked == aRead:
			own()
		default:
			unreachable := codec.Errorf(codec.KindStorage, "The centre of the cluster, which keeps the memory, cannot be reached. Try again in a moment.")
			unreachable.RetryAfter, unreachable.Cause = awayTime, err
			h.Fail(w, r, unreachable)
		}
	})
}

// stays reports whether the edge answers a request itself: imports are recorded there, and translations depend on its routes.
func stays(r *http.Request) bool {
	return r.URL.Path == "/v1/memory/imports" || strings.HasSuffix(r.URL.Path, "/translation")
}

// What a request asks.
type kind int

const (
	aRead kind = iota
	aChange
	aNote // which is recorded, at the edge
)

// asks returns what a request of the memory API or of a tool asks.
func asks(r *http.Request, body []byte) kind {
	switch path := r.URL.Path; {
	case path == "/mcp":
		var call struct {
			Method string
			Params struct{ Name string }
		}
		_ = json.Unmarshal(body, &call) // the handler of the tools answers what is malformed
		switch call.Params.Name {
		case "memory_note":
			return aNote
		case "memory_forget":
			return aChange
		}
		return aRead
	case path == "/v1/memory/search" || path == "/v1/memory/recall" || r.Method == http.MethodGet && !strings.HasPrefix(path, "/v1/memory/erasures/") || r.Method == http.MethodHead:
		return aRead
	}
	return aChange
}

// errAway is returned for a centre that failed a moment ago.
var errAway = errors.New("the centre could not be reached a moment ago")

// ask sends a request to the centre. The error is for one that cannot answer.
func (c *Centre) ask(r *http.Request, body []byte) (*http.Response, error) {
	if time.Now().UnixNano() < c.away.Load() {
		return nil, errAway
	}
	to := *r.URL
	to.Scheme, to.Host, to.Path = c.url.Scheme, c.url.Host, strings.TrimSuffix(c.url.Path, "/")+r.URL.Path
	out, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	out.Header = r.Header.Clone()
	out.Header.Del("Origin")           // of a page of this edge, which has been checked here
	out.Header.Del("Content-Encoding") // the body was decompressed
	withoutHops(out.Header)
	answer, err := c.transport.RoundTrip(out)
	if err == nil {
		switch answer.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			_ = answer.Body.Close()
			err = fmt.Errorf("the centre answers %s", answer.Status)
		}
	}
	if err != nil && r.Context().Err() == nil {
		c.away.Store(time.Now().Add(awayTime).UnixNano())
		c.log.Warn("the centre does not answer for the memory; this edge answers with its own part", "centre", c.url.Redacted(), "cause", err)
	}
	return answer, err
}

// pass writes an answer of the centre. Events are passed on one by one.
func pass(w http.ResponseWriter, answer *http.Response) {
	defer answer.Body.Close()
	withoutHops(answer.Header)
	answer.Header.Del("Content-Length")
	for name, values := range answer.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.StatusCode)
	events := strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream")
	buffer := make([]byte, piece)
	for {
		n, err := answer.Body.Read(buffer)
		if _, lost := w.Write(buffer[:n]); lost != nil {
			return // the caller has left
		}
		if events && n > 0 && http.NewResponseController(w).Flush() != nil {
			return
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler) // an answer without its end must not look complete
		}
	}
}

// withoutHops removes what concerns a connection, not a message.
func withoutHops(h http.Header) {
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Date"} {
		h.Del(name)
	}
}
