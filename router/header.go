package router

import (
	"net/textproto"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// Headers that go upstream to any provider, by canonical name. All others stay here unless the provider's family reads
// them: hop-by-hop headers, our own (X-Service-*), cookies, credentials, forwarding headers.
var passesToAll = []string{"User-Agent", "Idempotency-Key"}

// Headers that go upstream only to the vendor that defines them: they identify its customers, turn on its features or
// report its SDK. An entry that ends in "-" is a prefix.
var passesToFamily = map[codec.Family][]string{
	codec.FamilyAnthropic: {
		"Anthropic-", // version, beta (passed unchecked), user-profile-id, workspace-id, dangerous-direct-browser-access
		"X-App", "X-Claude-Code-", "X-Stainless-",
	},
	codec.FamilyOpenAI: {
		"Openai-", // organization, project, beta
		"X-Client-Request-Id", "X-Stainless-",
		"Originator", "Session-Id", "Thread-Id", "Conversation-Id", "Version", "X-Codex-", "X-Openai-", "X-Oai-", // Codex
	},
	codec.FamilyOther: {
		// Hosts with their own Messages endpoint distinguish SDK versions by these.
		"Anthropic-Version", "Anthropic-Beta",
	},
}

var traceHeaders = []string{"Traceparent", "Tracestate"}

// Headers that are passed back to the client, by canonical name: those that SDKs and agents read.
var passesDownstream = newHeaderNames([]string{
	"Request-Id", "X-Request-Id", "X-Ds-Trace-Id",
	"Retry-After", "Retry-After-Ms", "X-Should-Retry",
	"X-Ratelimit-", "Anthropic-", "Openai-", "X-Codex-",
})

// passesOn are the headers that go upstream to any provider with what is passed on as it is, besides those that always
// do: they describe the body, or the part of an answer that is wanted.
var passesOn = newHeaderNames([]string{
	"Accept", "Content-Type", "Content-Encoding", "Content-Range", "Range", "If-Range", "X-Goog-Upload-",
})

// passesBack are those that go downstream with such an answer, besides those that always do.
var passesBack = newHeaderNames([]string{
	"Accept-Ranges", "Content-Disposition", "Content-Range", "Etag", "Last-Modified",
	"X-Goog-Upload-Status", "X-Goog-Upload-Chunk-Granularity", "X-Goog-Upload-Size-Received",
})

// PassesBack reports whether a provider's header may reach the client with the answer to such a request.
func PassesBack(name string) bool { return PassesDownstream(name) || passesBack.has(name) }

// headerPolicy builds the headers of a request from an allow-list.
type headerPolicy struct {
	passing   headerNames
	userAgent string          // if the client has none
	formats   []formatHeaders // by the format's number
}

// formatHeaders are headers that a format adds to a request that lacks them, and those of other formats that it
// removes.
type formatHeaders struct {
	added   Header
	foreign []string
}

func headersByFormat() (list []formatHeaders) {
	known := crossing.Formats()
	for _, f := range known {
		var h formatHeaders
		for _, header := range crossing.Traits(f).HTTP.Headers {
			h.added.Set(header[0], header[1])
		}
		for _, other := range known {
			if other != f {
				h.foreign = append(h.foreign, crossing.Traits(other).HTTP.Own...)
			}
		}
		list = append(list, make([]formatHeaders, int(f)+1-len(list))...)
		list[f] = h
	}
	return list
}

func newHeaderPolicy(family codec.Family, c *Config) headerPolicy {
	names := slices.Concat(passesToAll, passesToFamily[family])
	if c.TraceParent {
		names = append(names, traceHeaders...)
	}
	agent := c.UserAgent
	if agent == "" {
		agent = "mneme"
	}
	return headerPolicy{passing: newHeaderNames(names), userAgent: agent, formats: headersByFormat()}
}

const (
	jsonType        = "application/json"
	eventStreamType = "text/event-stream"
)

// build makes the headers of a call.
func (h *headerPolicy) build(c *Call, credential Credential) Header {
	out := make(Header, 0, len(c.Header)+6)
	var malformed []string
	for _, f := range c.Header {
		switch {
		case !h.passing.has(f.Name) && (c.Operation != Pass || !passesOn.has(f.Name)):
		case validHeaderValue(f.Value):
			out = append(out, f)
		default:
			malformed = append(malformed, f.Name)
		}
	}
	for _, name := range malformed {
		out.Del(name)
	}
	switch c.Operation {
	case Pass:
		h.complete(&out, c.Format, credential)
		return out
	case ListModels:
	default:
		out.Set("Content-Type", jsonType)
	}
	if c.Operation == Embed {
		// A list that is split into several requests must not get the first one's answer for all of them; and making
		// vectors twice is harmless.
		out.Del("Idempotency-Key")
	}
	accepted := jsonType
	if c.Stream {
		accepted = eventStreamType
	}
	out.Set("Accept", accepted)
	h.complete(&out, c.Format, credential)
	return out
}

// complete adds what every call has.
func (h *headerPolicy) complete(out *Header, format codec.Format, credential Credential) {
	out.Set("Accept-Encoding", "identity")
	if !out.Has("User-Agent") {
		out.Set("User-Agent", h.userAgent)
	}
	if int(format) < len(h.formats) {
		own := &h.formats[format]
		for _, name := range own.foreign {
			out.Del(name)
		}
		for _, f := range own.added {
			if !out.Has(f.Name) {
				*out = append(*out, f)
			}
		}
	}
	if !credential.IsZero() {
		out.Set(textproto.CanonicalMIMEHeaderKey(credential.Header), credential.Value)
	}
}

// PassesDownstream reports whether a provider's header may reach the client. name is in canonical form.
func PassesDownstream(name string) bool { return passesDownstream.has(name) }

// headerNames are canonical header names and prefixes.
type headerNames struct {
	whole      map[string]bool
	beginnings []string
}

// newHeaderNames treats an entry that ends in "-" as a prefix.
func newHeaderNames(entries []string) headerNames {
	n := headerNames{whole: make(map[string]bool)}
	for _, entry := range entries {
		if strings.HasSuffix(entry, "-") {
			n.beginnings = append(n.beginnings, entry)
		} else {
			n.whole[entry] = true
		}
	}
	return n
}

func (n *headerNames) has(name string) bool {
	if n.whole[name] {
		return true
	}
	for _, beginning := range n.beginnings {
		if strings.HasPrefix(name, beginning) {
			return true
		}
	}
	return false
}

// validHeaderValue reports whether v is a valid header value (RFC 9110, section 5.5).
func validHeaderValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
