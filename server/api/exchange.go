package api

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/store"
)

// Exchange is an exchange with the parts of it that were asked for. Its bytes are those that were received, except for what
// Redactions lists as masked. Bytes that are not UTF-8 are base64, as the encoding member beside them says.
type Exchange struct {
	Object string `json:"object,omitempty"` // "memory.exchange"; the management leaves it out
	store.ExchangeInfo
	RawRequest          *string     `json:"raw_request,omitempty"`
	RawRequestEncoding  string      `json:"raw_request_encoding,omitempty"`
	RawResponse         *string     `json:"raw_response,omitempty"`
	RawResponseEncoding string      `json:"raw_response_encoding,omitempty"`
	Normalized          *Normalized `json:"normalized,omitempty"`
}

// ExchangeChange changes what people say of an exchange, as far as its members are not nil.
type ExchangeChange struct {
	Tags []string `json:"tags,omitempty"`
	Note *string  `json:"note,omitempty"` // at most 4,000 bytes
}

// Normalized is the content of an exchange, independent of its format.
type Normalized struct {
	Messages []store.Message `json:"messages"` // the whole history that the request carries
	Answer   []store.Message `json:"answer"`
	Error    string          `json:"error,omitempty"` // why it could not be read
}

// NewExchange gives an exchange of the memory without its bytes.
func NewExchange(info *store.ExchangeInfo) Exchange {
	return Exchange{Object: "memory.exchange", ExchangeInfo: *info}
}

// SetRequest adds the bytes of the request.
func (e *Exchange) SetRequest(raw []byte) {
	e.RawRequest, e.RawRequestEncoding = encodeRaw(raw)
}

// SetResponse adds the bytes of the answer.
func (e *Exchange) SetResponse(raw []byte) {
	e.RawResponse, e.RawResponseEncoding = encodeRaw(raw)
}

// Request gives the bytes of the request, nil where they were not asked for.
func (e *Exchange) Request() ([]byte, error) { return decodeRaw(e.RawRequest, e.RawRequestEncoding) }

// Response gives the bytes of the answer, or the part of them that had arrived; nil where they were not asked for.
func (e *Exchange) Response() ([]byte, error) { return decodeRaw(e.RawResponse, e.RawResponseEncoding) }

const base64Encoding = "base64"

func encodeRaw(raw []byte) (text *string, encoding string) {
	if utf8.Valid(raw) {
		plain := string(raw)
		return &plain, ""
	}
	encoded := base64.StdEncoding.EncodeToString(raw)
	return &encoded, base64Encoding
}

func decodeRaw(text *string, encoding string) ([]byte, error) {
	switch {
	case text == nil:
		return nil, nil
	case encoding == base64Encoding:
		return base64.StdEncoding.DecodeString(*text)
	}
	return []byte(*text), nil
}

// Translation is a request as its client sent it, and as the provider got it.
type Translation struct {
	Object  string `json:"object"` // "memory.translation"
	ID      string `json:"id"`
	Surface string `json:"surface"`
	Format  string `json:"format"`

	Same     bool     `json:"same"`              // client and provider speak one format: bytes went through
	Client   string   `json:"client"`            // the body that the client sent
	Provider string   `json:"provider"`          // that which the provider got, made again by today's rules
	Dropped  []string `json:"dropped"`           // members without a counterpart
	Emulated []string `json:"emulated"`          // members that are honoured by other means
	Problem  string   `json:"problem,omitempty"` // why it cannot be made again
}

// Context is what fills a request. Tokens are estimated: four bytes make one.
type Context struct {
	Object string        `json:"object"` // "memory.context"
	ID     string        `json:"id"`
	Bytes  int64         `json:"bytes"` // of the request
	Parts  []ContextPart `json:"parts"` // by kind, the largest first
	Files  []ContextPart `json:"files"` // results of tools by the file that they are of, the largest first
	Tools  []ContextPart `json:"tools"` // definitions of tools, the largest first
	Woven  []ContextPart `json:"woven"` // what the client put into messages on its own, by kind, the largest first

	Previous string        `json:"previous,omitempty"` // the exchange before in the session, which the prefix is compared with
	Common   int64         `json:"common,omitempty"`   // bytes of the prefix that both have
	Break    *ContextBreak `json:"break,omitempty"`    // nil: this request goes on from all of the one before
}

// ContextPart is a share of a request.
type ContextPart struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`
}

// ContextBreak is where a request stops being the one before with more behind it: caches of prompts end there.
type ContextBreak struct {
	Kind   string    `json:"kind"`   // tools, system, messages
	Index  int       `json:"index"`  // of the block in its kind, from 0
	Before string    `json:"before"` // the beginning of the difference in the request before; "" where it had no more
	Now    string    `json:"now"`
	Tokens int64     `json:"tokens"`        // that had been sent before, and stand behind the difference
	Lost   store.USD `json:"usd,omitempty"` // what they cost more than from a cache
}
