package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/listen/listentest"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mneme": main})
}

// TestCommandLine tells the stories in server/command/testdata with the real program. Beside the commands of
// testscript they have:
//
//	start [ARG...]                    run "mneme serve ARG..." until the story ends; $URL is where it listens, and
//	                                  server.err holds what it writes for people
//	signal NAME                       end it by TERM, INT or KILL and wait; TERM and INT have to give exit code 0
//	restart                           restart it in place and wait until it serves again
//	former                            unpack a store of format 1 into $MNEME_DATA
//	request STATUS METHOD PATH [FILE] send a request with the key in $KEY and the body in FILE; stdout is the answer, $EXCHANGE the
//	                                  id of the exchange
//	capture REQUEST RESPONSE          put an exchange with these files on record in $MNEME_DATA; $EXCHANGE is its id
//	reload TEXT                       send it SIGHUP and wait until server.err holds TEXT once more
//	said TIMES TEXT                   wait until server.err holds TEXT so often
//	remember NAME FILE                set a variable to the text of a file, or of stdout
//	certificate [-expires DURATION]   write certificate.pem, key.pem and the authority.pem that signed it; requests to
//	                                  https:// trust it, and show it if $CLIENT is set
func TestCommandLine(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "server/command/testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("MNEME_DATA", "data")
			env.Setenv("MNEME_LISTEN", "127.0.0.1:0")
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else every command lasts a second under the race detector
			env.Values[theServer] = &program{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"start": start, "signal": signal, "request": request, "capture": capture, "remember": remember, "reload": reload, "said": said,
			"certificate": certificate(t), "restart": restart, "former": former,
		},
	})
}

// Commands and flags that the pages name, in code: `mneme key create --account NAME`, or a line of an example.
var (
	commandInCode = regexp.MustCompile("(?m)(?:`|^ {4}(?:[A-Za-z_]+=\\S+ )*|^\\$ )(?:bin/)?mneme ([a-z][^`\\n]*)")
	flagInCommand = regexp.MustCompile(`(?:^| )--(?:no-)?([a-z][a-z-]*)`)
)

func TestCommandsThatThePagesNameExist(t *testing.T) {
	parser, err := kong.New(&commands{}, kong.Name("mneme"))
	if err != nil {
		t.Fatal(err)
	}
	pages := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "mneme.example.yaml"}
	for _, pattern := range []string{"docs/*.md", "docs/clients/*.md", "bench/*.md", "deploy/*.*", "deploy/Dockerfile"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		pages = append(pages, found...)
	}
	named := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range commandInCode.FindAllSubmatch(text, -1) {
			line, _, _ := strings.Cut(string(match[1]), " -- ") // behind it are the arguments of another program
			line, _, _ = strings.Cut(line, " #")
			line, _, _ = strings.Cut(line, " && ")
			named++
			node := parser.Model.Node
			for word := range strings.FieldsSeq(line) {
				i := slices.IndexFunc(node.Children, func(child *kong.Node) bool { return child.Name == strings.TrimRight(word, ";.,") })
				if i < 0 {
					break
				}
				node = node.Children[i]
			}
			if node == parser.Model.Node {
				t.Errorf("%s names the command mneme %s, which does not exist", page, line)
				continue
			}
			for _, flag := range flagInCommand.FindAllStringSubmatch(line, -1) {
				if !takes(node, flag[1]) {
					t.Errorf("%s has mneme %s, but %s has no flag --%s", page, line, node.FullPath(), flag[1])
				}
			}
		}
	}
	if named < 60 {
		t.Errorf("only %d commands found: is the search for them wrong?", named)
	}
}

// takes reports whether a command, or what it runs by default, has a flag.
func takes(node *kong.Node, name string) bool {
	for _, group := range node.AllFlags(false) {
		if slices.ContainsFunc(group, func(flag *kong.Flag) bool { return flag.Name == name }) {
			return true
		}
	}
	return node.DefaultCmd != nil && takes(node.DefaultCmd, name)
}

// A signal may come before the program listens for signals, while it opens the store, and before it accepts. However
// early it comes, the server ends.
func TestAServerToldToStopWhileItStartsEnds(t *testing.T) {
	data := t.TempDir()
	for delay := time.Duration(0); delay < 100*time.Millisecond; delay += 5 * time.Millisecond {
		var stderr bytes.Buffer
		server := program{process: exec.Command("mneme", "serve", "--listen", "127.0.0.1:0", "--data", data)}
		server.process.Stderr = &stderr
		server.process.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0")
		if err := server.process.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(delay) // where in the start the signal falls is left to chance; every place has to do
		err := server.end(syscall.SIGTERM)
		if state := server.process.ProcessState.Sys().(syscall.WaitStatus); err != nil && state.Signal() != syscall.SIGTERM {
			t.Fatalf("told to stop after %v: %v\n%s", delay, err, stderr.String())
		}
	}
}

// A member of a cluster is told to stop while it waits for a database or for brokers, which accept connections and say nothing.
func TestAMemberOfAClusterToldToStopWhileItStartsEnds(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	text := fmt.Sprintf("cluster: {nats: [\"nats://%[1]s\"], node: 1}\ncentre: {postgres: \"postgres://mneme@%[1]s/mneme?sslmode=disable\"}\n", silent.Addr())
	file := filepath.Join(t.TempDir(), "mneme.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for member, command := range map[string][]string{
		"centre": {"centre"}, "worker": {"centre", "--worker"}, "edge": {"serve", "--edge"},
	} {
		var stderr bytes.Buffer
		data := t.TempDir()
		server := program{process: exec.Command("mneme", append(command, "--config", file, "--listen", "127.0.0.1:0", "--data", data)...)}
		server.process.Stderr = &stderr
		server.process.Env = append(os.Environ(), "TMPDIR="+data, "GORACE=atexit_sleep_ms=0",
			"MNEME_CLUSTER_KEY="+strings.Repeat("01", 32), "MNEME_MASTER_KEY="+strings.Repeat("02", 32))
		if err := server.process.Start(); err != nil {
			t.Fatal(err)
		}
		waiting, err := silent.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if err := server.end(syscall.SIGTERM); err != nil || strings.Contains(stderr.String(), "mneme: ") {
			t.Errorf("the %s ends with %v\n%s", member, err, stderr.String())
		}
		_ = waiting.Close()
		if left, err := filepath.Glob(filepath.Join(data, "mneme-worker-*")); err != nil || len(left) > 0 {
			t.Errorf("the %s leaves %q (%v)", member, left, err)
		}
	}
}

// theServer is the key of a story's *program.
const theServer = "server"

// program is the server of one story.
type program struct {
	process *exec.Cmd
	stdout  lineWatch
}

// passedOn are the variables of a story that its server sees.
var passedOn = []string{
	"HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "PATH", "TMPDIR", "GOCOVERDIR", "GORACE", "MNEME_CONFIG", "MNEME_LISTEN", "MNEME_DATA", "MNEME_API_KEY", "MNEME_MASTER_KEY", "MNEME_CLUSTER_KEY",
	"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY",
}

func start(ts *testscript.TestScript, _ bool, args []string) {
	server := ts.Value(theServer).(*program)
	stderr, err := os.Create(ts.MkAbs("server.err"))
	ts.Check(err)
	defer stderr.Close()

	server.stdout = lineWatch{first: make(chan string, 1)}
	server.process = exec.Command("mneme", append([]string{"serve"}, args...)...)
	server.process.Dir = ts.MkAbs(".")
	for _, name := range passedOn {
		if value := ts.Getenv(name); value != "" {
			server.process.Env = append(server.process.Env, name+"="+value)
		}
	}
	server.process.Stdout, server.process.Stderr = &server.stdout, stderr
	ts.Check(server.process.Start())
	ts.Defer(func() { _ = server.end(syscall.SIGKILL) })

	select {
	case line := <-server.stdout.first:
		url, ok := strings.CutPrefix(line, "listening on ")
		if !ok {
			ts.Fatalf("the first line is %q", line)
		}
		ts.Setenv("URL", url)
	case <-time.After(time.Minute):
		ts.Fatalf("the server does not listen:\n%s", ts.ReadFile("server.err"))
	}
}

func signal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL}
	if len(args) != 1 || signals[args[0]] == 0 {
		ts.Fatalf("usage: signal TERM|INT|KILL")
	}
	server := ts.Value(theServer).(*program)
	if err := server.end(signals[args[0]]); err != nil && args[0] != "KILL" {
		ts.Fatalf("after %s: %v\n%s", args[0], err, ts.ReadFile("server.err"))
	}
	if lines := server.stdout.String(); strings.Count(lines, "\n") != strings.Count(lines, "listening on ") {
		ts.Fatalf("more than where it listens on standard output:\n%s", lines)
	}
}

func restart(ts *testscript.TestScript, _ bool, _ []string) {
	const again = "serving again after the restart"
	before := strings.Count(ts.ReadFile("server.err"), again)
	ts.Check(ts.Value(theServer).(*program).process.Process.Signal(restartSignal))
	untilSaid(ts, again, before+1)
}

// former takes the store that a release with format 1 wrote, see store/former_format_test.go.
func former(ts *testscript.TestScript, _ bool, _ []string) {
	archive, err := filepath.Abs("store/engine/testdata/format-8/store.tar.gz")
	ts.Check(err)
	data := ts.MkAbs(ts.Getenv("MNEME_DATA"))
	ts.Check(os.MkdirAll(data, 0o700))
	ts.Check(exec.Command("tar", "-xzf", archive, "-C", data).Run())
}

func reload(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: reload TEXT")
	}
	before := strings.Count(ts.ReadFile("server.err"), args[0])
	ts.Check(ts.Value(theServer).(*program).process.Process.Signal(syscall.SIGHUP))
	untilSaid(ts, args[0], before+1)
}

func said(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: said TIMES TEXT")
	}
	times, err := strconv.Atoi(args[0])
	ts.Check(err)
	untilSaid(ts, args[1], times)
}

// untilSaid waits until the server has said a text so often.
func untilSaid(ts *testscript.TestScript, text string, times int) {
	for deadline := time.Now().Add(time.Minute); strings.Count(ts.ReadFile("server.err"), text) < times; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			ts.Fatalf("the server does not say %q %d times:\n%s", text, times, ts.ReadFile("server.err"))
		}
	}
}

// end sends the signal and waits; a process that has ended stays as it is.
func (p *program) end(by syscall.Signal) error {
	if p.process == nil || p.process.ProcessState != nil {
		return nil
	}
	if err := p.process.Process.Signal(by); err != nil {
		return err
	}
	// A server that does not end writes what its goroutines wait for, and fails the story.
	giveUp := time.AfterFunc(time.Minute, func() { _ = p.process.Process.Signal(syscall.SIGQUIT) })
	defer giveUp.Stop()
	return p.process.Wait()
}

// lineWatch keeps what is written and hands out the first line once it is whole.
type lineWatch struct {
	mu    sync.Mutex
	text  bytes.Buffer
	first chan string
	found bool
}

func (w *lineWatch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if line, _, whole := strings.Cut(w.text.String(), "\n"); whole && !w.found {
		w.found = true
		w.first <- line
	}
	return len(p), nil
}

func (w *lineWatch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func request(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 && len(args) != 4 {
		ts.Fatalf("usage: request STATUS METHOD PATH [FILE]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	body := ""
	if len(args) == 4 {
		body = ts.ReadFile(args[3])
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	origin := ts.Getenv("URL")
	if strings.HasPrefix(origin, "unix:") {
		origin = "http://on-a-socket"
	}
	r, err := http.NewRequestWithContext(ctx, args[1], origin+args[2], strings.NewReader(body))
	ts.Check(err)
	r.Header.Set("Content-Type", "application/json")
	if key := ts.Getenv("KEY"); key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	client := &http.Client{Transport: transportTo(ts)}
	defer client.CloseIdleConnections()
	response, err := client.Do(r)
	ts.Check(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	ts.Check(err)
	if response.StatusCode != want {
		ts.Fatalf("want status %d, got %d\n%s", want, response.StatusCode, text)
	}
	_, err = ts.Stdout().Write(text)
	ts.Check(err)
	if id := response.Header.Get("X-Service-Exchange-ID"); id != "" {
		ts.Setenv("EXCHANGE", id)
	}
}

// transportTo reaches $URL, also on a socket or with the story's certificates.
func transportTo(ts *testscript.TestScript) *http.Transport {
	var transport http.Transport
	if path, socket := strings.CutPrefix(ts.Getenv("URL"), "unix:"); socket {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", ts.MkAbs(path))
		}
	}
	if authority, err := os.ReadFile(ts.MkAbs("authority.pem")); err == nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
		transport.TLSClientConfig.RootCAs.AppendCertsFromPEM(authority)
	}
	if ts.Getenv("CLIENT") != "" {
		pair, err := tls.LoadX509KeyPair(ts.MkAbs("certificate.pem"), ts.MkAbs("key.pem"))
		ts.Check(err)
		transport.TLSClientConfig.Certificates = []tls.Certificate{pair}
	}
	return &transport
}

func certificate(t *testing.T) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, _ bool, args []string) {
		expires := 100 * 24 * time.Hour
		if len(args) == 2 && args[0] == "-expires" {
			var err error
			expires, err = time.ParseDuration(args[1])
			ts.Check(err)
		}
		authority := listentest.NewAuthority(t, "authority")
		authority.Issue(ts.MkAbs("."), "mneme", time.Now().Add(expires))
		ts.Check(os.Rename(authority.File, ts.MkAbs("authority.pem")))
	}
}

func capture(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: capture REQUEST RESPONSE")
	}
	ctx := context.Background()
	st, err := store.Open(store.Options{Dir: ts.MkAbs(ts.Getenv("MNEME_DATA"))})
	ts.Check(err)
	defer func() { ts.Check(st.Close()) }()
	c, err := st.Begin(ctx, &record.Opening{
		Account: "default", Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "gpt-5-mini", ModelSent: "gpt-5-mini",
		Body: []byte(ts.ReadFile(args[0])),
	})
	ts.Check(err)
	_, err = c.Write([]byte(ts.ReadFile(args[1])))
	ts.Check(err)
	ts.Check(c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: http.StatusOK, LastByte: time.Now()}))
	ts.Setenv("EXCHANGE", c.ID())
}

func remember(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: remember NAME FILE")
	}
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
}
