package router

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/mnemeproxy/mneme/router/http1"
)

// bedrock is Claude on Amazon Bedrock: bodies in Anthropic's format, signed by AWS's rules, streams in AWS's framing
// (docs/wire/hosts.md#bedrock). It finds credentials as AWS's own tools do.
type bedrock struct {
	base   *url.URL
	region string
	signer *signer.Signer
	now    func() time.Time

	mu          sync.Mutex
	credentials aws.CredentialsProvider // nil until the first call
}

const bedrockAnthropic = "bedrock-2023-05-31" // the version of the Messages format there

// bedrockBetas are prefixes of the features that Bedrock knows; it refuses a request that names any other.
var bedrockBetas = []string{
	"computer-use-", "token-efficient-tools-", "interleaved-thinking-", "output-128k-", "dev-full-thinking-", "context-1m-",
	"context-management-", "effort-", "tool-search-tool-", "tool-examples-",
}

func newBedrock(c *ProviderConfig, base *url.URL) wire {
	return &bedrock{base: base, region: c.Region, signer: signer.NewSigner(), now: time.Now}
}

func (b *bedrock) url(c *Call) *url.URL {
	if !publishedByAnthropic(c) || c.Operation != Generate {
		return nil
	}
	method := "/invoke"
	if c.Stream {
		method = "/invoke-with-response-stream"
	}
	// AWS's signature escapes everything in a name except letters, including a colon.
	model := strings.ReplaceAll(url.PathEscape(c.Model), ":", "%3A")
	return under(b.base, "/model/"+model+method, "")
}

func (b *bedrock) request(ctx context.Context, _ *Call, out *outgoing, body []byte) ([]byte, error) {
	body, err := rewritten(body, func(m members) {
		delete(m, "model")
		delete(m, "stream")
		m["anthropic_version"] = json.RawMessage(`"` + bedrockAnthropic + `"`)
		if betas := knownBetas(out.header.Values("Anthropic-Beta")); len(betas) > 0 {
			m["anthropic_beta"], _ = json.Marshal(betas)
		}
	})
	if err != nil {
		return nil, err
	}
	out.header = slices.DeleteFunc(out.header, func(f Field) bool {
		return strings.HasPrefix(f.Name, "Anthropic-") || strings.HasPrefix(f.Name, "X-") || f.Name == "Authorization"
	})
	credentials, err := b.retrieve(ctx)
	if err != nil {
		return nil, err
	}
	request := &http.Request{
		Method: out.method, URL: out.url, Host: out.url.Host, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": out.header.Values("Content-Type")},
	}
	digest := sha256.Sum256(body)
	if err := b.signer.SignHTTP(ctx, credentials, request, hex.EncodeToString(digest[:]), "bedrock", b.region, b.now()); err != nil {
		return nil, err
	}
	for _, f := range http1.HeaderOf(request.Header) {
		out.header.Set(f.Name, f.Value)
	}
	return body, nil
}

func knownBetas(headers []string) (betas []string) {
	for _, header := range headers {
		for beta := range strings.SplitSeq(header, ",") {
			beta = strings.TrimSpace(beta)
			if slices.ContainsFunc(bedrockBetas, func(begin string) bool { return strings.HasPrefix(beta, begin) }) {
				betas = append(betas, beta)
			}
		}
	}
	return betas
}

// retrieve returns credentials, which the official library finds, caches and renews.
func (b *bedrock) retrieve(ctx context.Context) (aws.Credentials, error) {
	b.mu.Lock()
	if b.credentials == nil {
		found, err := config.LoadDefaultConfig(ctx, config.WithRegion(b.region))
		if err != nil {
			b.mu.Unlock()
			return aws.Credentials{}, err
		}
		b.credentials = found.Credentials // cached
	}
	provider := b.credentials
	b.mu.Unlock()
	return provider.Retrieve(ctx)
}

func (*bedrock) answer(c *Call, in *incoming) {
	switch {
	case in.status >= http.StatusBadRequest:
		in.body = &refusal{from: in.body, status: in.status}
		in.header.Set("Content-Type", jsonType)
	case c.Stream:
		in.body = &eventStream{from: in.body, decoder: eventstream.NewDecoder()}
		in.header.Set("Content-Type", eventStreamType)
	default:
		return
	}
	in.length = -1
	in.header.Del("Content-Length")
}

// eventStream reads AWS's frames as server-sent events. It verifies the checksums of a frame before it returns any of
// it.
type eventStream struct {
	from    io.ReadCloser
	decoder *eventstream.Decoder
	payload []byte // room for the next frame
	out     []byte // the output of the next reads
	ended   bool   // an exception has ended the stream
}

func (s *eventStream) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.ended {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

func (s *eventStream) Close() error { return s.from.Close() }

// counted counts the bytes read.
type counted struct {
	from  io.Reader
	bytes int
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	c.bytes += n
	return n, err
}

// next reads one frame. At the end between two frames it returns io.EOF.
func (s *eventStream) next() error {
	begun := counted{from: s.from}
	message, err := s.decoder.Decode(&begun, s.payload[:0])
	switch {
	case errors.Is(err, io.EOF) && begun.bytes > 0:
		return io.ErrUnexpectedEOF
	case err != nil:
		return err
	}
	s.payload = message.Payload
	s.out = s.out[:0]
	if kind := headerOf(&message, ":message-type"); kind != "event" {
		s.ended = true
		s.exception(&message)
		return nil
	}
	if headerOf(&message, ":event-type") != "chunk" {
		return nil // an unknown event
	}
	var chunk struct {
		Bytes string `json:"bytes"`
	}
	if err := json.Unmarshal(message.Payload, &chunk); err != nil {
		return fmt.Errorf("a chunk of the event stream: %w", err)
	}
	event, err := base64.StdEncoding.DecodeString(chunk.Bytes)
	if err != nil {
		return fmt.Errorf("a chunk of the event stream: %w", err)
	}
	if bytes.ContainsAny(event, "\r\n") {
		var compact bytes.Buffer
		if err := json.Compact(&compact, event); err != nil {
			return fmt.Errorf("a chunk of the event stream: %w", err)
		}
		event = compact.Bytes()
	}
	var named struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(event, &named); err != nil || strings.ContainsAny(named.Type, "\r\n") {
		return errors.New("a chunk of the event stream is no event of the Messages format")
	}
	s.out = append(append(append(append(s.out, "event: "...), named.Type...), "\ndata: "...), event...)
	s.out = append(s.out, "\n\n"...)
	return nil
}

// exceptionTypes maps AWS's exceptions in streams to error types of the Messages format.
var exceptionTypes = map[string]string{
	"throttlingException": "rate_limit_error", "validationException": "invalid_request_error",
	"modelTimeoutException": "timeout_error", "serviceUnavailableException": "overloaded_error",
}

func (s *eventStream) exception(message *eventstream.Message) {
	var said struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(message.Payload, &said)
	name := headerOf(message, ":exception-type")
	if name == "" {
		name = headerOf(message, ":error-code")
	}
	text := said.Message
	if text == "" {
		text = "Bedrock ended the stream with " + name
	}
	kind := exceptionTypes[name]
	if kind == "" {
		kind = "api_error"
	}
	s.out = append(append(append(s.out, "event: error\ndata: "...), errorInMessages(kind, text)...), "\n\n"...)
}

func headerOf(message *eventstream.Message, name string) string {
	value := message.Headers.Get(name)
	if value == nil {
		return ""
	}
	return value.String()
}
