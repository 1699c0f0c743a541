package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/store/filelock"
)

// socketMode lets the owner and the group of the socket connect. A client still needs a service key.
const socketMode = 0o660

// lockSuffix names the file whose lock decides who owns the socket's name.
const lockSuffix = ".lock"

const freshSuffix = ".new"

// FreshName returns the name under which a socket for path is opened before [Place] moves it there. On Windows, where
// sockets have no mode, it is path.
func FreshName(path string) string {
	if runtime.GOOS == "windows" {
		return path
	}
	return path + freshSuffix
}

// Place moves a socket that was opened under [FreshName] to path, so that under path it has its mode from the start.
func Place(path string, mode fs.FileMode) error {
	fresh := FreshName(path)
	if fresh == path {
		return nil
	}
	return errors.Join(os.Chmod(fresh, mode), os.Rename(fresh, path))
}

// ErrSocketInUse means that another server listens on the socket.
var ErrSocketInUse = errors.New("another server listens there")

// socket is a unix socket that only this process owns. Close removes it.
type socket struct {
	*net.UnixListener
	path string
	lock *os.File // nil if a service manager owns the name
	once sync.Once

	stays atomic.Bool // Close leaves the file for the program that takes over the socket
}

// openSocket opens a socket, replacing one that a killed server left behind. The lock beside it ends with the process
// that holds it, so a running server loses nothing; a file that is not a socket is left alone.
func openSocket(path string) (net.Listener, error) {
	lock, err := lockFile(path + lockSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no directory %s", filepath.Dir(path))
	}
	if err != nil {
		return nil, err
	}
	listener, err := bindSocket(path)
	if err != nil {
		unlock(lock)
		return nil, err
	}
	return &socket{UnixListener: listener, path: path, lock: lock}, nil
}

// adoptSocket takes over a socket that was open before this process.
func adoptSocket(path string, from inherited) (net.Listener, error) {
	adopted := &socket{UnixListener: from.Listener.(*net.UnixListener), path: path}
	if from.address == "" {
		adopted.stays.Store(true)
		return adopted, nil
	}
	var err error
	if adopted.lock, err = lockFile(path + lockSuffix); err != nil {
		return nil, errors.Join(err, from.Close())
	}
	return adopted, nil
}

func bindSocket(path string) (*net.UnixListener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s exists and is not a socket; remove it, or choose another path", path)
	default:
		if conn, err := net.Dial("unix", path); err == nil { //nolint:noctx // a local socket answers or refuses at once
			_ = conn.Close()
			return nil, ErrSocketInUse // of another program, which does not use our lock
		}
	}
	fresh := FreshName(path)
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	if err := Place(path, socketMode); err != nil {
		_ = listener.Close()
		_ = os.Remove(fresh)
		return nil, err
	}
	return listener, nil
}

// Close removes the socket, unless it is handed over or belongs to a service manager. It may be called more than once.
func (s *socket) Close() error {
	err := s.UnixListener.Close()
	s.once.Do(func() {
		if !s.stays.Load() {
			_ = os.Remove(s.path)
		}
		if s.lock != nil {
			unlock(s.lock)
		}
	})
	return err
}

// Addr returns the path that clients connect to, not the one the socket was opened under.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// lockFile locks a file for this process, or fails with [ErrSocketInUse] at once. It locks the file that has that name
// now: one that its owner has just removed is skipped.
func lockFile(name string) (*os.File, error) {
	for {
		file, err := filelock.Lock(name)
		if errors.Is(err, filelock.ErrHeld) {
			return nil, ErrSocketInUse
		}
		if err != nil {
			return nil, err
		}
		if isUnder(name, file) {
			return file, nil
		}
		_ = file.Close()
	}
}

func isUnder(name string, file *os.File) bool {
	there, err := os.Stat(name)
	if err != nil {
		return false
	}
	held, err := file.Stat()
	return err == nil && os.SameFile(there, held)
}

func unlock(lock *os.File) {
	_ = os.Remove(lock.Name())
	_ = lock.Close()
}

// Unwrap returns the net package's listener under one that was opened here. Closing that one leaves a socket's file in
// place.
func Unwrap(listener net.Listener) net.Listener {
	if s, ok := listener.(*socket); ok {
		return s.UnixListener
	}
	return listener
}
