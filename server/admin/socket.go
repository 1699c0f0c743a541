package admin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/mnemeproxy/mneme/server/listen"
)

// SocketName is the socket's name in the data directory.
const SocketName = "admin.sock"

// maxSocketPath is the longest socket path that every system accepts: macOS has 104 bytes with the closing zero, Linux
// 108.
const maxSocketPath = 103

// Listen opens the socket in the data directory, with mode 0600, replacing one that a killed server left behind. The
// caller holds the store's lock, so no other server can be using it. Closing the listener removes the socket.
func Listen(dataDir string) (net.Listener, error) {
	final := filepath.Join(dataDir, SocketName)
	fresh := listen.FreshName(final)
	if err := os.Remove(fresh); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("clear the way for the admin socket: %w", err)
	}
	address, release, err := shorten(fresh)
	if err != nil {
		return nil, err
	}
	defer release()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: address, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open the admin socket in %s: %w", dataDir, err)
	}
	listener.SetUnlinkOnClose(false)
	if err := listen.Place(final, 0o600); err != nil {
		_ = listener.Close()
		_ = os.Remove(fresh)
		return nil, fmt.Errorf("put the admin socket in place: %w", err)
	}
	return &socket{UnixListener: listener, path: final}, nil
}

// socket removes its file on Close, under the name it was moved to.
type socket struct {
	*net.UnixListener
	path string
}

func (s *socket) Close() error {
	err := s.UnixListener.Close()
	if err == nil {
		_ = os.Remove(s.path)
	}
	return err
}

// Running reports whether a server answers on the socket in the data directory.
func Running(ctx context.Context, dataDir string) bool {
	conn, err := dial(ctx, dataDir)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// dial connects to the socket in the data directory.
func dial(ctx context.Context, dataDir string) (net.Conn, error) {
	address, release, err := shorten(filepath.Join(dataDir, SocketName))
	if err != nil {
		return nil, err
	}
	defer release()
	var d net.Dialer
	return d.DialContext(ctx, "unix", address)
}

// shorten returns a socket path that fits into a socket address. A long directory is reached through a symbolic link in
// a temporary directory, which is needed only until the socket is bound or connected; release removes both.
func shorten(path string) (short string, release func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err != nil {
		return "", nil, fmt.Errorf("find the directory of the admin socket: %w", err)
	}
	temporary, err := os.MkdirTemp("", "mneme-")
	if err != nil {
		return "", nil, fmt.Errorf("shorten the path of the admin socket: %w", err)
	}
	release = func() { _ = os.RemoveAll(temporary) }
	link := filepath.Join(temporary, "d")
	if err := os.Symlink(dir, link); err != nil {
		release()
		return "", nil, fmt.Errorf("shorten the path of the admin socket: %w", err)
	}
	short = filepath.Join(link, filepath.Base(path))
	if len(short) > maxSocketPath {
		release()
		return "", nil, fmt.Errorf("the admin socket %s has a path of more than %d bytes, and so has one in %s; choose a shorter data directory, or a shorter TMPDIR",
			path, maxSocketPath, os.TempDir())
	}
	return short, release, nil
}

// unsniffed stops browsers from guessing the content type of answers.
func unsniffed(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		handler.ServeHTTP(w, r)
	})
}

// Serve answers on the listener until ctx is done, and closes it. Running requests then have a second to finish. The
// error is nil if ctx ended it.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           unsniffed(handler),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       30 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.Background(), closingKey{}, ctx.Done())
		},
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(grace) != nil {
			_ = server.Close()
		}
	}()
	err := server.Serve(listener)
	if ctx.Err() == nil {
		return err // the listener failed; ctx ends the goroutine
	}
	<-stopped
	return nil
}

type closingKey struct{}

// closing returns a channel that is closed when the request's server stops, for answers that would last longer.
func closing(r *http.Request) <-chan struct{} {
	c, _ := r.Context().Value(closingKey{}).(<-chan struct{})
	return c
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
