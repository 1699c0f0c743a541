package router

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"

	"github.com/mnemeproxy/mneme/router/http1"
)

// direct is the upstream over our own connections, for every provider that needs neither a proxy nor HTTP/2.
type direct struct{ client *http1.Client }

func newDirect(base *url.URL, t Timeouts) *direct {
	dialer := &net.Dialer{Timeout: t.Dial, KeepAlive: keepAlivePeriod}
	o := http1.Options{
		Address: hostPort(base), Host: base.Host,
		Dial: dialer.DialContext, TLSHandshake: t.TLS,
		Idle: idleConnections, MaxIdle: idlePerHost, MaxHead: maxResponseHeader,
	}
	if base.Scheme == "https" {
		o.TLS = &tls.Config{ServerName: base.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
	}
	return &direct{client: http1.NewClient(o)}
}

func (d *direct) do(ctx context.Context, out outgoing) (incoming, error) {
	res, err := d.client.Do(ctx, &http1.Request{
		Method: out.method, Target: out.url.RequestURI(), Fields: out.header, Body: out.body.data, Cutoff: out.cutoff,
	})
	if err != nil {
		return incoming{}, err
	}
	return incoming{status: res.Status, header: res.Header, body: res, length: res.Length}, nil
}

func (d *direct) close() { d.client.Close() }
