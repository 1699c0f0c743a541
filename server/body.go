package server

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
)

// readBody is the request's body, decompressed. It is valid until the handler returns, and not to be changed. Its size
// has been taken from the byte budget; the caller gives it back.
func (s *Server) readBody(in *edge.Request) ([]byte, error) {
	if contentType := in.ContentType(); !isJSON(contentType) {
		return nil, codec.Errorf(codec.KindUnsupportedMedia, "The body must be JSON and say so: send it with Content-Type: application/json, not %s.", edge.Printable(contentType))
	}
	body := in.Body() // within the limit, beyond which hertz reads none
	encoding := strings.ToLower(strings.TrimSpace(in.Header("Content-Encoding")))
	if encoding == "" || encoding == "identity" {
		return body, s.reserve(int64(len(body)))
	}
	return s.decompress(encoding, body)
}

// isJSON reports whether a content type is JSON, parameters aside. No content type at all is taken as JSON: some
// clients leave it out.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "" || media == "application/json" || strings.HasSuffix(media, "+json")
}

// reserve takes n bytes from the budget of request bodies, or gives the error for the client.
func (s *Server) reserve(n int64) error {
	if s.bodies.Take(n) {
		return nil
	}
	e := codec.Errorf(codec.KindOverloaded, "The proxy is holding as many request bodies as it has room for. Try again in a second.")
	e.RetryAfter = edge.RetrySoon
	return e
}

// smallestWindow is added for zstd, which has to be allowed a window even where the limit is tiny.
const smallestWindow = 64 << 10

// decompress unpacks a body up to the limit. The room is reserved first, all of it: what a compressed body unpacks to
// is not known before it is done.
func (s *Server) decompress(encoding string, packed []byte) ([]byte, error) {
	var from io.Reader
	switch encoding {
	case "gzip":
		unzip, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, codec.Errorf(codec.KindInvalidRequest, "The body is not gzip as its Content-Encoding says.")
		}
		from = unzip
	case "zstd":
		unzip, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(s.opts.BodyBytes)+smallestWindow))
		if err != nil {
			return nil, codec.Errorf(codec.KindInvalidRequest, "The body is not zstd as its Content-Encoding says.")
		}
		defer unzip.Close()
		from = unzip
	default:
		return nil, codec.Errorf(codec.KindUnsupportedMedia, "The body's Content-Encoding is %s; gzip and zstd are read here.", edge.Printable(encoding))
	}
	if err := s.reserve(s.opts.BodyBytes); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(from, s.opts.BodyBytes+1))
	s.bodies.Give(s.opts.BodyBytes)
	if errors.Is(err, zstd.ErrDecoderSizeExceeded) || errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return nil, edge.TooLarge(s.opts.BodyBytes)
	}
	if err != nil {
		return nil, codec.Errorf(codec.KindInvalidRequest, "The body cannot be unpacked: it is not whole %s.", encoding)
	}
	if int64(len(body)) > s.opts.BodyBytes {
		return nil, edge.TooLarge(s.opts.BodyBytes)
	}
	return body, s.reserve(int64(len(body)))
}
