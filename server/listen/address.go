// Package listen opens the listeners of the surfaces: TCP addresses, with or without TLS, and unix sockets. It also
// loads and reloads the certificates.
package listen

import (
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"strings"
)

// Address is where to listen, as an operator writes it: "HOST:PORT", "tls:HOST:PORT" or "unix:PATH".
type Address struct {
	Network string // "tcp" or "unix"
	Name    string // HOST:PORT, or the path of the socket
	TLS     bool   // only for TCP
}

const (
	tlsPrefix  = "tls:"
	unixPrefix = "unix:"
)

// maxSocketPath is the longest socket path that every system accepts, in bytes: macOS has 104 with the closing zero,
// Linux 108. While it is being opened, a socket has a longer name.
const maxSocketPath = 103 - len(freshSuffix)

// Parse reads the text form. Its error describes the fault, without the text.
func Parse(text string) (Address, error) {
	if path, unix := strings.CutPrefix(text, unixPrefix); unix {
		switch {
		case path == "" || filepath.Clean(path) == "/" || strings.HasSuffix(path, "/"):
			return Address{}, fmt.Errorf("needs the path of a socket after %s, such as unix:/run/mneme/mneme.sock", unixPrefix)
		case len(path) > maxSocketPath:
			return Address{}, fmt.Errorf("has a path of %d bytes, and a socket's may have %d; choose a shorter one", len(path), maxSocketPath)
		}
		return Address{Network: "unix", Name: path}, nil
	}
	name, secure := strings.CutPrefix(text, tlsPrefix)
	_, port, err := net.SplitHostPort(name)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return Address{}, fmt.Errorf("is not HOST:PORT; write for example 127.0.0.1:7788, or :7788 for every interface, or port 0 for any free one, " +
			"or tls:HOST:PORT, or unix:PATH")
	}
	return Address{Network: "tcp", Name: name, TLS: secure}, nil
}

// String returns the text form.
func (a Address) String() string {
	switch {
	case a.Network == "unix":
		return unixPrefix + a.Name
	case a.TLS:
		return tlsPrefix + a.Name
	}
	return a.Name
}

// Any reports whether the system chooses the port.
func (a Address) Any() bool { return a.Network == "tcp" && strings.HasSuffix(a.Name, ":0") }

// Origin returns a URL that reaches the address from this machine, "" for a socket or an unknown port.
func (a Address) Origin() string {
	host, port, err := net.SplitHostPort(a.Name)
	if a.Network != "tcp" || err != nil || port == "0" {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http://"
	if a.TLS {
		scheme = "https://"
	}
	return scheme + net.JoinHostPort(host, port)
}

// Bound returns the address with the port that the system chose.
func (a Address) Bound(to net.Addr) Address {
	if a.Any() {
		a.Name = to.String()
	}
	return a
}

// Open opens the address, without TLS.
func Open(a Address) (net.Listener, error) {
	if a.Network == "unix" {
		return openSocket(a.Name)
	}
	return net.Listen(a.Network, a.Name)
}
