package server

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/server/clients"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/redact"
)

// request is a client's request. admit and read make it; after that only lazily derived values and recalled text change
// it.
type request struct {
	in        *edge.Request
	surface   codec.Format
	auxiliary string // why this is not a turn, if the path says so; see hints
	started   time.Time

	caller   caller
	redactor *redact.Redactor // also masks the credentials of the caller and of the account; nil if nothing is masked
	pass     *quota.Pass      // nil if the key has no limits
	claim    quota.Claim      // on the budgets of the key and the account
	previous elsewhere        // the answer that it continues
	limited  bool             // refused by the limits of the key

	body     []byte  // decompressed; valid until the handler returns
	buffer   *[]byte // of body, if something is recalled; from upstreamBodies
	reserved int64   // bytes taken from the budget of bodies
	envelope codec.Envelope
	blocks   []codec.Span        // of body: its messages, tools and so on; nil until split
	prints   []codec.Fingerprint // of blocks

	openings     *chatkey.Memory // of earlier requests
	conversation chatkey.Keys    // derived from the opening messages, see keys
	derived      bool            // conversation is known
}

// release returns the memory of the body, which must not be read any more.
func (r *request) release() {
	if r.buffer != nil {
		upstreamBodies.Put(r.buffer)
		r.body, r.buffer = nil, nil
	}
}

// preferHeaders lets the headers override the body's members.
func (r *request) preferHeaders() error {
	for _, field := range []struct {
		header string
		value  *string
	}{{headerChatKey, &r.envelope.ChatKey}, {headerExternalSession, &r.envelope.ExternalSession}} {
		value := r.in.Header(field.header)
		if value == "" {
			continue
		}
		if err := codec.CheckContinuity(field.header, value); err != nil {
			return err
		}
		*field.value = value
	}
	return nil
}

// readBody returns the decompressed request body. It is valid until the handler returns and must not be changed. Its
// size has been taken from the byte budget; the caller returns it.
func (s *Server) readBody(in *edge.Request) ([]byte, error) {
	if contentType := in.ContentType(); !isJSON(contentType) {
		return nil, codec.Errorf(codec.KindUnsupportedMedia, "The body must be JSON and say so: send it with Content-Type: application/json, not %s.", edge.Printable(contentType))
	}
	body := in.Body() // within the limit; hertz reads no larger body
	encoding := strings.ToLower(strings.TrimSpace(in.Header("Content-Encoding")))
	if encoding == "" || encoding == "identity" {
		return body, s.reserve(int64(len(body)))
	}
	return s.decompress(encoding, body)
}

// isJSON reports whether a content type is JSON, ignoring parameters. A missing content type counts as JSON: some
// clients leave it out.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "" || media == "application/json" || strings.HasSuffix(media, "+json")
}

// reserve takes n bytes from the budget of request bodies, or returns the error for the client.
func (s *Server) reserve(n int64) error {
	if s.bodies.Take(n) {
		return nil
	}
	e := codec.Errorf(codec.KindOverloaded, "The proxy is holding as many request bodies as it has room for. Try again in a second.")
	e.RetryAfter = edge.RetrySoon
	return e
}

// smallestWindow is added for zstd, which needs a window even if the limit is tiny.
const smallestWindow = 64 << 10

// decompress unpacks a body up to the limit. It reserves the limit first, because the unpacked size is unknown until
// the end.
func (s *Server) decompress(encoding string, packed []byte) ([]byte, error) {
	var from io.Reader
	switch encoding {
	case "gzip", "x-gzip": // RFC 9110, 8.4.1.3
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
	case "deflate":
		unzip, err := zlib.NewReader(bytes.NewReader(packed))
		if err != nil {
			return nil, codec.Errorf(codec.KindInvalidRequest, "The body is not deflate (zlib) as its Content-Encoding says.")
		}
		from = unzip
	default:
		return nil, codec.Errorf(codec.KindUnsupportedMedia, "The body's Content-Encoding is %s; gzip, deflate and zstd are read here.", edge.Printable(encoding))
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

// splitFrom is the size in bytes from which a body is split as it is read: that saves time even if nothing is recorded.
const splitFrom = 8 << 10

// readEnvelope reads the top level of the body. known are blocks of earlier requests.
func (r *request) readEnvelope(known *codec.Succession) (err error) {
	if len(r.body) < splitFrom {
		return r.envelope.Read(r.body)
	}
	if r.prints, err = r.envelope.ReadPieces(r.body, r.caller.Account, known); err == nil {
		r.blocks = r.envelope.Blocks(nil)
	}
	return err
}

// splitLarge returns the blocks of a large body.
func (r *request) splitLarge() []codec.Span {
	if len(r.body) >= splitFrom {
		r.split()
	}
	return r.blocks
}

// split finds the blocks of the body, which an agent sends again with every turn, unless it already has.
func (r *request) split() {
	if r.blocks == nil {
		r.blocks = r.envelope.Blocks(nil)
		r.prints = codec.Fingerprints(make([]codec.Fingerprint, 0, len(r.blocks)), r.caller.Account, r.body, r.blocks)
	}
}

// estimatedTokens estimates the prompt's tokens before the provider has counted them. Counting tokens uses none.
func (r *request) estimatedTokens() int64 {
	if r.auxiliary == store.AuxiliaryTokens {
		return 0
	}
	size := max(len(r.body), len(r.in.Body())) // which may be compressed
	return int64(size/bytesPerToken + 1)
}

// bytesPerToken is the rule of thumb for prompts that no provider has counted yet.
const bytesPerToken = 4

// asksOffRecord reports whether the caller explicitly asks to keep the exchange off the record.
func (r *request) asksOffRecord() bool {
	return strings.EqualFold(r.in.Header(headerCapture), "off")
}

// offRecord reports whether the caller wants the exchange off the record and its account is allowed that. A provider's
// store: false also counts as the wish.
func (r *request) offRecord(mayOptOut []string) bool {
	return (r.asksOffRecord() || r.envelope.StoreOff) && slices.Contains(mayOptOut, r.caller.Account)
}

// client returns what the request says about the program that sent it.
func (r *request) client() *clients.Request {
	return &clients.Request{Headers: r.in, Surface: r.surface, Body: r.body, Envelope: &r.envelope}
}

// clientHeaders returns the headers that are kept with the record.
func (r *request) clientHeaders() []store.HeaderField {
	var fields []store.HeaderField
	for _, name := range clients.KeptHeaders {
		if value := r.in.Header(name); value != "" {
			fields = append(fields, store.HeaderField{Name: name, Value: value})
		}
	}
	return fields
}

// project returns the project of the request: from a header, else the directory that the client states.
func (r *request) project() string {
	if name := project.Clean(r.in.Header(headerProject)); name != "" {
		return name
	}
	if r.surface == codec.Embeddings {
		return ""
	}
	return project.Of(r.body, &r.envelope)
}

// keys are derived from the opening messages, for conversations that nothing else identifies. body is the request's as
// it is stored, so that the digest derives the same keys; if nothing is stored, it is the original. The first call
// decides.
func (r *request) keys(body []byte) chatkey.Keys {
	if !r.derived {
		r.conversation, r.derived = r.openings.Derive(r.caller.Account, r.surface, body, &r.envelope), true
	}
	return r.conversation
}

// affinity returns the key that keeps a conversation in one place: the session, if the client identifies it, else the
// opening messages. It is "", for all sessions of the account, if the provider keeps the conversation and a later
// request can name it without repeating it.
func (r *request) affinity() string {
	session := cmp.Or(r.envelope.ChatKey, r.envelope.ExternalSession, r.client().Hints().Session, r.envelope.Conversation)
	if session != "" || r.envelope.PreviousResponse != "" || storesAnswers(r.surface) && !r.envelope.StoreOff {
		return session
	}
	return r.keys(r.body).Opening
}
