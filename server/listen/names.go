package listen

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// Names are the names that clients reach the server by from elsewhere, without ports.
//
// They keep the pages of other sites away from what a browser on this network can reach: a page's own name may be made to
// resolve to our address (DNS rebinding), but Host and Origin go on to name the page's.
type Names []string

// loopbackNames are what this machine calls itself.
var loopbackNames = Names{"localhost", "127.0.0.1", "::1"}

// Refuse says why a request with these headers is not answered, or "". On a loopback listener both have to name this
// machine, or one of the names. Elsewhere they have to name one of those, where there are any; else an Origin has to be
// the Host. A request without an Origin comes from no page.
func (n Names) Refuse(loopback bool, host, origin string) string {
	named := loopback || len(n) > 0
	if named && !n.has(hostname(host)) {
		return "Host names another machine"
	}
	if origin == "" {
		return ""
	}
	from, err := url.Parse(origin)
	switch {
	case err != nil || from.Host == "" || from.Scheme != "http" && from.Scheme != "https":
		return "Origin names no site"
	case named && !n.has(from.Hostname()), !named && !strings.EqualFold(from.Host, host):
		return "Origin names another site"
	}
	return ""
}

func (n Names) has(name string) bool {
	is := func(known string) bool { return strings.EqualFold(known, name) }
	return slices.ContainsFunc(loopbackNames, is) || slices.ContainsFunc(n, is)
}

// hostname is a Host header without its port.
func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// IsLoopback reports whether only this machine can reach the address of a listener.
func IsLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
