package listen

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
)

// EnvSockets lists the listening sockets that a server hands to the program that replaces it: lines of FD=ADDRESS, with
// the address as in the configuration.
const EnvSockets = "MNEME_SOCKETS"

// firstManagerSocket is the descriptor of the first socket from a service manager, see sd_listen_fds(3).
const firstManagerSocket = 3

// Inherited are listening sockets that were open before this process. A nil one has none.
type Inherited struct {
	sockets   []inherited
	continues bool
}

type inherited struct {
	net.Listener
	address string // in the previous server; "" from a service manager
}

// Inherit takes the sockets of the server that this process replaces, and those of a service manager. Programs started
// by this one do not get them.
func Inherit() (*Inherited, error) {
	var all Inherited
	for line := range strings.Lines(take(EnvSockets)) {
		all.continues = true
		number, address, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		fd, err := strconv.Atoi(number)
		if err != nil || !found {
			return nil, fmt.Errorf("%s has the line %q, which is not FD=ADDRESS; it is set by mneme alone", EnvSockets, line)
		}
		if err := all.add(fd, address); err != nil {
			return nil, err
		}
	}
	count, forPID := take("LISTEN_FDS"), take("LISTEN_PID")
	take("LISTEN_FDNAMES")
	if count == "" || forPID != strconv.Itoa(os.Getpid()) {
		return &all, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_FDS is %q and not a number", count)
	}
	for i := range n {
		if err := all.add(firstManagerSocket+i, ""); err != nil {
			return nil, err
		}
	}
	return &all, nil
}

// Continues reports whether this process replaces an earlier server.
func (i *Inherited) Continues() bool { return i.continues }

func take(variable string) string {
	value := os.Getenv(variable)
	_ = os.Unsetenv(variable)
	return value
}

func (i *Inherited) add(fd int, address string) error {
	file := os.NewFile(uintptr(fd), "socket")
	if file == nil {
		return fmt.Errorf("there is no descriptor %d to listen on", fd)
	}
	defer file.Close() // the listener has a copy
	listener, err := net.FileListener(file)
	if err != nil {
		return fmt.Errorf("descriptor %d, which this process was given to listen on: %w", fd, err)
	}
	i.sockets = append(i.sockets, inherited{listener, address})
	return nil
}

// Open returns the inherited socket of an address, or opens one. TLS is not started here.
func (i *Inherited) Open(a Address) (net.Listener, error) {
	if i != nil {
		for n, s := range i.sockets {
			if !s.is(a) {
				continue
			}
			i.sockets = append(i.sockets[:n:n], i.sockets[n+1:]...)
			if a.Network == "unix" {
				return adoptSocket(a.Name, s)
			}
			return s.Listener, nil
		}
	}
	return Open(a)
}

// CloseRest closes the unused sockets, and returns their addresses.
func (i *Inherited) CloseRest() (addresses []string) {
	if i == nil {
		return nil
	}
	for _, s := range i.sockets {
		addresses = append(addresses, s.Addr().String())
		_ = s.Close()
	}
	i.sockets = nil
	return addresses
}

// is reports whether the socket has an address.
func (s *inherited) is(a Address) bool {
	if s.address != "" {
		return s.address == a.String()
	}
	switch bound := s.Addr().(type) {
	case *net.UnixAddr:
		return a.Network == "unix" && bound.Name == a.Name
	case *net.TCPAddr:
		if a.Network != "tcp" {
			return false
		}
		wanted, err := net.ResolveTCPAddr(a.Network, a.Name)
		return err == nil && wanted.Port == bound.Port && (wanted.IP.Equal(bound.IP) || isEvery(wanted.IP) && isEvery(bound.IP))
	}
	return false
}

// isEvery reports whether an address means every interface.
func isEvery(ip net.IP) bool { return ip == nil || ip.IsUnspecified() }
