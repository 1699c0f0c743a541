package listen

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

// Names are the names by which remote clients reach the server, without ports.
//
// They protect against pages of other sites in a browser on this network: a page's name can be made to resolve to our
// address (DNS rebinding), but Host and Origin still have the page's name.
type Names []string

// loopbackNames are this machine's names for itself.
var loopbackNames = Names{"localhost", "127.0.0.1", "::1"}

// Refuse returns why a request with these headers is refused, or "". On a loopback listener both must name this
// machine, or one of the names. On others they must name one of the names, if there are any; else an Origin must equal
// the Host. A request without an Origin does not come from a page.
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

// hostname returns a Host header without its port.
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
