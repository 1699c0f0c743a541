//go:build unix

package catalog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// benchAccounts is how many accounts the exchanges of a frame are spread over.
const benchAccounts = 4

// BenchmarkTake is what an exchange costs a worker, and the database beside it, until it can be found: it is taken with its
// frame and digested. CPU times are of the two processes; the S3 service's is not counted.
func BenchmarkTake(b *testing.B) {
	server, service := postgrestest.Start(b, false), s3test.Start(b)
	for _, load := range []struct {
		name   string
		stored func(*testing.B, *engine.Engine, int)
	}{{"chats", recordChats}, {"agents", recordAgents}} {
		for _, bodies := range []string{"postgres", "s3"} {
			for _, size := range []int{16, 256} {
				b.Run(fmt.Sprintf("%s/bodies=%s/frame=%d", load.name, bodies, size), func(b *testing.B) {
					edge := openBenchEngine(b)
					var packs *pack.Packs
					if bodies == "s3" {
						var err error
						if packs, err = pack.Open(b.Context(), service.Bucket(b), "centre", 64<<20); err != nil {
							b.Fatal(err)
						}
					}
					c, err := catalog.Open(b.Context(), catalog.Options{
						URL: server.Database(b), Centre: "centre", Packs: packs, Cache: edge.Shared(),
						Retention: func(string) identity.Retention { return identity.Retention{} }, Digest: digest.Exchange,
					})
					if err != nil {
						b.Fatal(err)
					}
					defer c.Close()
					load.stored(b, edge, b.N)
					frames := framesOf(b, edge, size)
					worker, database := ownCPU(), server.CPU(b)
					b.ResetTimer()
					for _, f := range frames {
						if taken, err := c.Take(b.Context(), f, noneAside); err != nil || !taken {
							b.Fatal(taken, err)
						}
					}
					for _, name := range benchAccountNames() {
						if err := c.Wait(b.Context(), name); err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					b.ReportMetric(float64((ownCPU()-worker).Microseconds())/float64(b.N), "worker-µs/exchange")
					b.ReportMetric(float64((server.CPU(b)-database).Microseconds())/float64(b.N), "postgres-µs/exchange")
				})
			}
		}
	}
}

func benchAccountNames() (names []string) {
	for i := range benchAccounts {
		names = append(names, fmt.Sprint("team-", i))
	}
	return names
}

func openBenchEngine(b *testing.B) *engine.Engine {
	e, err := engine.Open(store.Options{Dir: b.TempDir(), MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{1}, 32)}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	for _, name := range benchAccountNames() {
		if _, err := e.Accounts().Create(name); err != nil {
			b.Fatal(err)
		}
	}
	if err := e.Shipping().Begin(b.Context()); err != nil {
		b.Fatal(err)
	}
	return e
}

// framesOf returns what an edge has recorded in frames of so many entries, as a centre joins them.
func framesOf(b *testing.B, edge *engine.Engine, size int) (frames []*ship.Frame) {
	return (&benchLog{edge: edge}).frames(b, size)
}

// benchLog is what of an edge's log is in frames.
type benchLog struct {
	edge *engine.Engine
	read uint64 // in the log
	made uint64 // in frames
}

// frames returns what the edge has recorded since the last call.
func (l *benchLog) frames(b *testing.B, size int) (frames []*ship.Frame) {
	var entries []ship.Entry
	var log ship.LogID
	for {
		f, err := l.edge.Shipping().Next(b.Context(), l.read)
		if err != nil {
			b.Fatal(err)
		}
		if f.Last == 0 {
			break
		}
		l.read, log = f.Last, f.Log
		entries = append(entries, f.Entries...)
	}
	for some := range slices.Chunk(entries, size) {
		frames = append(frames, &ship.Frame{Log: log, After: l.made, Last: l.made + uint64(len(some)), Whole: true, Entries: some})
		l.made += uint64(len(some))
	}
	return frames
}

// recordChats has an edge record single questions of 2 KB, with answers of 1 KB.
func recordChats(b *testing.B, edge *engine.Engine, count int) {
	says := newSpeaker()
	for i := range count {
		recordRequest(b, edge, record.Opening{Account: fmt.Sprint("team-", i%benchAccounts)}, []string{message("user", says.text(2000))}, says.text(1000))
	}
}

// recordAgents has an edge record conversations of 40 turns in turn, 16 at a time, each of whose requests repeats what was said before:
// a system prompt of 10 KB, and 1.5 KB of results with each turn.
func recordAgents(b *testing.B, edge *engine.Engine, count int) {
	const sessions, turns = 16, 40
	says := newSpeaker()
	prompt := message("system", says.text(10_000))
	said := make([][]string, sessions)
	for i := range count {
		at := i % sessions
		turn := i / sessions
		if turn%turns == 0 {
			said[at] = []string{prompt}
		}
		said[at] = append(said[at], message("user", says.text(1500)))
		answer := says.text(400)
		o := record.Opening{Account: fmt.Sprint("team-", at%benchAccounts), NativeSession: fmt.Sprintf("agent-%d-%d", at, turn/turns)}
		recordRequest(b, edge, o, said[at], answer)
		said[at] = append(said[at], message("assistant", answer))
	}
}

func message(role, content string) string {
	return fmt.Sprintf(`{"role":%q,"content":%q}`, role, content)
}

func recordRequest(b *testing.B, edge *engine.Engine, o record.Opening, messages []string, answer string) {
	body := []byte(`{"model":"m","messages":[`)
	for i, m := range messages {
		if i > 0 {
			body = append(body, ',')
		}
		o.Spans = append(o.Spans, codec.Span{Start: len(body), End: len(body) + len(m)})
		body = append(body, m...)
	}
	o.Body = append(body, `]}`...)
	o.Surface, o.Format, o.ModelAsked, o.Provider, o.ContentType = codec.Chat, codec.Chat, "m", "openai", "application/json"
	if o.NativeSession == "" {
		o.ChatKey = answer[:40]
	}
	r, err := edge.Begin(b.Context(), &o)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := fmt.Fprintf(r, `{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":%s,"finish_reason":"stop"}],"usage":{"prompt_tokens":500,"completion_tokens":250}}`,
		message("assistant", answer)); err != nil {
		b.Fatal(err)
	}
	if err := r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200, ContentType: "application/json"}); err != nil {
		b.Fatal(err)
	}
}

// speaker makes texts of words, of which few are frequent, as in languages.
type speaker struct {
	words []string
	often *rand.Zipf
}

func newSpeaker() *speaker {
	random := rand.New(rand.NewPCG(1, 2))
	s := &speaker{often: rand.NewZipf(random, 1.1, 4, 20_000-1)}
	for range 20_000 {
		word := make([]byte, 2+random.IntN(9))
		for i := range word {
			word[i] = 'a' + byte(random.IntN(26))
		}
		s.words = append(s.words, string(word))
	}
	return s
}

func (s *speaker) text(size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(s.words[s.often.Uint64()])
		b.WriteByte(' ')
	}
	return b.String()
}

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration {
	var used syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
