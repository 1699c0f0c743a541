//go:build unix

package server_test

import (
	"errors"
	"io/fs"
	"iter"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// A restart under load: streams that are open end whole, requests that come meanwhile wait for the next program and are
// answered by it, probes included, and all of them are on record.
func TestARestartCutsNoneOf200OpenStreams(t *testing.T) {
	const streams, newcomers, probing = 200, 20, 4
	up := newEvents(t)
	dir := t.TempDir()
	p := startProgram(t, dir, up)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	answers := make(chan attempt, streams+newcomers)
	var asking sync.WaitGroup
	ask := func() {
		response, err := p.begin(client, chat, chat.body("", true))
		if err != nil {
			t.Errorf("a request got no answer: %v", err)
			return
		}
		asking.Go(func() { answers <- received("", response) })
	}
	for range streams {
		ask()
	}

	enough := make(chan struct{})
	var probes sync.WaitGroup
	for range probing { // from before the restart to after it
		probes.Go(func() {
			for {
				response, err := client.Get(p.url + "/healthz")
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("a probe during the restart: %v, %v", response, err)
					return
				}
				_ = response.Body.Close()
				select {
				case <-enough:
					return
				default:
				}
			}
		})
	}
	idle := p.idleConnection(t)
	ok(t, p.process.Process.Signal(syscall.SIGUSR2))
	eventually(t, func() error { return p.log.holds("restarting") })
	if a := exchangeOn(t, idle, "GET /healthz HTTP/1.1\r\nHost: proxy\r\n\r\n"); a.status != http.StatusOK {
		t.Errorf("a request on an open connection: %d %s", a.status, a.body)
	}
	for range newcomers {
		asking.Go(ask)
	}
	if n := len(up.open()); n < streams {
		t.Errorf("%d streams are open at the provider while the program restarts", n)
	}
	go func() { // whichever program they came to
		defer close(answers)
		asking.Wait()
	}()
	var answered []attempt
	for a := range up.finishing(answers) {
		answered = append(answered, a)
	}
	eventually(t, func() error { return p.log.holds("serving again after the restart") })
	close(enough)
	probes.Wait()
	ok(t, p.process.Process.Signal(syscall.SIGTERM))
	ok(t, p.process.Wait()) // the process that was started is the one that served last

	st, err := store.Open(store.Options{Dir: filepath.Join(dir, "data"), MinFreeDisk: -1})
	ok(t, err)
	defer func() { ok(t, st.Close()) }()
	for _, a := range answered {
		x, err := st.Archive().Exchange("default", a.exchange)
		ok(t, err)
		if !a.complete || !strings.HasSuffix(a.received, doneEvent) || x.Outcome != record.OutcomeComplete || string(x.RawResponse) != a.received {
			t.Errorf("complete: %t; on record as %v; received %q", a.complete, x.Outcome, a.received)
		}
	}
	if len(answered) != streams+newcomers {
		t.Errorf("%d of %d requests were answered", len(answered), streams+newcomers)
	}
}

// What one program opens for its event loops is closed in the next one: restarts in place do not use up descriptors.
func TestRestartsInPlaceKeepNoDescriptors(t *testing.T) {
	p := startProgram(t, t.TempDir(), newEvents(t))
	restart := func(n int) int {
		ok(t, p.process.Process.Signal(syscall.SIGUSR2))
		eventually(t, func() error { return p.log.holdsTimes("serving again after the restart", n) })
		p.idleConnection(t) // its event loops have begun
		return p.loops(t)
	}
	first, last := restart(1), 0
	for n := range 3 {
		last = restart(n + 2)
	}
	if last > first {
		t.Errorf("after one restart %d descriptors of event loops are open, after four %d", first, last)
	}
	ok(t, p.process.Process.Signal(syscall.SIGTERM))
	ok(t, p.process.Wait())
}

// loops returns how many descriptors without a file the program has: epoll, eventfd.
func (p *program) loops(t *testing.T) (n int) {
	t.Helper()
	dir := "/proc/" + strconv.Itoa(p.process.Process.Pid) + "/fd"
	open, err := os.ReadDir(dir)
	ok(t, err)
	for _, fd := range open {
		if to, err := os.Readlink(filepath.Join(dir, fd.Name())); err == nil && strings.HasPrefix(to, "anon_inode:") {
			n++
		}
	}
	return n
}

// A restart that could not succeed is refused: the server goes on as it is.
func TestARestartIntoABadConfigurationIsRefused(t *testing.T) {
	up := newEvents(t)
	dir := t.TempDir()
	p := startProgram(t, dir, up)
	idle := p.idleConnection(t)
	configure(t, dir, up, "listen: nowhere")
	ok(t, p.process.Process.Signal(syscall.SIGUSR2))
	eventually(t, func() error { return p.log.holds("the restart was refused; this server keeps running") })
	if a := exchangeOn(t, idle, readyRequest); a.status != http.StatusOK {
		t.Errorf("after a refused restart: %d %s", a.status, a.body)
	}
	ok(t, p.process.Process.Signal(syscall.SIGTERM))
	ok(t, p.process.Wait())
}

const readyRequest = "GET /readyz HTTP/1.1\r\nHost: proxy\r\n\r\n"

// idleConnection has had a request and waits for the next one.
func (p *program) idleConnection(t *testing.T) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
	ok(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if a := exchangeOn(t, conn, readyRequest); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	return conn
}

// finishing returns the answers while it ends the streams that are open at the provider, those that come later too.
func (e *events) finishing(answers <-chan attempt) iter.Seq[attempt] {
	return func(yield func(attempt) bool) {
		finished := map[net.Conn]bool{}
		for look := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case a, more := <-answers:
				if !more || !yield(a) {
					look.Stop()
					return
				}
			case <-look.C:
				for _, conn := range e.open() {
					if !finished[conn] {
						finished[conn] = true
						e.send(conn)
						e.finish(conn)
					}
				}
			}
		}
	}
}

// A unix socket keeps its name over a restart, and is gone after the last program.
func TestARestartKeepsAUnixSocket(t *testing.T) {
	up, err := provider.Start(provider.Options{Keep: -1})
	ok(t, err)
	defer func() { ok(t, up.Close()) }()
	dir := t.TempDir()
	socket := filepath.Join(dir, "s")
	config := configure(t, dir, up)
	p := run(t, programCommand("serve", "--config", config, "--data", filepath.Join(dir, "data"), "--listen", "127.0.0.1:0,unix:"+socket))
	ok(t, p.process.Process.Signal(syscall.SIGUSR2))
	eventually(t, func() error { return p.log.holds("serving again after the restart") })
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", socket)
	ok(t, err)
	defer conn.Close()
	if a := exchangeOn(t, conn, readyRequest); a.status != http.StatusOK {
		t.Errorf("on the socket: %d %s", a.status, a.body)
	}
	ok(t, p.process.Process.Signal(syscall.SIGTERM))
	ok(t, p.process.Wait())
	if _, err := os.Stat(socket); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// A service manager that holds the socket lets clients wait for a server that is not there yet.
func TestTheSocketsOfAServiceManagerAreServed(t *testing.T) {
	up, err := provider.Start(provider.Options{Keep: -1})
	ok(t, err)
	defer func() { ok(t, up.Close()) }()
	dir := t.TempDir()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer listener.Close()
	address := listener.Addr().String()
	socket, err := listener.(*net.TCPListener).File()
	ok(t, err)
	defer socket.Close()
	early, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	ok(t, err)
	defer early.Close()

	serve := programCommand("serve", "--config", configure(t, dir, up), "--data", filepath.Join(dir, "data"), "--listen", address)
	as := exec.Command("sh", append([]string{"-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"`}, serve.Args...)...)
	as.Env, as.ExtraFiles = serve.Env, []*os.File{socket}
	p := run(t, as)
	if a := exchangeOn(t, early, readyRequest); a.status != http.StatusOK {
		t.Errorf("a client that came before the server: %d %s", a.status, a.body)
	}
	ok(t, p.process.Process.Signal(syscall.SIGTERM))
	ok(t, p.process.Wait())
}
