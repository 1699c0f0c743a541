package router

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
)

func TestAPathIsPutBelowTheBaseWithOneVersion(t *testing.T) {
	for _, row := range []struct{ base, path, want string }{
		{"https://api.openai.com/v1", "/v1/files", "https://api.openai.com/v1/files"},
		{"https://api.openai.com/v1", "/files/a b", "https://api.openai.com/v1/files/a%20b"},
		{"https://api.anthropic.com", "/v1/files", "https://api.anthropic.com/v1/files"},
		{"https://g.com/v1beta", "/v1beta/files", "https://g.com/v1beta/files"},
		{"https://g.com/v1beta", "/v1alpha/files", "https://g.com/v1alpha/files"},
		{"https://g.com/v1beta", "/upload/v1beta/files", "https://g.com/upload/v1beta/files"},
		{"https://api.groq.com/openai/v1", "/v1/audio/speech", "https://api.groq.com/openai/v1/audio/speech"},
		{"https://api.deepseek.com", "/user/balance", "https://api.deepseek.com/user/balance"},
		{"https://h/v1", "//evil.example/x", "https://h/v1//evil.example/x"},
		{"https://h/v1", "/v1/@evil.example:80/?a#b", "https://h/v1/@evil.example:80/%3Fa%23b"},
	} {
		base, err := url.Parse(row.base)
		if err != nil {
			t.Fatal(err)
		}
		if got := passURL(base, row.path, "").String(); got != row.want {
			t.Errorf("%s below %s is %s, want %s", row.path, row.base, got, row.want)
		}
	}
}

func TestWhatIsPassedOnKeepsTheHeadersOfItsBodyAndNoCredential(t *testing.T) {
	p := newRouter(t, Config{}).Provider("openai")
	h := append(everything(), fields("Range: bytes=0-9", "X-Goog-Upload-Command: start")...)
	got := p.headers.build(&Call{Operation: Pass, Method: http.MethodPost, Format: p.Native(), Header: h}, p.Credential(p.Native(), "server"))
	want := []string{
		"Accept: */*", "Accept-Encoding: identity", "Authorization: Bearer server", "Content-Encoding: zstd", "Content-Type: text/plain", "Idempotency-Key: i1",
		"Openai-Beta: b", "Openai-Organization: org1", "Openai-Project: proj1", "Originator: codex_exec", "Range: bytes=0-9", "Session-Id: s2",
		"User-Agent: claude-cli/2.1.328", "X-Client-Request-Id: c1", "X-Codex-Turn-State: t", "X-Goog-Upload-Command: start", "X-Stainless-Lang: js",
	}
	if diff := cmp.Diff(want, lines(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestABodyIsPassedOnAsItArrives(t *testing.T) {
	for name, size := range map[string]int64{"announced": 1 << 20, "in chunks": -1} {
		t.Run(name, func(t *testing.T) {
			began := make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.ReadFull(r.Body, make([]byte, 10)); err != nil {
					t.Error(err)
				}
				close(began) // while the rest is not even written
				rest, err := io.Copy(io.Discard, r.Body)
				if rest != 1<<20-10 || err != nil || r.ContentLength != size || r.Method != http.MethodPut || r.RequestURI != "/v1/files/x?a=b" {
					t.Errorf("%d, %v, %d, %s %s", rest, err, r.ContentLength, r.Method, r.RequestURI)
				}
				w.Header().Set("Content-Type", "image/png")
				_, _ = io.WriteString(w, "\x00png")
			}))
			defer s.Close()
			p := newRouter(t, compatible(s.URL+"/v1")).Provider("host")
			reads, writes := io.Pipe()
			go func() {
				_, _ = writes.Write(bytes.Repeat([]byte("a"), 32<<10))
				<-began
				_, _ = writes.Write(bytes.Repeat([]byte("a"), 1<<20-32<<10))
				_ = writes.Close()
			}()
			reply, fault := p.Do(t.Context(), &Call{Operation: Pass, Method: http.MethodPut, Path: "/v1/files/x", Query: "a=b", Format: p.Native(), Upload: reads, Size: size})
			if fault != nil {
				t.Fatal(fault)
			}
			if text, err := readAll(reply); text != "\x00png" || err != nil {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// A body that has gone once cannot go again.
func TestABodyThatIsPassedOnIsSentOnce(t *testing.T) {
	asked := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	c := compatible(s.URL + "/v1")
	host := c.Providers["host"]
	host.APIKey, host.APIKeys = "", []APIKey{{Key: "one"}, {Key: "two"}}
	c.Providers["host"] = host
	p := newRouter(t, c).Provider("host")
	reply, fault := p.Do(t.Context(), &Call{Operation: Pass, Method: http.MethodPost, Path: "/files", Format: p.Native(), Upload: strings.NewReader("abc"), Size: 3})
	if fault != nil || reply.Status != http.StatusServiceUnavailable || asked != 1 {
		t.Errorf("%v, asked %d times", fault, asked)
	}
	_ = reply.Body.Close()
}

func TestACloudIsNotAskedForOtherPaths(t *testing.T) {
	p := newRouter(t, Config{Providers: map[string]ProviderConfig{"bedrock": {Region: "us-east-1"}}}).Provider("bedrock")
	if p.PassesPaths() {
		t.Error("bedrock passes paths")
	}
	if _, fault := p.Do(t.Context(), &Call{Operation: Pass, Method: http.MethodGet, Path: "/v1/files", Format: p.Native()}); fault == nil || fault.Kind != codec.KindUnsupported {
		t.Errorf("%v", fault)
	}
}
