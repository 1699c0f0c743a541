package router

import (
	"context"
	"crypto/tls"
	"net"
	"net/url"
	"sync"

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

// requests are pooled to reuse the memory of their fields.
var requests = sync.Pool{New: func() any { return new(http1.Request) }}

func (d *direct) do(ctx context.Context, out outgoing) (incoming, error) {
	r := requests.Get().(*http1.Request)
	r.Method, r.Target, r.Body, r.Cutoff = out.method, out.url.RequestURI(), out.body.data, out.cutoff
	for name, values := range out.header {
		for _, value := range values {
			r.Fields = append(r.Fields, http1.Field{Name: name, Value: value})
		}
	}
	res, err := d.client.Do(ctx, r)
	clear(r.Fields) // no credential stays in the pool
	*r = http1.Request{Fields: r.Fields[:0]}
	requests.Put(r)
	if err != nil {
		return incoming{}, err
	}
	return incoming{status: res.Status, header: res.Header, body: res, length: res.Length}, nil
}

func (d *direct) close() { d.client.Close() }
