package provider_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// timeout is how long a test waits for what must happen; it never passes when all is well.
const timeout = time.Minute

// An endpoint is where a format is spoken, and a request body with a prompt.
type endpoint struct {
	name string
	path func(stream bool) string
	body func(prompt string, stream bool) string
}

var endpoints = []endpoint{
	{"chat", fixed("/v1/chat/completions"), func(prompt string, stream bool) string {
		return fmt.Sprintf(`{"model":"gpt-4.1","stream":%t,"messages":[{"role":"user","content":%s}]}`, stream, quoted(prompt))
	}},
	{"responses", fixed("/v1/responses"), func(prompt string, stream bool) string {
		return fmt.Sprintf(`{"model":"gpt-5.5","stream":%t,"input":%s}`, stream, quoted(prompt))
	}},
	{"messages", fixed("/v1/messages"), func(prompt string, stream bool) string {
		return fmt.Sprintf(`{"model":"claude-opus-5","max_tokens":100,"stream":%t,"messages":[{"role":"user","content":%s}]}`, stream, quoted(prompt))
	}},
	{"gemini", func(stream bool) string {
		if stream {
			return "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
		}
		return "/v1beta/models/gemini-3.8-flash:generateContent"
	}, func(prompt string, _ bool) string {
		return fmt.Sprintf(`{"contents":[{"role":"user","parts":[{"text":%s}]}]}`, quoted(prompt))
	}},
}

func fixed(path string) func(bool) string { return func(bool) string { return path } }

// client follows no redirects, decodes nothing and keeps no connections.
var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func request(ctx context.Context, t *testing.T, url, body string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer sk-test")
	r.Header.Set("Anthropic-Version", "2023-06-01")
	r.Header.Set("X-Goog-Api-Key", "test")
	return r
}

// ask plays a script and gives the answer, with the error that ended its body.
func ask(t *testing.T, s *provider.Server, e endpoint, script string, stream bool) (*http.Response, string, error) {
	t.Helper()
	return send(t, s.URL()+e.path(stream), e.body("[[sim: "+script+" ]]", stream))
}

func send(t *testing.T, url, body string) (*http.Response, string, error) {
	t.Helper()
	resp, err := client.Do(request(context.Background(), t, url, body))
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	answer, err := readAll(resp)
	return resp, answer, err
}

func readAll(resp *http.Response) (string, error) {
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func get(t *testing.T, url, header, value string) (*http.Response, string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(header, value)
	resp, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	body, err := readAll(resp)
	return resp, body, err
}

// frames counts the whole events of a stream.
func frames(body string) int {
	return strings.Count(strings.ReplaceAll(body, "\r\n", "\n"), "\n\n")
}

func TestErrorsBeforeTheAnswerHaveTheShapeOfTheirFormat(t *testing.T) {
	tests := []struct {
		script string
		status map[string]int
		holds  map[string]string
	}{
		{
			script: `error rate-limit retry-after=2`,
			status: map[string]int{"chat": 429, "responses": 429, "messages": 429, "gemini": 429},
			holds: map[string]string{
				"chat": `"code":"rate_limit_exceeded"`, "responses": `"param":null`,
				"messages": `{"type":"error","error":{"type":"rate_limit_error"`, "gemini": `"retryDelay":"2s"`,
			},
		},
		{
			script: `error overloaded message="busy"`,
			status: map[string]int{"chat": 503, "responses": 503, "messages": 529, "gemini": 503},
			holds: map[string]string{
				"chat": `"code":"server_is_overloaded"`, "responses": `"message":"busy"`,
				"messages": `"type":"overloaded_error","message":"busy"`, "gemini": `"status":"UNAVAILABLE"`,
			},
		},
		{
			script: `error billing`,
			status: map[string]int{"chat": 429, "responses": 429, "messages": 402, "gemini": 429},
			holds: map[string]string{
				"chat": `"type":"insufficient_quota"`, "responses": `"code":"insufficient_quota"`,
				"messages": `"billing_error"`, "gemini": `RESOURCE_EXHAUSTED`,
			},
		},
		{
			script: `error 418 code=teapot`,
			status: map[string]int{"chat": 418, "responses": 418, "messages": 418, "gemini": 418},
			holds: map[string]string{
				"chat": `"code":"teapot"`, "responses": `"code":"teapot"`, "messages": `invalid_request_error`, "gemini": `"code":418`,
			},
		},
		{
			script: `events 1000000 ; size 1000`,
			status: map[string]int{"chat": 400, "responses": 400, "messages": 400, "gemini": 400},
			holds: map[string]string{
				"chat": `more than 67108864 bytes of text`, "responses": `bytes of text`, "messages": `bytes of text`, "gemini": `bytes of text`,
			},
		},
		{
			script: `text "never closed`,
			status: map[string]int{"chat": 400, "responses": 400, "messages": 400, "gemini": 400},
			holds: map[string]string{
				"chat": `is not closed`, "responses": `is not closed`, "messages": `is not closed`, "gemini": `is not closed`,
			},
		},
	}
	s := start(t, provider.Options{Strict: true})
	for _, test := range tests {
		for _, e := range endpoints {
			for _, stream := range []bool{false, true} {
				resp, body, err := ask(t, s, e, test.script, stream)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode != test.status[e.name] || !strings.Contains(body, test.holds[e.name]) {
					t.Errorf("%s over %s: %d %s\nwant %d with %s", test.script, e.name, resp.StatusCode, body, test.status[e.name], test.holds[e.name])
				}
				if got := resp.Header.Get(provider.MarkHeader); got != "mneme" {
					t.Errorf("%s over %s has the mark %q", test.script, e.name, got)
				}
				retry := resp.Header.Get("Retry-After")
				if strings.Contains(test.script, "retry-after") && retry != "2" && e.name != "gemini" { // there it is in the body
					t.Errorf("%s over %s has Retry-After %q", test.script, e.name, retry)
				}
			}
		}
	}
}

func TestErrorThatPassesAnswersTheNextAttempt(t *testing.T) {
	s := start(t, provider.Options{})
	for attempt, want := range []int{500, 500, 200, 200} {
		resp, _, err := ask(t, s, endpoints[0], `error server times=2 ; text "ok"`, false)
		if err != nil || resp.StatusCode != want {
			t.Errorf("attempt %d: %v, %v; want %d", attempt, resp.StatusCode, err, want)
		}
	}
}

func TestErrorInsideAStreamReachesTheSDK(t *testing.T) {
	s := start(t, provider.Options{})
	for _, sp := range speakers {
		for _, script := range []string{
			`text "some text that was sent" ; error-inside overloaded message="went away"`,
			`events 50 ; error-inside overloaded after=5 message="went away"`,
		} {
			_, err := sp.streamed(context.Background(), s.URL(), "[[sim: "+script+" ]]")
			if err == nil || !strings.Contains(err.Error(), "went away") {
				t.Errorf("%s: %s: the SDK says %v", sp.name, script, err)
			}
		}
	}
	_, body, _ := ask(t, s, endpoints[1], `text "t" ; error-inside form=event`, true)
	if !strings.Contains(body, `event: error`) || strings.Contains(body, "response.failed") {
		t.Errorf("form=event gives\n%s", body)
	}
}

func TestCutsEndAStreamWhereTheScriptSays(t *testing.T) {
	s := start(t, provider.Options{})
	for _, e := range endpoints {
		for how, want := range map[string]error{"abort": io.ErrUnexpectedEOF, "clean": nil, "mid": io.ErrUnexpectedEOF, "reset": syscall.ECONNRESET} {
			t.Run(e.name+"/"+how, func(t *testing.T) {
				_, body, err := ask(t, s, e, `events 20 ; cut after=4 how=`+how, true)
				if !errors.Is(err, want) {
					t.Errorf("the body ends with %v, want %v", err, want)
				}
				if got := frames(body); got != 4 && how != "reset" { // a reset may overtake what was sent
					if e.name != "messages" || got != 5 { // and one ping, which is no event of the script
						t.Errorf("%d whole events arrived:\n%s", got, body)
					}
				}
				whole := strings.HasSuffix(body, "\n\n") || strings.HasSuffix(body, "\r\n\r\n")
				if whole == (how == "mid") && how != "reset" {
					t.Errorf("the body ends with %q", body[max(0, len(body)-60):])
				}
				_, body, err = ask(t, s, e, `text "all of it" ; cut how=`+how, true)
				if !errors.Is(err, want) {
					t.Errorf("before the end: the body ends with %v, want %v", err, want)
				}
				for _, terminal := range []string{"[DONE]", "message_stop", "response.completed", "finishReason"} {
					if strings.Contains(strings.ReplaceAll(body, `"finish_reason":null`, ""), terminal) {
						t.Errorf("the cut stream holds %s", terminal)
					}
				}
				if _, _, err = ask(t, s, e, `text "all of it" ; cut how=`+how, false); how != "clean" && err == nil {
					t.Error("the complete answer is whole")
				}
			})
		}
	}
}

func TestAnswersThatAreNoAnswer(t *testing.T) {
	s := start(t, provider.Options{})
	for _, e := range endpoints {
		if _, _, err := ask(t, s, e, `reset`, true); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: reset gives %v", e.name, err)
		}
		resp, body, err := ask(t, s, e, `html 502`, true)
		if err != nil || resp.StatusCode != http.StatusBadGateway || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") || !strings.Contains(body, "<html>") {
			t.Errorf("%s: html gives %v %s", e.name, err, body)
		}
		resp, body, err = ask(t, s, e, `garbage`, true)
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, "\xff") {
			t.Errorf("%s: garbage gives %v %q", e.name, err, body)
		}
		resp, _, err = ask(t, s, e, `redirect 302 "https://example.org/"`, true)
		if err != nil || resp.StatusCode != http.StatusFound || resp.Header.Get("Location") != "https://example.org/" {
			t.Errorf("%s: redirect gives %v %v", e.name, err, resp)
		}
		resp, body, err = ask(t, s, e, `body 422 "{\"detail\":[]}"`, true)
		if err != nil || resp.StatusCode != http.StatusUnprocessableEntity || body != `{"detail":[]}` {
			t.Errorf("%s: body gives %v %s", e.name, err, body)
		}
		resp, _, err = ask(t, s, e, `text "x" ; content-type "text/plain" ; header X-Odd "1"`, true)
		if err != nil || resp.Header.Get("Content-Type") != "text/plain" || resp.Header.Get("X-Odd") != "1" {
			t.Errorf("%s: content-type gives %v %v", e.name, err, resp.Header)
		}
	}
}

func TestQueuedRequestsAreKeptAlive(t *testing.T) {
	s := start(t, provider.Options{})
	for name, ping := range map[string]string{"chat": ": keep-alive\n\n", "responses": "event: keepalive\n", "messages": "event: ping\n", "gemini": "data: {"} {
		for _, e := range endpoints {
			if e.name != name {
				continue
			}
			_, body, err := ask(t, s, e, `queue 3 1ms ; text "at last"`, true)
			if err != nil || !strings.HasPrefix(body, ping) || name != "gemini" && strings.Count(body, ping) < 3 {
				t.Errorf("%s: %v\n%s", name, err, body)
			}
			_, body, err = ask(t, s, e, `queue 3 1ms ; text "at last"`, false)
			if err != nil || !strings.HasPrefix(body, "\n\n\n{") {
				t.Errorf("%s: %v\n%s", name, err, body)
			}
		}
	}
}

func TestCompressedAnswersHoldTheSameBytes(t *testing.T) {
	s := start(t, provider.Options{})
	for _, e := range endpoints {
		for _, stream := range []bool{false, true} {
			_, plain, err := send(t, s.URL()+e.path(stream), e.body("[[sim: events 30 ]] ", stream))
			if err != nil {
				t.Fatal(err)
			}
			resp, packed, err := send(t, s.URL()+e.path(stream), e.body("[[sim: gzip ; events 30 ]]", stream))
			if err != nil || resp.Header.Get("Content-Encoding") != "gzip" {
				t.Fatal(err, resp.Header)
			}
			unpack, err := gzip.NewReader(strings.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			unpacked, err := io.ReadAll(unpack)
			if err != nil || len(plain) < 500 || strings.Count(string(unpacked), "the quic") != strings.Count(plain, "the quic") {
				t.Errorf("%s: %v: %d bytes unpacked, %d plain", e.name, err, len(unpacked), len(plain))
			}
		}
	}
}

func TestEarlyHintsComeBeforeTheAnswer(t *testing.T) {
	s := start(t, provider.Options{})
	hints := 0
	ctx := httptrace.WithClientTrace(context.Background(), &httptrace.ClientTrace{
		Got1xxResponse: func(code int, _ textproto.MIMEHeader) error { hints += code; return nil },
	})
	resp, err := client.Do(request(ctx, t, s.URL()+"/v1/messages", endpoints[2].body("[[sim: early-hints ; text \"x\" ]]", true)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if hints != 103 || resp.StatusCode != http.StatusOK {
		t.Errorf("early answers %d, then %d", hints, resp.StatusCode)
	}
}

func TestBurstIsEventsPerWrite(t *testing.T) {
	s := start(t, provider.Options{})
	for script, want := range map[string]int{
		`events 12 ; burst 5`:              3, // role, 12 deltas, finish, [DONE] are 15 events
		`events 12 ; burst 1`:              15,
		`events 12`:                        1,
		`events 3 ; delay 1ms`:             6,
		`events 3 ; delay 1ms ; burst 3`:   2,
		`events 3 ; delay first=1ms`:       1,
		`events 2 ; one-byte ; omit done `: 0, // counted below
	} {
		chunks, total := countWrites(t, s, script)
		if strings.Contains(script, "one-byte") {
			want = total
		}
		if chunks != want {
			t.Errorf("%s: %d writes, want %d", script, chunks, want)
		}
	}
}

// countWrites plays a script over a raw connection and counts the chunks of the answer and their bytes.
func countWrites(t *testing.T, s *provider.Server, script string) (chunks, total int) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r := request(context.Background(), t, s.URL()+"/v1/chat/completions", endpoints[0].body("[[sim: "+script+" ]]", true))
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	reader := bufio.NewReader(conn)
	for line := ""; line != "\r\n"; {
		if line, err = reader.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return readChunks(t, reader)
}

// readChunks counts the chunks of a body and their bytes.
func readChunks(t *testing.T, r *bufio.Reader) (chunks, total int) {
	t.Helper()
	for {
		var size int
		if _, err := fmt.Fscanf(r, "%x\r\n", &size); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Discard(size + 2); err != nil {
			t.Fatal(err)
		}
		if size == 0 {
			return chunks, total
		}
		chunks++
		total += size
	}
}

func TestClientThatLeavesIsSeenInEveryPhase(t *testing.T) {
	s := start(t, provider.Options{})
	id := int64(0)
	for _, script := range []string{`delay header=1h ; text "x"`, `delay first=1h ; text "x"`, `events 100 ; delay 1h`, `events 200000 ; size 60`} {
		for _, e := range endpoints {
			id++
			ctx, leave := context.WithCancel(context.Background())
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				resp, err := client.Do(request(ctx, t, s.URL()+e.path(true), e.body("[[sim: "+script+" ]]", true)))
				if err == nil {
					defer resp.Body.Close()
					_, _ = resp.Body.Read(make([]byte, 1)) // the rest stays unread
					<-ctx.Done()
				}
			}()
			await, done := context.WithTimeout(context.Background(), timeout)
			rec, err := s.Await(await, id)
			if err != nil {
				t.Fatal(err)
			}
			leave()
			select {
			case <-rec.Done():
			case <-await.Done():
				t.Fatalf("%s over %s: the simulated provider goes on without its client", script, e.name)
			}
			if rec.Outcome() != provider.ClientGone {
				t.Errorf("%s over %s: the outcome is %s", script, e.name, rec.Outcome())
			}
			<-answered
			done()
		}
	}
}

func TestCloseEndsOpenStreams(t *testing.T) {
	s, err := provider.Start(provider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(request(context.Background(), t, s.URL()+"/v1/messages", endpoints[2].body("[[sim: events 9 ; delay 1h ]]", true)))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got := s.Open(); got != 1 {
		t.Errorf("%d streams are open", got)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
	if got := s.Open(); got != 0 {
		t.Errorf("%d streams are open after Close", got)
	}
}

func TestRecordingsHoldWhatArrived(t *testing.T) {
	var seen []provider.Recorded
	s := start(t, provider.Options{Keep: 2, OnRequest: func(r provider.Recorded) { seen = append(seen, r) }})
	for i := range 3 {
		body := endpoints[0].body(fmt.Sprintf("number %d", i), false)
		if _, _, err := send(t, s.URL()+"/v1/chat/completions?x=1", body); err != nil {
			t.Fatal(err)
		}
	}
	kept := s.Requests()
	if len(seen) != 3 || len(kept) != 2 || kept[0].ID != 2 || kept[1].ID != 3 {
		t.Fatalf("%d seen, kept %v", len(seen), kept)
	}
	last := kept[1]
	<-last.Done()
	if last.Method != http.MethodPost || last.Path != "/v1/chat/completions?x=1" || last.Header.Get("Authorization") != "Bearer sk-test" ||
		!bytes.Contains(last.Body, []byte("number 2")) || last.Outcome() != provider.Complete {
		t.Errorf("recorded %+v, outcome %s", last, last.Outcome())
	}
}

func TestSameRequestGetsTheSameBytes(t *testing.T) {
	fixedIDs, freshIDs := start(t, provider.Options{}), start(t, provider.Options{FreshIDs: true})
	for _, e := range endpoints {
		for _, stream := range []bool{false, true} {
			twice := func(s *provider.Server) bool {
				_, first, _ := ask(t, s, e, `reasoning "r" ; text "t" ; call read {}`, stream)
				_, second, _ := ask(t, s, e, `reasoning "r" ; text "t" ; call read {}`, stream)
				return first == second && first != ""
			}
			if !twice(fixedIDs) {
				t.Errorf("%s, stream %t: the same request got other bytes", e.name, stream)
			}
			if twice(freshIDs) {
				t.Errorf("%s, stream %t: ids repeat although fresh ones were asked for", e.name, stream)
			}
		}
	}
}

// A reverse proxy of the standard library stands for every client that reads the answer in its own way.
func TestAnswersPassThroughAProxy(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = "http", strings.TrimPrefix(s.URL(), "http://")
	}, FlushInterval: -1, Transport: client.Transport}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: timeout}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(listener) }()
	for _, e := range endpoints {
		body := e.body(`[[sim: text "a" ; call read {"x":1} ]]`, true)
		_, direct, err := send(t, s.URL()+e.path(true), body)
		if err != nil {
			t.Fatal(err)
		}
		_, proxied, err := send(t, "http://"+listener.Addr().String()+e.path(true), body)
		if err != nil || proxied != direct {
			t.Errorf("%s: %v: the proxy gives other bytes", e.name, err)
		}
	}
	_ = server.Close()
	<-served
}
