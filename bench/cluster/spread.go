package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"
)

// spread sends each request to any of the edges. It skips edges that cannot be connected to, as a load balancer does.
type spread struct {
	url    string
	server *http.Server
	edges  []*url.URL
}

const requestBytes = 64 << 20 // the limit of edges

func startSpread(ctx context.Context, edges []*node) (*spread, error) {
	s := new(spread)
	for _, n := range edges {
		u, err := url.Parse(n.URL)
		if err != nil {
			return nil, err
		}
		s.edges = append(s.edges, u)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.url = "http://" + listener.Addr().String()
	proxy := &httputil.ReverseProxy{Rewrite: func(*httputil.ProxyRequest) {}, Transport: s, FlushInterval: -1}
	s.server = &http.Server{Handler: proxy, ReadHeaderTimeout: timeout}
	go func() { _ = s.server.Serve(listener) }() // until close
	return s, nil
}

func (s *spread) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		return s.server.Close() // closes open streams
	}
	return nil
}

// RoundTrip tries the edges in any order until one accepts the request.
func (s *spread) RoundTrip(r *http.Request) (answer *http.Response, err error) {
	var body []byte
	if r.Body != nil {
		if body, err = io.ReadAll(io.LimitReader(r.Body, requestBytes)); err != nil {
			return nil, err
		}
	}
	for _, i := range rand.Perm(len(s.edges)) {
		asked := r.Clone(r.Context())
		asked.URL.Scheme, asked.URL.Host = s.edges[i].Scheme, s.edges[i].Host
		asked.Body = io.NopCloser(bytes.NewReader(body))
		answer, err = http.DefaultTransport.RoundTrip(asked)
		var failed *net.OpError
		if err == nil || !errors.As(err, &failed) || failed.Op != "dial" {
			return answer, err
		}
	}
	return nil, err
}
