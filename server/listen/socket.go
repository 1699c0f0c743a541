package listen

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// socketMode lets the owner and the group of the socket connect. Whoever connects needs a service key all the same.
const socketMode = 0o660

// A socket is opened under another name and moved into place with its mode; who owns the name is settled by a lock.
const (
	freshSuffix = ".new"
	lockSuffix  = ".lock"
)

// ErrSocketInUse says that another server listens on the socket.
var ErrSocketInUse = errors.New("another server listens there")

// socket is a unix socket of which this process is the only owner. Close removes it.
type socket struct {
	*net.UnixListener
	path string
	lock *os.File
	once sync.Once
}

// openSocket opens a socket in place of one that a killed server left behind. The lock beside it ends with the process
// that holds it, so nothing is taken from a server that runs; a file that is no socket is left alone.
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

func bindSocket(path string) (*net.UnixListener, error) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, err
	case info.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("%s is there and is no socket; take it away, or choose another path", path)
	default:
		if conn, err := net.Dial("unix", path); err == nil { //nolint:noctx // a local socket answers or refuses at once
			_ = conn.Close()
			return nil, ErrSocketInUse // of another program, which knows nothing of our lock
		}
	}
	fresh := path + freshSuffix
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false)
	// Under its final name the socket has its mode from the start.
	if err := errors.Join(os.Chmod(fresh, socketMode), os.Rename(fresh, path)); err != nil {
		_ = listener.Close()
		_ = os.Remove(fresh)
		return nil, err
	}
	return listener, nil
}

// Close removes the socket. It may be called more than once.
func (s *socket) Close() error {
	err := s.UnixListener.Close()
	s.once.Do(func() {
		_ = os.Remove(s.path)
		unlock(s.lock)
	})
	return err
}

// Addr names the path that clients connect to, not the one the socket was opened under.
func (s *socket) Addr() net.Addr { return &net.UnixAddr{Name: s.path, Net: "unix"} }

// lockFile locks a file for this process, or fails with [ErrSocketInUse] at once. What is locked is the file under that
// very name: one that its owner has just removed is passed over.
func lockFile(name string) (*os.File, error) {
	for {
		file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			_ = file.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrSocketInUse
			}
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

// Unwrap gives the listener under it. Closing that one leaves the socket's file in place.
func (s *socket) Unwrap() net.Listener { return s.UnixListener }
