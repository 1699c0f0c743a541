package memory

import (
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

func (h *handler) exchanges(c *call) (any, error) {
	var q record.ExchangeQuery
	q.After, q.Before, q.Limit, q.Ascending = c.query.page(false)
	if err := c.query.end(); err != nil {
		return nil, err
	}
	page, err := h.Archive.Exchanges(c.account, q)
	if err != nil {
		return nil, err
	}
	shown := make([]api.Exchange, len(page.Data))
	for i := range page.Data {
		shown[i] = api.NewExchange(&page.Data[i])
	}
	return api.NewList(shown, page.HasMore, func(x *api.Exchange) string { return x.ID }), nil
}

func (h *handler) exchange(c *call) (any, error) {
	include := c.query.list("include")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if len(include) == 0 { // most callers want only the record, and its answer may be long
		info, err := h.Archive.ExchangeInfo(c.account, c.id())
		if err != nil {
			return nil, err
		}
		return api.NewExchange(info), nil
	}
	x, err := h.Archive.Exchange(c.account, c.id())
	if err != nil {
		return nil, err
	}
	shown := api.NewExchange(&x.ExchangeInfo)
	slices.Sort(include)
	for _, part := range slices.Compact(include) { // duplicates must not cost twice
		switch part {
		case "raw_request":
			shown.SetRequest(x.RawRequest)
		case "raw_response":
			shown.SetResponse(x.RawResponse)
		case "normalized":
			shown.Normalized = normalize(x)
		case "asked":
			shown.Asked = lexical.Cut(search.Asked(&record.Turn{Messages: normalize(x).Messages}), mostAsked)
		case "cache":
			shown.Cache = h.caches.Broken(c.account, x)
		default:
			return nil, codec.Invalid("include", "%q cannot be included; known are raw_request, raw_response, normalized, asked and cache", part)
		}
	}
	return shown, nil
}

// mostAsked is how many bytes of a question are shown beside the record of an exchange.
const mostAsked = 300

func normalize(x *record.Exchange) *api.Normalized {
	n := &api.Normalized{Messages: []record.Message{}, Answer: []record.Message{}}
	d, err := digest.Exchange(x)
	if err != nil {
		n.Error = "the request is not one that the surface understands"
		return n
	}
	n.Messages, n.Answer = append(n.Messages, d.Messages...), append(n.Answer, d.Answer...)
	return n
}

func (h *handler) describeExchange(c *call) (any, error) {
	var asked api.ExchangeChange
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	info, err := h.Archive.DescribeExchange(c.account, c.id(), record.Description{Tags: asked.Tags, Note: asked.Note})
	if err != nil {
		return nil, err
	}
	return api.NewExchange(info), nil
}

func (h *handler) eraseExchange(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	selection := record.Selection{Exchanges: []string{c.id()}}
	if _, ok := record.ParseExchangeID(c.id()); !ok {
		return nil, record.NoExchange(c.id())
	}
	there, err := h.Archive.Erase(c.ctx(), c.account, selection, true) // also finds an unreadable one
	if err != nil {
		return nil, err
	}
	if there.Exchanges+there.Open == 0 {
		return nil, record.NoExchange(c.id())
	}
	return h.eraseSelected(c, selection, false)
}
