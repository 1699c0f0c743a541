package api

import (
	"encoding/base64"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/store/record"
)

// Exchange is an exchange with its requested parts. Its bytes are those that were received, except for what Redactions
// lists as masked. Bytes that are not UTF-8 are encoded as base64, which the corresponding encoding member says.
type Exchange struct {
	Object string `json:"object,omitempty"` // "memory.exchange"; omitted by the management API
	record.ExchangeInfo
	RawRequest          *string     `json:"raw_request,omitempty"`
	RawRequestEncoding  string      `json:"raw_request_encoding,omitempty"`
	RawResponse         *string     `json:"raw_response,omitempty"`
	RawResponseEncoding string      `json:"raw_response_encoding,omitempty"`
	Normalized          *Normalized `json:"normalized,omitempty"`
	Asked               string      `json:"asked,omitempty"` // the beginning of a person's last words in the request
	Cache               *CacheBreak `json:"cache,omitempty"` // what broke its prompt cache; nil: nothing
}

// ExchangeChange changes those parts of an exchange's description that are not nil.
type ExchangeChange struct {
	Tags []string `json:"tags,omitempty"`
	Note *string  `json:"note,omitempty"` // at most 4,000 bytes
}

// Normalized is the content of an exchange, independent of its format.
type Normalized struct {
	Messages []record.Message `json:"messages"` // the whole history that the request carries
	Answer   []record.Message `json:"answer"`
	Error    string           `json:"error,omitempty"` // why it could not be decoded
}

// NewExchange returns an exchange of the memory API without its bytes.
func NewExchange(info *record.ExchangeInfo) Exchange {
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

// Request returns the bytes of the request; nil if they were not requested.
func (e *Exchange) Request() ([]byte, error) { return decodeRaw(e.RawRequest, e.RawRequestEncoding) }

// Response returns the bytes of the answer, or those that had arrived; nil if they were not requested.
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

	Same     bool     `json:"same"`              // client and provider use the same format: bytes were passed through
	Client   string   `json:"client"`            // body that the client sent
	Provider string   `json:"provider"`          // body that the provider got, translated again by the current rules
	Dropped  []string `json:"dropped"`           // members without a counterpart
	Emulated []string `json:"emulated"`          // members that are honored in another way
	Problem  string   `json:"problem,omitempty"` // why it cannot be translated again
}

// Context is the composition of a request. Tokens are estimated at four bytes each.
type Context struct {
	Object string        `json:"object"` // "memory.context"
	ID     string        `json:"id"`
	Bytes  int64         `json:"bytes"` // of the request
	Parts  []ContextPart `json:"parts"` // by kind, the largest first
	Files  []ContextPart `json:"files"` // results of tools by file, the largest first
	Tools  []ContextPart `json:"tools"` // definitions of tools, the largest first
	Woven  []ContextPart `json:"woven"` // what the client added to messages by itself, by kind, the largest first

	Previous string        `json:"previous,omitempty"` // exchange before it in the session, which the prefix is compared with
	Common   int64         `json:"common,omitempty"`   // bytes of the common prefix
	Break    *ContextBreak `json:"break,omitempty"`    // nil: this request continues all of the previous one
	Cache    *CacheBreak   `json:"cache,omitempty"`    // nil: this request read what the previous one left in a cache, or it left nothing
}

// ContextPart is a part of a request.
type ContextPart struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
	Bytes int64  `json:"bytes"`
}

// ContextBreak is where a request diverges from the previous one before the latter's end: prompt caches end there.
type ContextBreak struct {
	Kind   string     `json:"kind"`   // tools, system, messages
	Index  int        `json:"index"`  // of the block in its kind, from 0
	Before string     `json:"before"` // beginning of the difference in the previous request; "" if that had ended
	Now    string     `json:"now"`
	Tokens int64      `json:"tokens"`        // sent before, and located after the difference
	Lost   record.USD `json:"usd,omitempty"` // what they cost more than from a cache
}
