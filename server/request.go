package server

import (
	"cmp"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/clients"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// request is a client's request. admit and read make it; after that only lazily derived values and recalled text change
// it.
type request struct {
	in        *edge.Request
	surface   codec.Format
	auxiliary string // why this is not a turn, if the path says so; see hints
	started   time.Time

	caller    caller
	redactor  *redact.Redactor        // also masks the credentials of the caller and of the account; nil if nothing is masked
	previous  elsewhere               // the answer that it continues
	continues *responses.Conversation // that its connection remembers; nil: none

	at        *router.Provider // that the path names; nil: the model's
	addressed *addressed       // the path says what is asked of which model; nil: the body does
	passing   *passing         // of the surface pass; nil: of another one

	share    edge.Share // of the memory of all requests and answers
	body     []byte     // decompressed; valid until the handler returns
	buffer   *[]byte    // of body, if something is recalled; from upstreamBodies
	size     int64      // of body, once that has been dropped
	working  bool       // it is the turn of its large body
	beyond   int64      // bytes reserved for the work on it
	unread   bool       // the body did not arrive, or not as it should
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
		keepBuffer(r.buffer)
		r.body, r.buffer = nil, nil
	}
}

// dropBody drops the body when the provider has it and it is on record: an answer may take minutes. Texts that are views of
// it are kept.
func (r *request) dropBody() {
	r.size = int64(len(r.body))
	r.envelope.Detach()
	r.blocks, r.prints = nil, nil
	r.body, r.buffer = nil, nil // not pooled again: others may have views of it
	r.in.DropBody()
	r.share.GiveAll()
}

// bodySize returns the size of the body, also when it has been dropped.
func (r *request) bodySize() int64 { return max(r.size, int64(len(r.body))) }

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

// readBody reads the request body, of at most so many bytes when it is decompressed. It is valid until the handler returns and must not be changed.
func (r *request) readBody(most int64) error {
	if contentType := r.in.ContentType(); !isJSON(contentType) {
		return codec.Errorf(codec.KindUnsupportedMedia, "The body must be JSON and say so: send it with Content-Type: application/json, not %s.", edge.Printable(contentType))
	}
	encoding := strings.ToLower(strings.TrimSpace(r.in.Header("Content-Encoding")))
	var err error
	if encoding == "" || encoding == "identity" {
		r.body, err = r.in.ReadBody(&r.share)
		r.unread = err != nil
		return err
	}
	r.body, err = r.decompress(encoding, most)
	return err
}

// isJSON reports whether a content type is JSON, ignoring parameters. A missing content type counts as JSON: some
// clients leave it out.
func isJSON(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	return media == "" || media == "application/json" || strings.HasSuffix(media, "+json")
}

// smallestWindow is added for zstd, which needs a window even if the limit is tiny.
const smallestWindow = 64 << 10

// decompress unpacks a body up to the limit as it arrives.
func (r *request) decompress(encoding string, limit int64) ([]byte, error) {
	packed := &packedBody{from: r.in.BodyReader()}
	body, err := r.unpack(encoding, packed, limit)
	switch {
	case packed.err != nil:
		r.unread = true
		return nil, packed.err
	case errors.Is(err, zstd.ErrDecoderSizeExceeded), errors.Is(err, zstd.ErrWindowSizeExceeded):
		return nil, edge.TooLarge(limit)
	case err == nil:
		return body, nil
	}
	if known := new(codec.Error); errors.As(err, &known) {
		return nil, known
	}
	return nil, codec.Errorf(codec.KindInvalidRequest, "The body cannot be unpacked: it is not whole %s, as its Content-Encoding says.", encoding)
}

func (r *request) unpack(encoding string, packed io.Reader, limit int64) ([]byte, error) {
	var from io.Reader
	switch encoding {
	case "gzip", "x-gzip": // RFC 9110, 8.4.1.3
		unzip, err := gzip.NewReader(packed)
		if err != nil {
			return nil, err
		}
		from = unzip
	case "zstd":
		window := limit + smallestWindow
		unzip, err := zstd.NewReader(packed, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(window)))
		if err != nil {
			return nil, err
		}
		defer unzip.Close()
		from = unzip
	case "deflate":
		unzip, err := zlib.NewReader(packed)
		if err != nil {
			return nil, err
		}
		from = unzip
	default:
		return nil, codec.Errorf(codec.KindUnsupportedMedia, "The body's Content-Encoding is %s; gzip, deflate and zstd are read here.", edge.Printable(encoding))
	}
	return edge.ReadAll(&r.share, from, -1, limit)
}

// packedBody keeps the error with which a body could not be read, which decompressors hide.
type packedBody struct {
	from io.Reader
	err  error
}

func (p *packedBody) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		p.err = err
	}
	return n, err
}

// splitFrom is the size in bytes from which a body is split as it is read: that saves time even if nothing is recorded.
const splitFrom = 8 << 10

// read reads the top level of the body, and lets the headers override its members. known are blocks of earlier requests.
func (r *request) read(known *codec.Succession) (err error) {
	if len(r.body) < splitFrom {
		err = r.envelope.Read(r.body)
	} else if r.prints, err = r.envelope.ReadPieces(r.body, r.caller.Account, known); err == nil {
		r.blocks = r.envelope.Blocks(nil)
	}
	if err != nil {
		return err
	}
	if err := r.envelope.RequireModel(); err != nil {
		return err
	}
	return r.preferHeaders()
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
	if r.auxiliary == record.AuxiliaryTokens {
		return 0
	}
	if r.passing != nil {
		return r.passing.estimatedTokens(r.bodySize())
	}
	size := max(r.bodySize(), r.in.Announced(), r.in.Received()) // the latter may be compressed
	return size/bytesPerToken + 1
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
func (r *request) clientHeaders() []record.HeaderField {
	var fields []record.HeaderField
	for _, name := range clients.KeptHeaders {
		if value := r.in.Header(name); value != "" {
			fields = append(fields, record.HeaderField{Name: name, Value: value})
		}
	}
	return fields
}

// project returns the project of the request: from a header, else the directory that the client states.
func (r *request) project() string {
	if name := project.Clean(r.in.Header(headerProject)); name != "" {
		return name
	}
	if !r.surface.Converses() {
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

// elsewhere is what other nodes of the cluster said of an exchange: that they have it, or why they have not. They are asked once
// for a request: an answer that is found later than the session that it belongs to would continue in another one.
type elsewhere struct {
	id    string
	found *record.Exchange
	err   error
}

// storesAnswers reports whether requests of a surface may refer to earlier answers by their ids.
func storesAnswers(surface codec.Format) bool { return crossing.Traits(surface).Client.StoredAnswers }

// recordsAnswers is [storesAnswers] by a surface's recorded name.
func recordsAnswers(surface string) bool {
	format, err := codec.ParseFormat(surface)
	return err == nil && storesAnswers(format)
}

// upstreamBodies pools buffers for translated request bodies and for the answers to them. A finished call no longer
// uses its bodies, so other requests can.
var upstreamBodies = sync.Pool{New: func() any { return new([]byte) }}

// mostPooled is the largest buffer that is pooled.
const mostPooled = 1 << 20

func keepBuffer(buffer *[]byte) {
	if cap(*buffer) <= mostPooled {
		upstreamBodies.Put(buffer)
	}
}

// masked returns a client's or provider's text as operators may see it.
func (r *request) masked(text string) string {
	text, _ = r.redactor.Text(text)
	return text
}

// discreet returns e without the credentials in use: providers quote what they refuse.
func (r *request) discreet(e *codec.Error) *codec.Error {
	masked := *e
	for _, text := range []*string{&masked.Message, &masked.Code, &masked.Param} {
		*text = r.redactor.Known(*text)
	}
	if masked == *e {
		return e
	}
	return &masked
}
