package router

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router/http1"
)

// phase is how far a call had come when it failed.
type phase uint8

const (
	phaseHeader phase = iota // up to the header of the answer
	phaseBody
)

// fault turns the failure of a call into an error for the client. What is said names the provider and host:port, or
// the proxy; the text of err is only kept as the cause.
func (p *Provider) fault(w *watch, err error, at phase) *codec.Error {
	cause := context.Cause(w.ctx)
	var callers *codec.Error
	if errors.As(cause, &callers) {
		return callers
	}
	switch {
	case errors.Is(cause, errFirstByte):
		return p.faultf(codec.KindTimeout, err, "%s (%s) sent nothing within %v. If the model needs longer, raise timeouts.first_byte.",
			p.name, p.address, p.firstByte)
	case errors.Is(cause, errIdle):
		return p.faultf(codec.KindTimeout, err, "%s (%s) fell silent in the middle of its answer for %v. If the model needs longer, raise timeouts.idle.",
			p.name, p.address, p.idle)
	case errors.Is(cause, context.DeadlineExceeded):
		return p.faultf(codec.KindTimeout, cause, "The time for the call to %s ran out.", p.name)
	case cause != nil:
		return p.faultf(codec.KindUpstream, cause, "The call to %s was cancelled.", p.name)
	}
	if at == phaseBody {
		return p.faultf(codec.KindUpstream, err, "%s (%s) sent an answer that cannot be read to its end%s.", p.name, p.address, howItWasCut(err))
	}
	return p.headerFault(err)
}

func howItWasCut(err error) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ": the connection was closed before the end"
	case errors.Is(err, syscall.ECONNRESET):
		return ": the connection was reset"
	default:
		return ""
	}
}

func (p *Provider) headerFault(err error) *codec.Error {
	var refusal *proxyRefusal
	if errors.As(err, &refusal) {
		return p.faultf(codec.KindUpstream, err, "The proxy %s refuses to lead to %s (%s) with HTTP %d: check HTTPS_PROXY and NO_PROXY.",
			refusal.proxy, p.name, p.address, refusal.status)
	}
	if proxy := proxyOf(err); proxy != "" {
		return p.faultf(codec.KindUpstream, err, "The proxy %s on the way to %s (%s) cannot be used: check HTTPS_PROXY, HTTP_PROXY and NO_PROXY.",
			proxy, p.name, p.address)
	}
	var dns *net.DNSError
	var op *net.OpError
	var netErr net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return p.faultf(codec.KindUpstream, err, "%s (%s) cannot be reached: there is no host of that name. Check providers.%s.base_url and this machine's DNS.",
			p.name, p.address, p.name)
	case errors.As(err, &dns):
		return p.faultf(codec.KindUpstream, err, "%s (%s) cannot be reached: its name could not be resolved just now. Check this machine's DNS.",
			p.name, p.address)
	case isTLS(err):
		return p.faultf(codec.KindUpstream, err, "%s (%s) cannot be trusted: %s.", p.name, p.address, tlsReason(err))
	case errors.As(err, &op) && op.Op == "dial":
		return p.dialFault(err)
	case isCut(err):
		return p.faultf(codec.KindUpstream, err, "%s (%s) closed the connection before it answered.", p.name, p.address)
	case errors.As(err, &netErr) && netErr.Timeout():
		return p.faultf(codec.KindTimeout, err, "%s (%s) did not finish the TLS handshake in time.", p.name, p.address)
	case errors.Is(err, http1.ErrHeadTooLarge), strings.Contains(err.Error(), "headers exceeded"): // the latter by net/http
		return p.faultf(codec.KindUpstream, err, "%s (%s) answered with a header of more than %d KiB.", p.name, p.address, maxResponseHeader>>10)
	case errors.Is(err, http1.ErrMalformed), strings.Contains(err.Error(), "malformed"):
		return p.faultf(codec.KindUpstream, err, "%s (%s) answered with something that is not HTTP: check providers.%s.base_url.", p.name, p.address, p.name)
	default:
		return p.faultf(codec.KindUpstream, err, "The call to %s (%s) failed before it answered.", p.name, p.address)
	}
}

func (p *Provider) dialFault(err error) *codec.Error {
	var netErr net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return p.faultf(codec.KindUpstream, err, "%s (%s) refuses connections: nothing listens there. Check providers.%s.base_url and whether the server runs.",
			p.name, p.address, p.name)
	case errors.As(err, &netErr) && netErr.Timeout():
		return p.faultf(codec.KindTimeout, err, "%s (%s) did not take the connection in time. Check the network and the firewalls on the way.",
			p.name, p.address)
	default:
		return p.faultf(codec.KindUpstream, err, "%s (%s) cannot be reached over the network.", p.name, p.address)
	}
}

// proxyOf is the address of the proxy that failed, or "" when the failure is not a proxy's.
func proxyOf(err error) string {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "proxyconnect" {
		return ""
	}
	var dial *net.OpError
	if errors.As(op.Err, &dial) && dial.Addr != nil {
		return dial.Addr.String()
	}
	return "from the environment"
}

func isTLS(err error) bool {
	var verification *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var alert tls.AlertError
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &alert)
}

func tlsReason(err error) string {
	var record tls.RecordHeaderError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &record):
		return "its base URL says https, but the host does not speak TLS there"
	case errors.As(err, &unknown):
		return "its certificate comes from an authority this machine does not know (SSL_CERT_FILE adds one)"
	case errors.As(err, &host):
		return "its certificate is for another host name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired, or this machine's clock is wrong"
	default:
		return "the TLS handshake failed"
	}
}

func (p *Provider) faultf(kind codec.Kind, cause error, format string, args ...any) *codec.Error {
	return &codec.Error{Kind: kind, Message: fmt.Sprintf(format, args...), Provider: p.name, Cause: cause}
}
