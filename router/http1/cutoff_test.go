package http1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
)

// A request is ended by its context and by its cutoff alike, whatever it is at.
func TestARequestIsEndedInEveryPhase(t *testing.T) {
	for by, end := range map[string]func(cancel func(), c *Cutoff){
		"context": func(cancel func(), _ *Cutoff) { cancel() },
		"cutoff":  func(_ func(), c *Cutoff) { c.Cut() },
	} {
		t.Run(by, func(t *testing.T) {
			t.Run("before it begins", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r := request()
				r.Cutoff = new(Cutoff)
				end(cancel, r.Cutoff)
				if _, err := client(t, answering(t, "")).Do(ctx, r); err == nil {
					t.Error("it was sent")
				}
			})
			t.Run("connecting", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r := request()
				r.Cutoff = new(Cutoff)
				c := NewClient(Options{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					end(cancel, r.Cutoff)
					<-ctx.Done()
					return nil, ctx.Err()
				}})
				if _, err := c.Do(ctx, r); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
			t.Run("shaking hands", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r := request()
				r.Cutoff = new(Cutoff)
				c := client(t, serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
					_, _ = in.ReadByte()
					end(cancel, r.Cutoff)
					_, _ = io.Copy(io.Discard, c)
				}))
				c.TLS = &tls.Config{ServerName: "h"}
				if _, err := c.Do(ctx, r); err == nil {
					t.Error("it was sent")
				}
			})
			t.Run("waiting for the answer", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r := request()
				r.Cutoff = new(Cutoff)
				o := serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
					awaitRequest(in)
					end(cancel, r.Cutoff)
					_, _ = io.Copy(io.Discard, c)
				})
				if _, err := client(t, o).Do(ctx, r); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				if n := o.opened.Load(); n != 1 {
					t.Errorf("it was sent %d times", n)
				}
			})
			t.Run("on a kept connection", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r := request()
				r.Cutoff = new(Cutoff)
				o := serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
					awaitRequest(in)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
					awaitRequest(in)
					end(cancel, r.Cutoff)
					_, _ = io.Copy(io.Discard, c)
				})
				c := client(t, o)
				if _, _, err := ask(t, c); err != nil {
					t.Fatal(err)
				}
				if _, err := c.Do(ctx, r); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
				if n := o.opened.Load(); n != 1 {
					t.Errorf("%d connections were opened: it was taken for stale", n)
				}
			})
			t.Run("reading the answer", func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				r := request()
				r.Cutoff = new(Cutoff)
				res, err := client(t, serve(t, func(_ int, c net.Conn, in *bufio.Reader) {
					awaitRequest(in)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nh")
					_, _ = io.Copy(io.Discard, c)
				})).Do(ctx, r)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.ReadFull(res, make([]byte, 1))
				go end(cancel, r.Cutoff)
				if _, err := io.ReadAll(res); !errors.Is(err, net.ErrClosed) {
					t.Error(err)
				}
			})
		})
	}
}

// The connection is another request's by then.
func TestWhatEndsARequestDoesNothingOnceItIsOver(t *testing.T) {
	o := answering(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
	c := client(t, o)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		r := request()
		r.Cutoff = new(Cutoff)
		res, err := c.Do(ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res); string(text) != "hi" || err != nil {
			t.Errorf("%q %v", text, err)
		}
		r.Cutoff.Cut()
		cancel()
	}
	if n := o.opened.Load(); n != 1 {
		t.Errorf("%d connections were opened", n)
	}
}
