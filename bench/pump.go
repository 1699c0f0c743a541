package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"time"
)

// relay is the byte pump, the floor for a proxy written in Go: one goroutine and one upstream connection per client,
// and every read is written at once. It knows just enough of HTTP to see where requests and answers end, checks nothing
// and changes nothing. It is only for this package's load: it recognizes the end of a chunked answer by its last bytes,
// which could also occur in real text.
func relay(ctx context.Context, listener net.Listener, upstream string) error {
	defer context.AfterFunc(ctx, func() { _ = listener.Close() })()
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer client.Close()
			_ = relayClient(client, upstream)
		}()
	}
}

const relayBuffer = 16 << 10

func relayClient(client net.Conn, upstream string) error {
	server, err := net.Dial("tcp", upstream) //nolint:noctx // on the loopback
	if err != nil {
		return err
	}
	defer server.Close()
	in := bufio.NewReaderSize(client, relayBuffer)
	buffer := make([]byte, relayBuffer)
	request := make([]byte, 0, relayBuffer)
	for {
		if request, err = readRequest(in, request[:0]); err != nil {
			return err
		}
		if _, err = server.Write(request); err != nil {
			return err
		}
		if err = relayAnswer(client, server, buffer); err != nil {
			return err
		}
	}
}

func readRequest(in *bufio.Reader, request []byte) ([]byte, error) {
	length := 0
	for {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return nil, err
		}
		request = append(request, line...)
		if len(line) == len("\r\n") {
			break
		}
		if n, ok := contentLength(line); ok {
			length = n
		}
	}
	at := len(request)
	request = append(request, make([]byte, length)...)
	_, err := io.ReadFull(in, request[at:])
	return request, err
}

func contentLength(line []byte) (int, bool) {
	const name = "content-length:"
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], []byte(name)) {
		return 0, false
	}
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[len(name):])))
	return n, err == nil
}

var lastChunk = []byte("0\r\n\r\n")

func relayAnswer(client, server net.Conn, buffer []byte) error {
	n, err := server.Read(buffer)
	if err != nil {
		return err
	}
	head, left := buffer[:n], -1
	end := bytes.Index(head, []byte("\r\n\r\n"))
	if end < 0 {
		return errors.New("the provider's head is not complete in one read")
	}
	for line := range bytes.Lines(head[:end+2]) {
		if length, ok := contentLength(line); ok {
			left = length + end + 4
		}
	}
	var tail [5]byte
	for {
		if _, err := client.Write(buffer[:n]); err != nil {
			return err
		}
		if left >= 0 {
			if left -= n; left == 0 {
				return nil
			}
		} else if push(&tail, buffer[:n]); bytes.Equal(tail[:], lastChunk) {
			return nil
		}
		if n, err = server.Read(buffer); err != nil {
			return err
		}
	}
}

// push keeps the last bytes that passed.
func push(tail *[5]byte, b []byte) {
	if len(b) >= len(tail) {
		copy(tail[:], b[len(b)-len(tail):])
		return
	}
	copy(tail[:], tail[len(b):])
	copy(tail[len(tail)-len(b):], b)
}

// reverseProxy is the floor of the standard library: the cost of a Go gateway that does nothing.
func reverseProxy(ctx context.Context, listener net.Listener, upstream string) error {
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: upstream}) },
		FlushInterval: -1,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 1 << 14, DisableCompression: true},
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("the reverse proxy failed: %w", err)
	}
	return nil
}
