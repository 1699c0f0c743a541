package listen_test

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/listen/listentest"
)

func TestAddressesAreReadAndWritten(t *testing.T) {
	for text, want := range map[string]struct {
		listen.Address
		origin string
	}{
		"127.0.0.1:7788":     {listen.Address{Network: "tcp", Name: "127.0.0.1:7788"}, "http://127.0.0.1:7788"},
		":7788":              {listen.Address{Network: "tcp", Name: ":7788"}, "http://127.0.0.1:7788"},
		"[::]:7788":          {listen.Address{Network: "tcp", Name: "[::]:7788"}, "http://127.0.0.1:7788"},
		"tls:0.0.0.0:443":    {listen.Address{Network: "tcp", Name: "0.0.0.0:443", TLS: true}, "https://127.0.0.1:443"},
		"tls:[::1]:443":      {listen.Address{Network: "tcp", Name: "[::1]:443", TLS: true}, "https://[::1]:443"},
		"127.0.0.1:0":        {listen.Address{Network: "tcp", Name: "127.0.0.1:0"}, ""},
		"unix:/run/m/m.sock": {listen.Address{Network: "unix", Name: "/run/m/m.sock"}, ""},
		"unix:m.sock":        {listen.Address{Network: "unix", Name: "m.sock"}, ""},
	} {
		got, err := listen.Parse(text)
		if err != nil || got != want.Address || got.String() != text || got.Origin() != want.origin {
			t.Errorf("%s: %+v, %q, %q, %v", text, got, got.String(), got.Origin(), err)
		}
	}
	for _, text := range []string{"", "7788", "localhost", "127.0.0.1:http", ":99999", "tls:", "tls:443", "unix:", "unix:/", "unix:/run/", "unix:" + strings.Repeat("x", 104)} {
		if got, err := listen.Parse(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func TestASocketHasOneOwnerAndTheRightMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	address := listen.Address{Network: "unix", Name: path}
	first, err := listen.Open(address)
	ok(t, err)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := listen.Open(address); !errors.Is(err, listen.ErrSocketInUse) {
		t.Errorf("a second owner: %v", err)
	}
	ok(t, first.Close())
	left, err := os.ReadDir(filepath.Dir(path))
	ok(t, err)
	if len(left) != 0 {
		t.Errorf("closing left %v", left)
	}
	again, err := listen.Open(address)
	ok(t, err)
	ok(t, again.Close())
}

// Another program's socket, without our lock, is in use as long as it answers.
func TestASocketOfAnotherProgramIsTakenOverOnlyWhenNobodyAnswers(t *testing.T) {
	dir, err := os.MkdirTemp("", "mneme") // short enough for a socket
	ok(t, err)
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	other, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	ok(t, err)
	other.SetUnlinkOnClose(false)
	address := listen.Address{Network: "unix", Name: path}
	if _, err := listen.Open(address); !errors.Is(err, listen.ErrSocketInUse) {
		t.Errorf("while it answers: %v", err)
	}
	ok(t, other.Close())
	ours, err := listen.Open(address)
	ok(t, err)
	ok(t, ours.Close())
}

func TestAFileInTheWayOfASocketStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	ok(t, os.WriteFile(path, []byte("mine"), 0o600))
	if _, err := listen.Open(listen.Address{Network: "unix", Name: path}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("%v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("%q, %v", text, err)
	}
}

// shown is the name in the certificate that a client sees.
func shown(t *testing.T, certificates *listen.Certificates, client *tls.Config) (string, error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err)
	defer func() { _ = listener.Close() }()
	served := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = tls.Server(conn, certificates.Config()).Handshake()
			defer func() { _ = conn.Close() }()
		}
		served <- err
	}()
	conn, err := tls.Dial("tcp", listener.Addr().String(), client)
	if err != nil {
		return "", errors.Join(err, <-served)
	}
	defer func() { _ = conn.Close() }()
	if err := <-served; err != nil { // in TLS 1.3 a client is refused after its own part is done
		return "", err
	}
	return conn.ConnectionState().PeerCertificates[0].Subject.CommonName, nil
}

func TestCertificatesAreExchangedWholeOrNotAtAll(t *testing.T) {
	dir, authority := t.TempDir(), listentest.NewAuthority(t, "authority")
	expires := time.Now().Add(time.Hour)
	files := authority.Issue(dir, "first", expires)
	certificates, err := listen.LoadCertificates(files)
	ok(t, err)
	is := func(want string) {
		t.Helper()
		if name, err := shown(t, certificates, authority.Client()); err != nil || name != want {
			t.Errorf("shown is %q, %v; want %q", name, err, want)
		}
	}
	is("first")
	if changed, err := certificates.Refresh(); changed || err != nil {
		t.Errorf("nothing changed, and a refresh gives %t, %v", changed, err)
	}
	authority.Issue(dir, "second", expires)
	is("first")
	if changed, err := certificates.Refresh(); !changed || err != nil {
		t.Errorf("a renewed pair gives %t, %v", changed, err)
	}
	is("second")
	key, err := os.ReadFile(files.Key)
	ok(t, err)
	authority.Issue(dir, "third", expires)
	ok(t, os.WriteFile(files.Key, key, 0o600)) // the key of the second
	if _, err := certificates.Refresh(); err == nil {
		t.Error("a pair that does not belong together was taken")
	}
	is("second")
}

func TestClientsAreAskedForACertificateOfTheRightAuthority(t *testing.T) {
	authority, clients, strangers := listentest.NewAuthority(t, "authority"), listentest.NewAuthority(t, "clients"), listentest.NewAuthority(t, "strangers")
	expires := time.Now().Add(time.Hour)
	files := authority.Issue(t.TempDir(), "proxy", expires)
	files.ClientCA = clients.File
	certificates, err := listen.LoadCertificates(files)
	ok(t, err)
	if _, err := shown(t, certificates, authority.Client()); err == nil {
		t.Error("a client without a certificate got in")
	}
	if _, err := shown(t, certificates, authority.Client(strangers.Issue(t.TempDir(), "stranger", expires))); err == nil {
		t.Error("a client with a stranger's certificate got in")
	}
	if _, err := shown(t, certificates, authority.Client(clients.Issue(t.TempDir(), "late", time.Now().Add(-time.Minute)))); err == nil {
		t.Error("a client whose certificate has ended got in")
	}
	if name, err := shown(t, certificates, authority.Client(clients.Issue(t.TempDir(), "client", expires))); err != nil || name != "proxy" {
		t.Errorf("a client with a certificate: %q, %v", name, err)
	}
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
