package memory

import (
	"encoding/base64"
	"slices"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
)

// Exchange is an exchange with its bytes as received, except for what Redactions lists as masked. Bytes that are not UTF-8
// are base64, as the encoding member beside them says.
type Exchange struct {
	store.ExchangeInfo
	RawRequest          string `json:"raw_request"`
	RawRequestEncoding  string `json:"raw_request_encoding,omitempty"`
	RawResponse         string `json:"raw_response"`
	RawResponseEncoding string `json:"raw_response_encoding,omitempty"`
}

const base64Encoding = "base64"

// NewExchange converts an exchange to its JSON form.
func NewExchange(x *store.Exchange) Exchange {
	e := Exchange{ExchangeInfo: x.ExchangeInfo}
	e.RawRequest, e.RawRequestEncoding = encodeRaw(x.RawRequest)
	e.RawResponse, e.RawResponseEncoding = encodeRaw(x.RawResponse)
	return e
}

// Request returns the bytes of the request.
func (e *Exchange) Request() ([]byte, error) { return decodeRaw(e.RawRequest, e.RawRequestEncoding) }

// Response returns the bytes of the answer, or the part of them that had arrived.
func (e *Exchange) Response() ([]byte, error) { return decodeRaw(e.RawResponse, e.RawResponseEncoding) }

func encodeRaw(raw []byte) (text, encoding string) {
	if utf8.Valid(raw) {
		return string(raw), ""
	}
	return base64.StdEncoding.EncodeToString(raw), base64Encoding
}

func decodeRaw(text, encoding string) ([]byte, error) {
	if encoding == base64Encoding {
		return base64.StdEncoding.DecodeString(text)
	}
	return []byte(text), nil
}

// exchangeInfo is an entry of the list of exchanges.
type exchangeInfo struct {
	Object string `json:"object"` // "memory.exchange"
	store.ExchangeInfo
}

// shownExchange is an exchange with the parts that the caller asked for.
type shownExchange struct {
	exchangeInfo
	RawRequest          *string     `json:"raw_request,omitempty"`
	RawRequestEncoding  string      `json:"raw_request_encoding,omitempty"`
	RawResponse         *string     `json:"raw_response,omitempty"`
	RawResponseEncoding string      `json:"raw_response_encoding,omitempty"`
	Normalized          *normalized `json:"normalized,omitempty"`
}

// normalized is the content of an exchange, independent of its format.
type normalized struct {
	Messages []store.Message `json:"messages"` // the whole history that the request carries
	Answer   []store.Message `json:"answer"`
	Error    string          `json:"error,omitempty"` // why it could not be read
}

func (a *api) exchanges(c *call) (any, error) {
	var q store.ExchangeQuery
	q.After, q.Before, q.Limit, q.Ascending = c.query.page(false)
	if err := c.query.end(); err != nil {
		return nil, err
	}
	page, err := a.Archive.Exchanges(c.account, q)
	if err != nil {
		return nil, err
	}
	shown := make([]exchangeInfo, len(page.Data))
	for i := range page.Data {
		shown[i] = exchangeInfo{Object: "memory.exchange", ExchangeInfo: page.Data[i]}
	}
	return newList(shown, page.HasMore, func(x *exchangeInfo) string { return x.ID }), nil
}

func (a *api) exchange(c *call) (any, error) {
	include := c.query.list("include")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if len(include) == 0 { // most callers want the record alone, and its answer may be long
		info, err := a.Archive.ExchangeInfo(c.account, c.id())
		if err != nil {
			return nil, err
		}
		return shownExchange{exchangeInfo: exchangeInfo{Object: "memory.exchange", ExchangeInfo: *info}}, nil
	}
	x, err := a.Archive.Exchange(c.account, c.id())
	if err != nil {
		return nil, err
	}
	shown := shownExchange{exchangeInfo: exchangeInfo{Object: "memory.exchange", ExchangeInfo: x.ExchangeInfo}}
	slices.Sort(include)
	for _, part := range slices.Compact(include) { // asking twice must not cost twice
		switch part {
		case "raw_request":
			text, encoding := encodeRaw(x.RawRequest)
			shown.RawRequest, shown.RawRequestEncoding = &text, encoding
		case "raw_response":
			text, encoding := encodeRaw(x.RawResponse)
			shown.RawResponse, shown.RawResponseEncoding = &text, encoding
		case "normalized":
			shown.Normalized = normalize(x)
		default:
			return nil, codec.Invalid("include", "%q cannot be included; known are raw_request, raw_response and normalized", part)
		}
	}
	return shown, nil
}

func normalize(x *store.Exchange) *normalized {
	n := &normalized{Messages: []store.Message{}, Answer: []store.Message{}}
	d, err := digest.Exchange(x)
	if err != nil {
		n.Error = "the request is not one that the surface understands"
		return n
	}
	n.Messages, n.Answer = append(n.Messages, d.Messages...), append(n.Answer, d.Answer...)
	return n
}

func (a *api) eraseExchange(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	selection := store.Selection{Exchanges: []string{c.id()}}
	if _, ok := store.ParseExchangeID(c.id()); !ok {
		return nil, codec.Errorf(codec.KindNotFound, "no exchange %q", c.id())
	}
	there, err := a.Archive.Erase(c.ctx(), c.account, selection, true) // also finds one that cannot be read
	if err != nil {
		return nil, err
	}
	if there.Exchanges+there.Open == 0 {
		return nil, codec.Errorf(codec.KindNotFound, "no exchange %q", c.id())
	}
	return a.eraseSelected(c, selection, false)
}
