package record

import (
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// Detach makes the texts of an opening its own: a server's may be views of its buffers. Those of the header are separate,
// because they may be long, and sessions keep some of the others.
func (o *Opening) Detach() {
	o.ModelAsked, o.ModelSent = ModelName(o.ModelAsked), ModelName(o.ModelSent)
	detach(
		&o.Account, &o.KeyID, &o.Provider, &o.ModelAsked, &o.ModelSent, &o.ChatKey, &o.ExternalSession, &o.NativeSession,
		&o.NativeAgent, &o.NativeParent, &o.PreviousResponse, &o.Follows, &o.Conversation, &o.DerivedOpening, &o.DerivedReply,
		&o.Auxiliary, &o.Project, &o.Target, &o.ContentType,
	)
	o.Header = slices.Clone(o.Header)
	texts := make([]*string, 0, 16)
	for i := range o.Header {
		texts = append(texts, &o.Header[i].Name, &o.Header[i].Value)
	}
	detach(texts...)
}

// detach moves texts to memory of their own, which they share.
func detach(texts ...*string) {
	size := 0
	for _, text := range texts {
		size += len(*text)
	}
	var joined strings.Builder
	joined.Grow(size)
	for _, text := range texts {
		joined.WriteString(*text)
	}
	rest := joined.String()
	for _, text := range texts {
		*text, rest = rest[:len(*text)], rest[len(*text):]
	}
}

// InfoOf is the record of an opening, whose texts it shares.
func InfoOf(id string, o *Opening, started time.Time) *ExchangeInfo {
	info := &ExchangeInfo{
		ID: id, Account: o.Account, KeyID: o.KeyID, Started: started.UTC(),
		Surface: o.Surface.String(), Provider: o.Provider, ModelAsked: o.ModelAsked, ModelSent: o.ModelSent,
		Stream: o.Stream, Simulated: o.Simulated, Auxiliary: o.Auxiliary,
		ChatKey: o.ChatKey, ExternalSession: o.ExternalSession, NativeSession: o.NativeSession, NativeAgent: o.NativeAgent,
		Project: o.Project, PreviousResponse: o.PreviousResponse,
		Target: o.Target, RequestType: o.ContentType, RequestSize: int64(len(o.Body)),
		Header: o.Header, Redactions: Redactions(o.Redacted, nil),
	}
	if o.Format != codec.FormatUnknown {
		info.Format = o.Format.String()
	}
	return info
}

// MaxModelName is how many bytes of a model's name are kept. Longer names have no route, but their refusal is recorded,
// and the session record, which lists its models, is written with each exchange.
const MaxModelName = 256

// ModelName returns the part of a model's name that is kept.
func ModelName(name string) string {
	if len(name) <= MaxModelName {
		return name
	}
	return strings.ToValidUTF8(name[:MaxModelName], "")
}

// Close writes into a record how its exchange ended.
func Close(info *ExchangeInfo, c *Closing) {
	info.Outcome = c.Outcome
	info.Status = c.Status
	info.FirstByte, info.LastByte = c.FirstByte.UTC(), c.LastByte.UTC()
	info.ModelServed = c.ModelServed
	info.Usage = UsageInfo(c.Usage)
	if c.Cost != nil {
		cost := *c.Cost // the record outlives the caller's data
		info.Cost = &cost
	}
	info.FinishReason = c.FinishReason
	info.ResponseID = c.ResponseID
	info.ProviderReqID = c.ProviderReqID
	info.Translation = c.Translation
	info.Attempts = c.Attempts
	info.Recall = c.Recall
	info.RequestUnrecorded, info.Repeats, info.Burst = c.Unrecorded, c.Repeats, c.Burst
	if s := c.StandIn; s != nil {
		info.Provider, info.Format, info.ModelSent, info.Simulated = s.Provider, s.Format.String(), s.ModelSent, s.Simulated
	}
	info.ResponseType = c.ContentType
	if c.Error != nil {
		info.Error = &ErrorInfo{Kind: c.Error.Kind.String(), Message: c.Error.Message, Code: c.Error.Code, Param: c.Error.Param}
	}
}
