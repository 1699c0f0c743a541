package crossing_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/router"
)

func init() { crossing.Register(toyDefinition()) }

// A new format is a folder and a row of the table. The toy one takes under 200 lines, and crosses with all others, both
// ways, in streams, in complete answers and in errors, without a line about it anywhere else.
func TestANewFormatIsAFolder(t *testing.T) {
	if source, err := os.ReadFile("toyformat_test.go"); err != nil || bytes.Count(source, []byte("\n")) >= 200 {
		t.Errorf("the toy format is not under 200 lines any more: %v", err)
	}
	sim, err := provider.Start(provider.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sim.Close() })
	for _, model := range []string{gpt4, gpt, claude, gemini} {
		_, format := targetOf(model)
		t.Run("its clients reach "+format.String(), func(t *testing.T) { toyClientReaches(t, sim.URL(), model, format) })
	}
	for _, surface := range surfaces {
		t.Run("clients of "+surface.String()+" reach it", func(t *testing.T) { reachesToyProvider(t, surface) })
	}
	t.Run("it passes through and is noted", toyPassesThrough)
	t.Run("its providers are called where and as its traits say", toyIsCalled)
}

func toyClientReaches(t *testing.T, url, model string, format codec.Format) {
	const say = `"rules":"Be kind.","hats":3,"say":[{"who":"me","text":"Hi \"you\""},{"who":"you","text":"Hi."},{"who":"me","text":"[[sim: text \"Good \\\"day\\\".\" ; usage input=7 output=3 ]]"}]}`
	x, sent, err := prepare(toy, model, `{"to":"`+model+`","live":true,`+say, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	if got := x.Notes(); got != "toy->"+format.String()+"; dropped=hats" {
		t.Errorf("notes are %s", got)
	}
	stream := x.Stream()
	var heard []byte
	for _, frame := range ask(t, url, format, model, sent) {
		heard, _ = stream.Frame(heard, &sse.Frame{Data: []byte(frame)})
	}
	if heard, complete := stream.End(heard, codec.EndEOF, nil); !complete || spoken(string(heard)) != `Good \"day\".` || !bytes.HasSuffix(heard, []byte(`"cost":[7,3]}`+"\n\n")) {
		t.Errorf("complete: %v, the client hears\n%s", complete, heard)
	}

	whole, sent, err := prepare(toy, model, `{"to":"`+model+`",`+say, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Release()
	_, body := post(t, url, format, model, sent)
	if got, _, err := whole.Answer(nil, body); err != nil || string(got) != `{"by":"`+model+`","text":"Good \"day\".","why":"done","cost":[7,3]}` {
		t.Errorf("the complete answer is %s, %v", got, err)
	}

	status, body := post(t, url, format, model, strings.Replace(sent, "[[sim: text", "[[sim: txet", 1))
	if got := crossing.ClientCodec(toy).AppendError(nil, whole.Error(status, 0, body), nil); status != 400 || !bytes.HasPrefix(got, []byte(`{"wrong":"`)) || !bytes.Contains(got, []byte("txet")) {
		t.Errorf("an error of status %d reads %s", status, got)
	}
	if _, _, err := prepare(toy, model, `{"to":"m","say":[{"who":"he","text":"x"}]}`, nil); err == nil || !strings.Contains(err.Error(), "(say[0].who)") {
		t.Errorf("a wrong request is told as %v", err)
	}
}

// post has the simulated provider give a complete answer.
func post(t *testing.T, url string, format codec.Format, model, body string) (int, []byte) {
	t.Helper()
	path := strings.NewReplacer("MODEL", model, ":streamGenerateContent?alt=sse", ":generateContent").Replace(generatePaths[format])
	response, err := http.Post(url+path, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, answer
}

// spoken joins what a toy stream says.
func spoken(stream string) (text string) {
	for _, piece := range strings.Split(stream, `{"more":"`)[1:] {
		said, _, _ := strings.Cut(piece, "\"}\n")
		text += said
	}
	return text
}

var greetings = map[codec.Format]string{
	codec.Chat:      `{"model":"toy-1","stream":true,"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Hi"}]}`,
	codec.Responses: `{"model":"toy-1","stream":true,"instructions":"Be kind.","input":"Hi"}`,
	codec.Messages:  `{"model":"toy-1","stream":true,"max_tokens":9,"system":"Be kind.","messages":[{"role":"user","content":"Hi"}]}`,
	codec.Gemini:    `{"systemInstruction":{"parts":[{"text":"Be kind."}]},"contents":[{"role":"user","parts":[{"text":"Hi"}]}]}`,
}

func reachesToyProvider(t *testing.T, surface codec.Format) {
	settings := &crossing.Settings{Target: codec.Target{Provider: "toys", Model: "toy-1"}, Stream: true, Answer: codec.AnswerOptions{ID: "01", Model: "toy-1"}}
	x, sent, err := crossing.Prepare(nil, surface, toy, []byte(greetings[surface]), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer x.Release()
	if want := `{"to":"toy-1","live":true,"rules":"Be kind.","say":[{"who":"me","text":"Hi"}]}`; string(sent) != want {
		t.Errorf("the provider reads %s, want %s", sent, want)
	}
	stream := x.Stream()
	var heard []byte
	for _, frame := range []string{`{"by":"toy-1"}`, `{"more":"Good "}`, `{"more":"\"day\"."}`, `{"why":"done","cost":[7,3]}`} {
		heard, _ = stream.Frame(heard, &sse.Frame{Data: []byte(frame)})
	}
	heard, complete := stream.End(heard, codec.EndEOF, nil)
	if !complete || !bytes.Contains(heard, []byte(`"Good "`)) || !bytes.Contains(heard, []byte(`"\"day\"."`)) {
		t.Errorf("complete: %v, the client hears\n%s", complete, heard)
	}
	whole, _, err := crossing.Prepare(nil, surface, toy, []byte(greetings[surface]), settings)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Release()
	if got, seen, err := whole.Answer(nil, []byte(`{"by":"toy-1","text":"Good day.","why":"done","cost":[7,3]}`)); err != nil || !bytes.Contains(got, []byte(`"Good day."`)) || seen.Usage.Output != 3 {
		t.Errorf("the complete answer is %s, %v, usage %+v", got, err, seen.Usage)
	}
	e := whole.Error(429, 0, []byte(`{"wrong":"Too much talk."}`))
	if got := crossing.ClientCodec(surface).AppendError(nil, e, &codec.AnswerOptions{}); e.Status != 429 || !bytes.Contains(got, []byte("Too much talk.")) {
		t.Errorf("the error reads %s", got)
	}
}

func toyPassesThrough(t *testing.T) {
	o := crossing.NewObserver(toy, crossing.Memory{})
	defer o.Release()
	for _, data := range []string{`{"by":"toy-1"}`, `{"more":"Hi"}`, `{"why":"done","cost":[7,3]}`} {
		o.Frame(&sse.Frame{Raw: []byte("data: " + data + "\n\n"), Data: []byte(data)})
	}
	if !o.End(codec.EndEOF, nil) || o.Seen.Model != "toy-1" || o.Seen.Usage.Output != 3 {
		t.Errorf("the record has %+v", o.Seen)
	}
}

func toyIsCalled(t *testing.T) {
	var path, version string
	host := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		path, version = r.URL.Path, r.Header.Get("Toy-Version")
	}))
	defer host.Close()
	format, err := codec.ParseFormat("toy")
	if err != nil {
		t.Fatal(err)
	}
	r, err := router.New(router.Config{
		Providers: map[string]router.ProviderConfig{"toys": {BaseURL: host.URL, APIKey: "k", Formats: []codec.Format{format}}},
		Routes:    []router.RouteRule{{Prefix: "toy-", Provider: "toys"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	place, refused := r.Place("toy-1")
	if refused != nil {
		t.Fatal(refused)
	}
	if got := place.Provider.FormatFor(codec.Messages, "toy-1"); got != toy {
		t.Errorf("clients of Messages cross to %s", got)
	}
	reply, fault := place.Provider.Do(context.Background(), &router.Call{Format: toy, Model: "toy-1", Body: []byte(`{}`)})
	if fault != nil {
		t.Fatal(fault)
	}
	_ = reply.Body.Close()
	if path != "/talk" || version != "1" {
		t.Errorf("called at %s with version %q", path, version)
	}
}
