package server_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store/record"
)

// limited is a harness with limits that tests can reach.
func limited(t *testing.T, changes ...func(*plan)) *harness {
	return build(t, append(changes, func(p *plan) {
		p.server.BodyBytes, p.server.HeaderBytes, p.server.InFlightBytes = 256<<10, 8<<10, 600<<10
	})...)
}

// padded is a body of exactly that many bytes.
func (s surface) padded(size int) string {
	body := s.body(`text "hi"`, false)
	return with(body, `"padding":"`+strings.Repeat("x", size-len(body)-len(`"padding":"",`))+`"`)
}

func TestABodyOverTheLimitIsRefused(t *testing.T) { onEveryTransport(t, aBodyOverTheLimitIsRefused) }

func aBodyOverTheLimitIsRefused(t *testing.T, on transportPlan) {
	h := limited(t, on)
	for _, s := range surfaces {
		if a := h.post(s.path, s.padded(256<<10)); a.status != 200 {
			t.Errorf("%s: a body of the very limit: %d %s", s.name, a.status, a.body)
		}
		a := h.post(s.path, s.padded(256<<10+1))
		_, message := errorOf(t, s, a)
		if a.status != http.StatusRequestEntityTooLarge || !strings.Contains(message, "limits.body_bytes") {
			t.Errorf("%s: one byte more: %d %q", s.name, a.status, message)
		}
	}
	conn := h.dial() // far more is refused before it is sent
	a := exchangeOn(t, conn, "POST /v1/messages HTTP/1.1\r\nHost: proxy\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n")
	if a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("far over the limit: %d", a.status)
	}
	isClosed(t, conn)
	if a := h.post(chat.path, chat.body(`text "hi"`, false)); a.status != 200 {
		t.Errorf("the next request: %d", a.status)
	}
}

func TestAHeadOverTheLimitIsRefused(t *testing.T) { onEveryTransport(t, aHeadOverTheLimitIsRefused) }

func aHeadOverTheLimitIsRefused(t *testing.T, on transportPlan) {
	h := limited(t, on)
	for _, s := range surfaces {
		for _, size := range []int{9 << 10, 70 << 10, 1 << 20} {
			conn := h.dial()
			go func() { // the answer comes before the request has been sent
				_, _ = io.WriteString(conn, h.raw(s, s.body("", false), "X-Long: "+strings.Repeat("x", size)))
			}()
			response, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil && size > 64<<10 {
				continue // the connection was closed on a client that was still sending
			}
			ok(t, err)
			a := read(response)
			if a.status != http.StatusRequestHeaderFieldsTooLarge || size < 64<<10 && errorMessage(a.body) == "" {
				t.Errorf("%s, %d bytes: %d %s", s.name, size, a.status, a.body)
			}
		}
	}
}

func TestTheErrorOfAMalformedBodyHasAPosition(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		for _, test := range []struct{ body, says string }{
			{`{"model": "gpt-4.1", "messages": [}`, "34"},
			{`{"model" "gpt-4.1"}`, "9"},
			{``, ""},
			{`nonsense`, ""},
			{`{"model":"gpt-4.1"} trailing`, "20"},
			{`{"model":"` + "\xff\xfe" + `"}`, ""},
			{strings.Repeat(`[`, 100000), ""},
			{`{"a":` + strings.Repeat(`{"a":`, 100000), ""},
		} {
			a := h.post(s.path, test.body)
			_, message := errorOf(t, s, a)
			if a.status != http.StatusBadRequest && a.status != http.StatusNotFound || !strings.Contains(message, test.says) {
				t.Errorf("%s %.40q: %d %q", s.name, test.body, a.status, message)
			}
		}
	}
	if n := len(h.provider.Requests()); n != 0 {
		t.Errorf("%d requests reached the provider", n)
	}
}

func TestOnlyJSONIsRead(t *testing.T) {
	h := build(t)
	for _, s := range surfaces {
		body := s.body(`text "hi"`, false)
		for contentType, want := range map[string]int{
			"application/json":                  200,
			"application/json; charset=utf-8":   200,
			"Application/JSON":                  200,
			"application/vnd.x+json":            200,
			"":                                  200,
			"text/plain":                        415,
			"multipart/form-data; boundary=x":   415,
			"application/x-www-form-urlencoded": 415,
		} {
			a := h.post(s.path, body, "Content-Type", contentType)
			if a.status != want {
				t.Errorf("%s: %q is answered with %d %s", s.name, contentType, a.status, a.body)
			}
			if want == 415 {
				errorOf(t, s, a)
			}
		}
	}
}

func gzipped(text string) string {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}

func zstded(text string) string {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	defer func() { _ = w.Close() }()
	return string(w.EncodeAll([]byte(text), nil))
}

// zstdStream is a frame that does not say how much it holds.
func zstdStream(text string) string {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out)
	if err != nil {
		panic(err)
	}
	for part := range strings.SplitSeq(text, "") {
		_, _ = io.WriteString(w, part)
	}
	_ = w.Close()
	return out.String()
}

func deflated(text string) string {
	var out strings.Builder
	w := zlib.NewWriter(&out)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return out.String()
}

// The bombs are 64 MiB of zeros, far more than any test here allows. Packing them takes long.
var (
	gzipBomb = sync.OnceValue(func() string { return gzipped(strings.Repeat("\x00", 64<<20)) })
	zstdBomb = sync.OnceValue(func() string { return zstded(strings.Repeat("\x00", 64<<20)) })
)

func TestCompressedBodiesAreUnpackedWithinTheLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("large bodies, one after the other")
	}
	h := limited(t)
	plain := messages.body(`text "hi"`, false)
	for _, test := range []struct {
		name, encoding, body string
		want                 int
	}{
		{"gzip", "gzip", gzipped(plain), 200},
		{"gzip in two members", "GZIP", gzipped(plain[:20]) + gzipped(plain[20:]), 200},
		{"gzip by its former name", "x-gzip", gzipped(plain), 200},
		{"deflate", "deflate", deflated(plain), 200},
		{"deflate over the limit", "deflate", deflated(messages.padded(256<<10 + 1)), 413},
		{"deflate cut short", "deflate", deflated(plain)[:40], 400},
		{"no deflate", "deflate", plain, 400},
		{"zstd", "zstd", zstded(plain), 200},
		{"zstd of unknown size", "zstd", zstdStream(plain), 200},
		{"identity", "identity", plain, 200},
		{"gzip of the very limit", "gzip", gzipped(messages.padded(256 << 10)), 200},
		{"gzip over the limit", "gzip", gzipped(messages.padded(256<<10 + 1)), 413},
		{"zstd over the limit", "zstd", zstded(messages.padded(256<<10 + 1)), 413},
		{"a gzip bomb", "gzip", gzipBomb(), 413},
		{"a zstd bomb", "zstd", zstdBomb(), 413},
		{"gzip cut short", "gzip", gzipped(plain)[:40], 400},
		{"zstd cut short", "zstd", zstded(plain)[:20], 400},
		{"no gzip", "gzip", plain, 400},
		{"no zstd", "zstd", plain, 400},
		{"brotli", "br", plain, 415},
		{"two encodings", "gzip, zstd", plain, 415},
	} {
		a := h.post(messages.path, test.body, "Content-Encoding", test.encoding)
		if a.status != test.want {
			t.Errorf("%s: %d %s", test.name, a.status, a.body)
			continue
		}
		if a.status != 200 {
			errorOf(t, messages, a)
			continue
		}
		if up := h.upstream(); len(up.Body) < 2000 && (string(up.Body) != plain || up.Header.Get("Content-Encoding") != "") {
			t.Errorf("%s: upstream came %q, %q", test.name, up.Header.Get("Content-Encoding"), up.Body)
		}
		if x := h.record(a.exchange()); len(x.RawRequest) < 2000 && string(x.RawRequest) != plain {
			t.Errorf("%s: on record is %q", test.name, x.RawRequest)
		}
	}
}

func TestBodiesShareABudget(t *testing.T) { onEveryTransport(t, bodiesShareABudget) }

func bodiesShareABudget(t *testing.T, on transportPlan) {
	h := limited(t, on)
	var answers []<-chan error
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	for number := range int64(2) { // one after another: a body that grows takes more for a moment
		body := with(chat.body(`delay header=1h`, false), `"padding":"`+strings.Repeat("x", 250<<10)+`"`)
		done := make(chan error, 1)
		request := h.request(ctx, http.MethodPost, chat.path, body, "Authorization", "Bearer "+h.key)
		go func() {
			response, err := h.client.Do(request)
			if err == nil {
				_ = response.Body.Close()
			}
			done <- err
		}()
		answers = append(answers, done)
		h.await(number + 1)
	}
	for _, s := range surfaces {
		a := h.post(s.path, s.padded(200<<10))
		if _, message := errorOf(t, s, a); a.status != http.StatusServiceUnavailable && a.status != 529 || a.header.Get("Retry-After") != "1" || message == "" {
			t.Errorf("%s: %d %v %s", s.name, a.status, a.header, a.body)
		}
		if a := h.post(s.path, s.body(`text "hi"`, false)); a.status != 200 {
			t.Errorf("%s: a small request: %d %s", s.name, a.status, a.body)
		}
	}
	leave()
	for _, done := range answers {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a request that was left ended with %v", err)
		}
	}
	eventually(t, func() error {
		if a := h.post(chat.path, chat.padded(200<<10)); a.status != 200 {
			return fmt.Errorf("with the room free again: %d %s", a.status, a.body)
		}
		return nil
	})
}

// Some clients are slow on purpose. Each byte they send would start a read time-out again.
func TestARequestThatArrivesTooSlowlyIsCutOff(t *testing.T) {
	onEveryTransport(t, aRequestThatArrivesTooSlowlyIsCutOff)
}

func aRequestThatArrivesTooSlowlyIsCutOff(t *testing.T, on transportPlan) {
	h := build(t, on, func(p *plan) { p.server.ReadTimeout = 300 * time.Millisecond })
	request := h.raw(chat, chat.body(`text "hi"`, false))
	for name, before := range map[string]string{"the first request": "", "a later request": request} {
		conn := h.dialPatiently(before)
		stop := make(chan struct{})
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for i := range len(request) - 1 {
				if _, err := conn.Write([]byte{request[i]}); err != nil {
					return
				}
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		}()
		answer, _ := io.ReadAll(io.LimitReader(conn, 1<<10))
		close(stop)
		<-dripped
		if len(answer) > 0 && !strings.HasPrefix(string(answer), "HTTP/1.1 408 ") {
			t.Errorf("%s was answered with %s", name, answer)
		}
	}
	silent := h.dialPatiently("")
	isClosed(t, silent)
}

// dialPatiently opens a connection and has a request, if there is one, answered on it. It tries again where the machine
// is so slow that the time for that is over before it is sent.
func (h *harness) dialPatiently(request string) (conn net.Conn) {
	h.t.Helper()
	eventually(h.t, func() (err error) {
		if conn, err = h.attemptDial(); err != nil || request == "" {
			return err
		}
		a, err := askOn(conn, request)
		if err == nil && a.status != 200 {
			err = fmt.Errorf("%d %s", a.status, a.body)
		}
		return err
	})
	return conn
}

// What a client sends behind the request that is being handled must not pile up in memory.
func TestAFloodAfterARequestEndsTheConnection(t *testing.T) {
	onEveryTransport(t, aFloodAfterARequestEndsTheConnection)
}

func aFloodAfterARequestEndsTheConnection(t *testing.T, on transportPlan) {
	h := build(t, on)
	conn := h.dial()
	_, err := io.WriteString(conn, h.raw(chat, chat.body(`delay header=1h`, true)))
	ok(t, err)
	up := h.await(1)
	flood := bytes.Repeat([]byte("x"), 64<<10)
	sent := 0
	for err == nil {
		var n int
		n, err = conn.Write(flood)
		sent += n
	}
	t.Logf("%v: %d", err, sent)
	closed(t, "the end of the provider's answer", up.Done())
	if x := h.newest("acme"); x.Outcome != record.OutcomeClientClosed {
		t.Errorf("on record as %v", x.Outcome)
	}
	t.Logf("the connection was closed after %d MiB", sent>>20)
}

// A reader that takes nothing holds up its provider and nothing else.
func TestASlowReaderSlowsItsProviderAndNothingIsBuffered(t *testing.T) {
	onEveryTransport(t, aSlowReaderSlowsItsProviderAndNothingIsBuffered)
}

func aSlowReaderSlowsItsProviderAndNothingIsBuffered(t *testing.T, on transportPlan) {
	stalled := make(chan int, 1)
	up := newUpstream(t, func(c *upstreamCall) {
		if c.request.URL.Path != chat.path {
			c.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
			return
		}
		c.chunked()
		sent := 0
		event := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + strings.Repeat("x", 1000) + "\"}}]}\n\n"
		for {
			_ = c.SetWriteDeadline(time.Now().Add(300 * time.Millisecond))
			if _, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(event), event); err != nil {
				break
			}
			sent += len(event)
		}
		stalled <- sent
		<-c.gone
	})
	h := build(t, on, up.serves, func(p *plan) {
		p.server.Heartbeat = 20 * time.Millisecond
		p.server.DrainTimeout = 50 * time.Millisecond
	})
	conn := h.dial()
	_, err := io.WriteString(conn, h.raw(chat, chat.body("", true)))
	ok(t, err)
	select {
	case sent := <-stalled:
		if most := 64 << 20; sent > most {
			t.Errorf("%d bytes went into the proxy before the provider had to wait", sent)
		}
		t.Logf("the provider had to wait after %d KiB", sent>>10)
	case <-time.After(timeout):
		t.Fatal("the provider never had to wait")
	}
	if a := h.post(embeddings.path, embeddings.body("", false)); a.status >= 500 {
		t.Errorf("meanwhile another request: %d %s", a.status, a.body)
	}
	// The drain cuts even a client that takes not so much as its error.
	if err := <-h.beginDrain(); !errors.Is(err, server.ErrAborted) {
		t.Errorf("the server ended with %v", err)
	}
}
