package server_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/server/command"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// asProgram makes this test binary the real program: mneme with the arguments that follow.
const asProgram = "MNEME_TEST_AS_PROGRAM"

// builtProgram is the path of a mneme that is measured in place of this test binary, which has more code to map.
const builtProgram = "MNEME_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(command.Main(&struct {
			Serve   command.Serve   `cmd:""`
			Reindex command.Reindex `cmd:""`
			Config  command.Config  `cmd:""`
		}{}, os.Args[1:], &command.Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Program: "mneme"}))
	}
	goleak.VerifyTestMain(m, pollers...)
}

const programsKey = "a-key-of-the-operator-for-all-of-this"

// program is "mneme serve" in a process of its own.
type program struct {
	url     string
	process *exec.Cmd
	log     watchedLog
}

// startProgram serves the data in dir with the simulated provider behind it. Settings are further lines of its
// configuration.
func startProgram(t *testing.T, dir string, up interface{ URL() string }, settings ...string) *program {
	t.Helper()
	config := configure(t, dir, up, settings...)
	return run(t, programCommand("serve", "--config", config, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0"))
}

// run starts a program that serves, and returns when it does.
func run(t *testing.T, process *exec.Cmd) *program {
	t.Helper()
	p := &program{process: process}
	p.log.also = t.Output()
	p.process.Stderr = &p.log
	out, err := p.process.StdoutPipe()
	ok(t, err)
	ok(t, p.process.Start())
	t.Cleanup(p.kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	ok(t, err)
	var found bool
	p.url, found = strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if !found {
		t.Fatalf("the program says %q", line)
	}
	return p
}

// configure writes the configuration of the program.
func configure(t *testing.T, dir string, up interface{ URL() string }, settings ...string) (file string) {
	t.Helper()
	file = filepath.Join(dir, "mneme.yaml")
	ok(t, os.WriteFile(file, fmt.Appendf(nil,
		"providers:\n  openai: {base_url: %[1]s/v1, api_key: k1}\n  anthropic: {base_url: %[1]s, api_key: k2}\n  gemini: {base_url: %[1]s/v1beta, api_key: k3}\n%[2]s\n",
		up.URL(), strings.Join(settings, "\n")), 0o600))
	return file
}

// watchedLog keeps what a program writes for people, and passes it on.
type watchedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
	also io.Writer
}

func (l *watchedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	return l.also.Write(p)
}

// holds is an error as long as the text has not been written.
func (l *watchedLog) holds(text string) error { return l.holdsTimes(text, 1) }

func (l *watchedLog) holdsTimes(text string, times int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.Count(l.text.String(), text) < times {
		return fmt.Errorf("the program has not written %q so often: %d", text, times)
	}
	return nil
}

func programCommand(args ...string) *exec.Cmd {
	c := exec.Command(cmp.Or(os.Getenv(builtProgram), os.Args[0]), args...)
	c.Env = append(os.Environ(), asProgram+"=1", "MNEME_API_KEY="+programsKey, "GORACE=atexit_sleep_ms=0")
	return c
}

// kill ends the program as kill -9 does. It may be called more than once.
func (p *program) kill() {
	_ = p.process.Process.Kill()
	_ = p.process.Wait()
}

// attempt is a request and as much of its answer as came.
type attempt struct {
	body     string
	exchange string // "" when no head came
	received string
	complete bool // the answer had a clean end
}

// begin sends a streamed request to the program, and gives its answer when the head of that is there.
func (p *program) begin(client *http.Client, s surface, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, p.url+at(s.path, body), strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+programsKey)
	r.Header.Set("Content-Type", "application/json")
	return client.Do(r)
}

// received reads what comes of the answer to a request.
func received(body string, response *http.Response) attempt {
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return attempt{body: body, exchange: response.Header.Get("X-Service-Exchange-ID"), received: string(text), complete: err == nil}
}

// ask sends a streamed request to the program and reads what comes.
func (p *program) ask(client *http.Client, s surface, body string) attempt {
	response, err := p.begin(client, s, body)
	if err != nil {
		return attempt{body: body}
	}
	return received(body, response)
}

func TestWhatAClientHasReceivedSurvivesAKill(t *testing.T) {
	const clients = 50
	up, err := provider.Start(provider.Options{Keep: -1, FreshIDs: true})
	ok(t, err)
	defer func() { ok(t, up.Close()) }()
	dir := t.TempDir()
	for round := range 2 {
		p := startProgram(t, dir, up)
		transport := &http.Transport{MaxIdleConnsPerHost: clients}
		client := &http.Client{Transport: transport}
		var mu sync.Mutex
		var all []attempt
		var completed atomic.Int64
		var running sync.WaitGroup
		var dead atomic.Bool
		enough := make(chan struct{})
		killAt := int64(100 + rand.IntN(100))
		keep := func(a attempt) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, a)
		}
		long := chat.body(fmt.Sprintf(`events 9; delay 1h first=1ms; burst 3; text "%d"`, round), true)
		open, err := p.begin(client, chat, long) // wherever the others are, this one has its answer in part
		ok(t, err)
		running.Go(func() { keep(received(long, open)) })
		for c := range clients {
			running.Go(func() {
				for i := 0; !dead.Load(); i++ {
					s := generating[(c+i)%len(generating)]
					a := p.ask(client, s, s.body(fmt.Sprintf(`events %d; burst 3; delay 1ms; text "%d/%d/%d"`, 1+(c*7+i*13)%120, round, c, i), true))
					keep(a)
					if a.complete && completed.Add(1) == killAt {
						close(enough)
					}
				}
			})
		}
		closed(t, "enough answers", enough)
		p.kill()
		dead.Store(true)
		running.Wait()
		transport.CloseIdleConnections()
		checkSurvivors(t, filepath.Join(dir, "data"), round, all)
	}
	p := startProgram(t, dir, up)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if a := p.ask(client, chat, chat.body(`text "hi"`, true)); !a.complete {
		t.Error("the program does not serve after the kills")
	}
	p.kill()
}

// checkSurvivors compares what clients know with what the store says when it is opened again.
func checkSurvivors(t *testing.T, data string, round int, all []attempt) {
	t.Helper()
	st, err := store.Open(store.Options{Dir: data, MinFreeDisk: -1})
	ok(t, err)
	defer func() { ok(t, st.Close()) }()
	kept, byRequest := map[string]*record.Exchange{}, map[string]int{}
	for after := ""; ; {
		page, err := st.Archive().Exchanges("default", record.ExchangeQuery{Limit: 1000, After: after, Ascending: true})
		ok(t, err)
		for _, info := range page.Data {
			x, err := st.Archive().Exchange("default", info.ID)
			ok(t, err)
			kept[x.ID] = x
			if byRequest[string(x.RawRequest)]++; byRequest[string(x.RawRequest)] > 1 {
				t.Errorf("twice on record: %s", x.RawRequest)
			}
			after = info.ID
		}
		if !page.HasMore {
			break
		}
	}
	complete, partial := 0, 0
	for _, a := range all {
		x := kept[a.exchange]
		switch {
		case a.exchange == "":
		case x == nil:
			t.Errorf("the client has the head of %s, and it is not on record", a.exchange)
		case a.complete:
			complete++
			if x.Outcome != record.OutcomeComplete || string(x.RawResponse) != a.received || string(x.RawRequest) != a.body {
				t.Errorf("%s was received whole; on record as %v with %d of %d bytes", a.exchange, x.Outcome, len(x.RawResponse), len(a.received))
			}
		default:
			partial++
			whole := x.Outcome == record.OutcomeComplete && strings.HasPrefix(string(x.RawResponse), a.received)
			if x.Outcome != record.OutcomeInterrupted && !whole {
				t.Errorf("%s was cut; on record as %v", a.exchange, x.Outcome)
			}
		}
	}
	if complete == 0 || partial == 0 {
		t.Errorf("%d answers were received whole and %d in part: the kill came at no telling moment", complete, partial)
	}
	t.Logf("round %d: %d answers received whole, %d in part, %d exchanges on record", round, complete, partial, len(kept))
}
