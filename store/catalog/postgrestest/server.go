// Package postgrestest runs Postgres for tests: a cluster of its own in a temporary directory, on loopback.
package postgrestest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog"
)

// Server is a running Postgres.
type Server struct {
	dir, port string
	fsync     bool
	process   *exec.Cmd
	ended     chan struct{}
	databases atomic.Int32
}

// nobody is the user that runs the server if the tests run as root, which Postgres refuses.
const nobody = 65534

// bounded limits the wait for Postgres.
const bounded = 2 * time.Minute

// Start runs a server for the duration of a test, which is skipped if Postgres is not installed. Without fsync,
// acknowledged data survives the end of the process, but not of the machine.
func Start(t testing.TB, fsync bool) *Server {
	t.Helper()
	skipWithout(t)
	s, err := start(t.Context(), fsync)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.remove)
	return s
}

func start(ctx context.Context, fsync bool) (*Server, error) {
	dir, err := os.MkdirTemp("", "mneme-postgres-") // not a test's own: after Kill, processes may still write into it for a moment
	if err != nil {
		return nil, err
	}
	s := &Server{dir: filepath.Join(dir, "data"), fsync: fsync}
	err = HandOver(dir)
	if err == nil {
		err = s.unpack()
	}
	if err == nil {
		err = s.run(ctx)
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	return s, nil
}

func (s *Server) remove() {
	s.Kill()
	_ = os.RemoveAll(filepath.Dir(s.dir))
}

// shared is the server of [Shared].
var shared struct {
	mu     sync.Mutex
	server *Server
}

// Shared returns a server without fsync for the tests of a program that do not kill or configure it: each has databases of its
// own there. The first one starts it. The program's TestMain has to call [Main].
func Shared(t testing.TB) *Server {
	t.Helper()
	skipWithout(t)
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		s, err := start(context.WithoutCancel(t.Context()), false)
		if err != nil {
			t.Fatal(err)
		}
		shared.server = s
	}
	return shared.server
}

// Main runs the tests of a program, ends the server that they shared, and returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if shared.server != nil {
		shared.server.remove()
	}
	return code
}

func skipWithout(t testing.TB) {
	t.Helper()
	if !Installed() {
		t.Skip("NOT TESTED: Postgres is not installed; install Debian's postgresql, or put initdb and postgres into PATH")
	}
}

// initialized packs the directory of a server that has the tables of a memory, which initdb and package catalog make. They
// take seconds of CPU time, which the tests of a program share.
var initialized = sync.OnceValues(func() (packed []byte, err error) {
	dir, err := os.MkdirTemp("", "mneme-postgres-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := HandOver(dir); err != nil {
		return nil, err
	}
	s := &Server{dir: filepath.Join(dir, "data")}
	if out, err := s.command("initdb", "--no-sync", "--auth=trust", "--username=mneme", "--encoding=UTF8", "--locale=C", s.dir).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	if err := s.makeTables(context.Background()); err != nil {
		return nil, err
	}
	packed, err = s.command("tar", "-cf", "-", filepath.Base(s.dir)).Output()
	if err != nil {
		return nil, fmt.Errorf("tar: %w", err)
	}
	return packed, nil
})

// tables is the database that those with tables are copies of.
const tables = "tables"

// makeTables runs the server until it has the database [tables].
func (s *Server) makeTables(ctx context.Context) error {
	defer s.Kill()
	if err := s.run(ctx); err != nil {
		return err
	}
	if err := s.create(ctx, tables, ""); err != nil {
		return err
	}
	id, err := catalog.MakeCentre(ctx, s.url(tables), Centre)
	if err != nil {
		return err
	}
	c, err := catalog.Open(ctx, catalog.Options{URL: s.url(tables), Centre: id}) // adds what later versions have
	if err != nil {
		return err
	}
	c.Close()
	if err := s.process.Process.Signal(os.Interrupt); err != nil { // the fast shutdown, which leaves nothing to recover
		return err
	}
	<-s.ended
	return nil
}

// unpack makes the server's directory.
func (s *Server) unpack() error {
	packed, err := initialized()
	if err != nil {
		return err
	}
	tar := s.command("tar", "-xf", "-")
	tar.Stdin = bytes.NewReader(packed)
	if out, err := tar.CombinedOutput(); err != nil {
		return fmt.Errorf("tar: %w\n%s", err, out)
	}
	return nil
}

// Installed reports whether the programs of Postgres are installed.
func Installed() bool { return program("initdb") != "" && program("postgres") != "" }

// HandOver makes a directory belong to the user that [Command] runs programs as.
func HandOver(dir string) error {
	if os.Getuid() != 0 {
		return nil
	}
	return os.Chown(dir, nobody, nobody)
}

// program returns the path of one of Postgres' programs, which Debian does not put into PATH.
func program(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(paths) == 0 {
		return ""
	}
	return paths[len(paths)-1]
}

func (s *Server) command(name string, arguments ...string) *exec.Cmd {
	c := Command(name, arguments...)
	c.Dir = filepath.Dir(s.dir)
	return c
}

// Command returns a command for one of Postgres' programs. If this process runs as root, the command runs as nobody.
func Command(name string, arguments ...string) *exec.Cmd {
	arguments = append([]string{program(name)}, arguments...)
	if os.Getuid() == 0 {
		user := strconv.Itoa(nobody)
		// The capability gives nobody access to files in directories that are closed to it, such as one that root has
		// created for itself.
		arguments = append([]string{
			"setpriv", "--reuid", user, "--regid", user, "--clear-groups",
			"--inh-caps", "+dac_override", "--ambient-caps", "+dac_override", "--",
		}, arguments...)
	}
	return exec.CommandContext(context.Background(), arguments[0], arguments[1:]...) // [Server.Kill] ends it, after the test's context
}

// Run starts the server again, after [Server.Kill].
func (s *Server) Run(t testing.TB) {
	t.Helper()
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (s *Server) run(ctx context.Context) error {
	if s.port == "" {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.port = strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
		_ = free.Close()
	}
	fsync := "off"
	if s.fsync {
		fsync = "on"
	}
	s.process = s.command("postgres", "-D", s.dir, "-p", s.port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "fsync="+fsync, "-c", "max_connections=200", "-c", "shared_buffers=64MB", "-c", "log_line_prefix=%d|")
	log, err := os.OpenFile(s.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	s.process.Stdout, s.process.Stderr = log, log
	if err := s.process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	s.ended = ended
	go func() {
		_ = s.process.Wait()
		close(ended)
	}()
	for deadline := time.Now().Add(bounded); ; {
		brief, cancel := context.WithTimeout(ctx, time.Second)
		connection, err := pgx.Connect(brief, s.url("postgres"))
		if err == nil {
			_ = connection.Close(brief)
		}
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			said, _ := os.ReadFile(s.log())
			return fmt.Errorf("the server of Postgres has ended:\n%s", said)
		case <-time.After(10 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("connect to Postgres: %w", err)
		}
	}
}

func (s *Server) log() string { return filepath.Join(filepath.Dir(s.dir), "log") }

// Kill ends the server as a crash would. Its processes notice the end of the first one, but may answer before that, so
// they are killed too where the system lists them.
func (s *Server) Kill() {
	if s.process == nil || s.process.Process == nil {
		return
	}
	first := strconv.Itoa(s.process.Process.Pid)
	children, _ := os.ReadFile("/proc/" + first + "/task/" + first + "/children")
	_ = s.process.Process.Kill()
	<-s.ended
	for child := range strings.FieldsSeq(string(children)) {
		if pid, err := strconv.Atoi(child); err == nil {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	}
}

// CPU returns the CPU time that the server and its processes have used; a benchmark is skipped if the system does not
// report it.
func (s *Server) CPU(t testing.TB) (used time.Duration) {
	t.Helper()
	own := strconv.Itoa(s.process.Process.Pid)
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// After the name in brackets: state, parent, …; the 12th to 15th are user and system time, of the process and
		// of its ended children.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		isServer := filepath.Base(filepath.Dir(path)) == own
		if len(fields) < 15 || !isServer && fields[1] != own {
			continue
		}
		for _, field := range fields[11:15] {
			ticks, _ := strconv.ParseInt(field, 10, 64)
			used += time.Duration(ticks) * cpuTick
		}
	}
	if used == 0 {
		t.Skip("the system does not say how much CPU time Postgres uses")
	}
	return used
}

// cpuTick is the unit of the times in /proc, on all platforms of Go.
const cpuTick = 10 * time.Millisecond

func (s *Server) url(database string) string {
	return fmt.Sprintf("postgres://mneme@127.0.0.1:%s/%s?sslmode=disable", s.port, database)
}

// Database creates an empty database, and returns its URL.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	return s.database(t, "")
}

// Centre is the id of the centre that a [Server.Memory] belongs to.
const Centre = "00000000000000000000000000000001"

// Memory creates a database with the tables of a memory that is empty, and returns its URL. It takes a third of the time that
// a centre needs for the tables.
func (s *Server) Memory(t testing.TB) string {
	t.Helper()
	return s.database(t, " template "+tables)
}

func (s *Server) database(t testing.TB, of string) string {
	t.Helper()
	name := fmt.Sprintf("memory_%d", s.databases.Add(1))
	if err := s.create(t.Context(), name, of); err != nil {
		t.Fatal(err)
	}
	return s.url(name)
}

func (s *Server) create(ctx context.Context, name, of string) error {
	connection, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	_, err = connection.Exec(ctx, "create database "+name+of)
	return err
}
