package router

import (
	"io"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Requests ask for identity. Some hosts and the proxies before them compress anyway, errors most of all; only this
// package has to know.

// maxZstdWindow bounds the memory of one decoder (RFC 9659 allows HTTP senders 8 MiB).
const maxZstdWindow = 8 << 20

var readableEncodings = []string{"", "identity", "gzip", "x-gzip", "zstd"}

func contentEncoding(h Header) string {
	return strings.ToLower(strings.TrimSpace(h.Get("Content-Encoding")))
}

func readable(h Header) bool { return slices.Contains(readableEncodings, contentEncoding(h)) }

// decoded returns the body of an answer without its content encoding, and removes the headers that described the
// encoding.
func decoded(in *incoming) io.ReadCloser {
	encoding := contentEncoding(in.header)
	if encoding == "" || encoding == "identity" {
		return in.body
	}
	in.header.Del("Content-Encoding")
	in.header.Del("Content-Length")
	in.length = -1
	if encoding == "zstd" {
		return &zstdBody{from: in.body}
	}
	return &gzipBody{from: in.body}
}

// gzipBody starts with the first Read, so that nothing waits for the body while the header is passed on.
type gzipBody struct {
	from io.ReadCloser
	gzip *gzip.Reader
}

func (b *gzipBody) Read(p []byte) (int, error) {
	if b.gzip == nil {
		z, err := gzip.NewReader(b.from)
		if err != nil {
			return 0, err
		}
		b.gzip = z
	}
	return b.gzip.Read(p)
}

func (b *gzipBody) Close() error { return b.from.Close() }

type zstdBody struct {
	from io.ReadCloser
	zstd *zstd.Decoder
}

func (b *zstdBody) Read(p []byte) (int, error) {
	if b.zstd == nil {
		// A concurrency of 1 decodes in the calling goroutine.
		z, err := zstd.NewReader(b.from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return 0, err
		}
		b.zstd = z
	}
	return b.zstd.Read(p)
}

func (b *zstdBody) Close() error {
	if b.zstd != nil {
		b.zstd.Close()
	}
	return b.from.Close()
}
