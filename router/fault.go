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

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router/http1"
	"github.com/mnemeproxy/mneme/router/neterr"
)

// phase is how far a call had got when it failed.
type phase uint8

const (
	phaseHeader phase = iota // up to the header of the answer
	phaseBody
)

// fault turns the failure of a call into an error for the client. The message names the provider and host:port, or the
// proxy; the text of err is kept only as the cause.
func (e *endpoint) fault(w *watch, err error, at phase) *codec.Error {
	cause := w.cause()
	var callers *codec.Error
	if errors.As(cause, &callers) {
		return callers
	}
	switch {
	case errors.Is(cause, errFirstByte):
		return e.faultf(codec.KindTimeout, cause, "%s (%s) sent nothing within %v. If the model needs longer, raise timeouts.first_byte.",
			e.peer.name, e.address, e.peer.firstByte)
	case errors.Is(cause, errIdle):
		return e.faultf(codec.KindTimeout, err, "%s (%s) fell silent in the middle of its answer for %v. If the model needs longer, raise timeouts.idle.",
			e.peer.name, e.address, e.peer.idle)
	case errors.Is(cause, context.DeadlineExceeded):
		return e.faultf(codec.KindTimeout, cause, "The time for the call to %s ran out.", e.peer.name)
	case cause != nil:
		return e.faultf(codec.KindUpstream, cause, "The call to %s was cancelled.", e.peer.name)
	}
	if at == phaseBody {
		return e.faultf(codec.KindUpstream, err, "%s (%s) sent an answer that cannot be read to its end%s.", e.peer.name, e.address, howItWasCut(err))
	}
	return e.headerFault(err)
}

func howItWasCut(err error) string {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ": the connection was closed before the end"
	case errors.Is(err, neterr.Reset):
		return ": the connection was reset"
	default:
		return ""
	}
}

func (e *endpoint) headerFault(err error) *codec.Error {
	var refusal *proxyRefusal
	if errors.As(err, &refusal) {
		return e.faultf(codec.KindUpstream, err, "The proxy %s refuses to lead to %s (%s) with HTTP %d: check HTTPS_PROXY and NO_PROXY.",
			refusal.proxy, e.peer.name, e.address, refusal.status)
	}
	if proxy := proxyOf(err); proxy != "" {
		return e.faultf(codec.KindUpstream, err, "The proxy %s on the way to %s (%s) cannot be used: check HTTPS_PROXY, HTTP_PROXY and NO_PROXY.",
			proxy, e.peer.name, e.address)
	}
	var dns *net.DNSError
	var op *net.OpError
	var netErr net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return e.faultf(codec.KindUpstream, err, "%s (%s) cannot be reached: there is no host of that name. Check providers.%s.base_url and this machine's DNS.",
			e.peer.name, e.address, e.peer.name)
	case errors.As(err, &dns):
		return e.faultf(codec.KindUpstream, err, "%s (%s) cannot be reached: its name could not be resolved just now. Check this machine's DNS.",
			e.peer.name, e.address)
	case isTLS(err):
		return e.faultf(codec.KindUpstream, err, "%s (%s) cannot be trusted: %s.", e.peer.name, e.address, tlsReason(err))
	case errors.As(err, &op) && op.Op == "dial":
		return e.dialFault(err)
	case isCut(err):
		return e.faultf(codec.KindUpstream, err, "%s (%s) closed the connection before it answered.", e.peer.name, e.address)
	case errors.As(err, &netErr) && netErr.Timeout():
		return e.faultf(codec.KindTimeout, err, "%s (%s) did not finish the TLS handshake in time.", e.peer.name, e.address)
	case errors.Is(err, http1.ErrHeadTooLarge), strings.Contains(err.Error(), "headers exceeded"): // the latter from net/http
		return e.faultf(codec.KindUpstream, err, "%s (%s) answered with a header of more than %d KiB.", e.peer.name, e.address, maxResponseHeader>>10)
	case errors.Is(err, http1.ErrMalformed), strings.Contains(err.Error(), "malformed"):
		return e.faultf(codec.KindUpstream, err, "%s (%s) answered with something that is not HTTP: check providers.%s.base_url.", e.peer.name, e.address, e.peer.name)
	default:
		return e.faultf(codec.KindUpstream, err, "The call to %s (%s) failed before it answered.", e.peer.name, e.address)
	}
}

func (e *endpoint) dialFault(err error) *codec.Error {
	var netErr net.Error
	switch {
	case errors.Is(err, neterr.Refused):
		return e.faultf(codec.KindUpstream, err, "%s (%s) refuses connections: nothing listens there. Check providers.%s.base_url and whether the server runs.",
			e.peer.name, e.address, e.peer.name)
	case errors.As(err, &netErr) && netErr.Timeout():
		return e.faultf(codec.KindTimeout, err, "%s (%s) did not take the connection in time. Check the network and the firewalls on the way.",
			e.peer.name, e.address)
	default:
		return e.faultf(codec.KindUpstream, err, "%s (%s) cannot be reached over the network.", e.peer.name, e.address)
	}
}

// proxyOf returns the address of the proxy that failed, or "" if the failure is not a proxy's.
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

func (e *endpoint) faultf(kind codec.Kind, cause error, format string, args ...any) *codec.Error {
	return &codec.Error{Kind: kind, Message: fmt.Sprintf(format, args...), Provider: e.peer.name, Cause: cause}
}

// cloudFault returns the error for a call without a credential.
func (e *endpoint) cloudFault(err error) *codec.Error {
	return e.faultf(codec.KindUpstreamAuth, err,
		"There is no credential for %s (%s): mneme found none where the cloud's own tools look for it. Its log says what they said.", e.peer.name, e.address)
}
