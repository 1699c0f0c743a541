package provider

import (
	"bytes"
	"context"
	"math"
	"net/http"
	"strings"
	"testing"
)

// discard is a response writer that takes everything.
type discard struct {
	header http.Header
	writes int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Write(b []byte) (int, error) { d.writes++; return len(b), nil }
func (d *discard) Flush()                      {}

var burstFormats = map[string]struct {
	format  format
	members string
}{
	"chat":      {chatFormat{}, `{"stream_options":{"include_usage":true}}`},
	"responses": {responsesFormat{stored: newStoredAnswers()}, `{"store":false}`},
	"messages":  {messagesFormat{}, `{}`},
	"gemini":    {geminiFormat{}, `{}`},
}

// burst plays a stream of made-up events into nothing and gives the number of events.
func burst(f format, a *answer, p *prompt, buffer []byte) (events int, grown []byte) {
	s := newStream(context.Background(), &discard{header: http.Header{}}, &a.delivery, "text/event-stream", buffer)
	f.stream(s, a, p)
	_ = s.close()
	return s.events, s.buf
}

func burstAnswer(tb testing.TB, members string, events string) (*answer, *prompt) {
	tb.Helper()
	o, _ := parseObject([]byte(members))
	p := &prompt{model: "gpt-5.5", members: o, text: "[[sim: events " + events + " ; size 12 ]]"}
	chosen, err := p.choose("")
	if err != nil {
		tb.Fatal(err)
	}
	a, err := build(chosen, p, strings.Repeat("0", 24), 0)
	if err != nil {
		tb.Fatal(err)
	}
	return a, p
}

func BenchmarkBurst(b *testing.B) {
	for name, f := range burstFormats {
		b.Run(name, func(b *testing.B) {
			a, p := burstAnswer(b, f.members, "1000")
			b.ReportAllocs()
			var buffer []byte
			total := 0
			for b.Loop() {
				var events int
				events, buffer = burst(f.format, a, p, buffer)
				total += events
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(total), "ns/event")
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkServe measures whole exchanges over a loopback connection, client included.
func BenchmarkServe(b *testing.B) {
	s, err := Start(Options{Keep: -1})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	for _, events := range []string{"1", "200", "10000"} {
		b.Run(events+" events", func(b *testing.B) {
			body := `{"model":"gpt-4.1","stream":true,"messages":[{"role":"user","content":"[[sim: events ` + events + ` ; size 12 ]]"}]}`
			buffer := make([]byte, 64<<10)
			b.ReportAllocs()
			total := 0
			for b.Loop() {
				resp, err := client.Post(s.URL()+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				for {
					n, err := resp.Body.Read(buffer)
					total += bytes.Count(buffer[:n], []byte("\n\n"))
					if err != nil {
						break
					}
				}
				resp.Body.Close()
			}
			b.ReportMetric(float64(total)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func TestDeltasAllocateNothing(t *testing.T) {
	for name, f := range burstFormats {
		few, p := burstAnswer(t, f.members, "10")
		many, q := burstAnswer(t, f.members, "1000")
		buffer := make([]byte, 0, 64<<10)
		play := func(a *answer, p *prompt) float64 { // the least of several: what else runs in the process is counted, too
			least := math.Inf(1)
			for range 5 {
				least = min(least, testing.AllocsPerRun(20, func() { _, buffer = burst(f.format, a, p, buffer) }))
			}
			return least
		}
		if base, more := play(few, p), play(many, q); more > base+2 { // the final objects grow with the text
			t.Errorf("%s: %v allocations for 10 events, %v for 1000", name, base, more)
		}
	}
}
