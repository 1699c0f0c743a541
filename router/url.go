package router

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// Operation is what is asked of a provider.
type Operation uint8

const (
	Generate    Operation = iota // an answer of a model
	CountTokens                  // the size of a prompt
	Embed                        // vectors; in format Gemini a batch
	ListModels                   // the models on offer; GET, no body
)

var operationNames = [...]string{"generate", "count_tokens", "embed", "models"}

// String is the name used in records and metrics.
func (o Operation) String() string {
	if int(o) < len(operationNames) {
		return operationNames[o]
	}
	return "unknown"
}

// parseBaseURL reads a base URL as SDKs take it. The error continues a sentence that names the setting.
func parseBaseURL(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL: write it like https://api.openai.com/v1")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("has to start with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("names no host: write it like https://api.openai.com/v1")
	case u.User != nil:
		return nil, errors.New("holds a user name or password: put the credential into api_key")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("ends in a query or fragment: leave out everything from ? or # on")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// urls are where the operations of one base URL are. Those that do not depend on the model are made once and shared by all
// requests; net/http only reads them.
type urls struct {
	base         *url.URL
	chat         *url.URL
	responses    *url.URL
	embeddings   *url.URL
	messages     *url.URL
	messagesBeta *url.URL // with ?beta=true
	count        *url.URL
	countBeta    *url.URL
	models       *url.URL
	messageList  *url.URL // models in the form of the Messages API
	geminiList   *url.URL
}

func newURLs(base *url.URL, row *Dialect) (urls, error) {
	if row.MessagesBelow != "" && strings.HasSuffix(base.Path, row.MessagesBelow) {
		return urls{}, fmt.Errorf("ends in %s: leave that out, it is added for the Messages format", row.MessagesBelow)
	}
	at := func(root *url.URL, path, query string) *url.URL {
		u := *root
		u.Path += path
		u.RawQuery = query
		return &u
	}
	// Anthropic's SDKs append /v1/messages to a base without a path, OpenAI's take the /v1 as part of the base: a host
	// that speaks both is written the second way.
	messages := *base
	messages.Path = strings.TrimSuffix(messages.Path, "/v1") + row.MessagesBelow + "/v1"
	return urls{
		base:         base,
		chat:         at(base, "/chat/completions", ""),
		responses:    at(base, "/responses", ""),
		embeddings:   at(base, "/embeddings", ""),
		messages:     at(&messages, "/messages", ""),
		messagesBeta: at(&messages, "/messages", "beta=true"),
		count:        at(&messages, "/messages/count_tokens", ""),
		countBeta:    at(&messages, "/messages/count_tokens", "beta=true"),
		models:       at(base, "/models", ""),
		messageList:  at(&messages, "/models", "limit=1000"),
		geminiList:   at(base, "/models", "pageSize=1000"),
	}, nil
}

// of returns where a call goes, or nil when the format has no such operation. The result is not to be changed.
func (u *urls) of(c *Call) *url.URL {
	beta := c.Format == codec.Messages && hasBeta(c.Query)
	switch {
	case c.Operation == ListModels && c.Format == codec.Messages:
		return u.messageList
	case c.Operation == ListModels && c.Format == codec.Gemini:
		return u.geminiList
	case c.Operation == ListModels:
		return u.models
	case c.Format == codec.Gemini:
		return u.gemini(c)
	case c.Operation == CountTokens && c.Format == codec.Messages && beta:
		return u.countBeta
	case c.Operation == CountTokens && c.Format == codec.Messages:
		return u.count
	case c.Operation == Embed && c.Format == codec.Embeddings:
		return u.embeddings
	case c.Operation != Generate:
		return nil
	case c.Format == codec.Messages && beta:
		return u.messagesBeta
	case c.Format == codec.Messages:
		return u.messages
	case c.Format == codec.Chat:
		return u.chat
	case c.Format == codec.Responses:
		return u.responses
	default:
		return nil
	}
}

// gemini names the model in the path, and whether to stream by the method.
func (u *urls) gemini(c *Call) *url.URL {
	var method, query string
	switch {
	case c.Operation == Generate && c.Stream:
		// Without alt=sse the stream is one JSON array (docs/wire/generate-content.md#2.1).
		method, query = ":streamGenerateContent", "alt=sse"
	case c.Operation == Generate:
		method = ":generateContent"
	case c.Operation == CountTokens:
		method = ":countTokens"
	case c.Operation == Embed:
		method = ":batchEmbedContents"
	default:
		return nil
	}
	at := *u.base
	at.Path += "/models/" + c.Model + method
	at.RawPath = u.base.EscapedPath() + "/models/" + url.PathEscape(c.Model) + method
	at.RawQuery = query
	return &at
}

// hasBeta finds beta=true in a client's query, the one parameter that means something upstream.
func hasBeta(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "beta=true" {
			return true
		}
	}
	return false
}
