package server

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// storedCall is a request of a client of Responses about an answer that it has got: the record is the store of responses,
// for every model.
type storedCall struct {
	proxy   *proxy
	ctx     context.Context
	in      *edge.Request
	out     *edge.Response
	caller  caller
	query   url.Values
	id      string         // as the client says it
	running *backgroundRun // nil: it has ended, or has a client
	*record.Exchange
}

func (s *proxy) stored(do func(*storedCall) error) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		c := &storedCall{proxy: s, ctx: ctx, in: in, out: out, id: in.Param("id")}
		err := c.find()
		if err == nil {
			err = do(c)
		}
		if err != nil {
			s.answerError(out, codec.Responses, asError(err), "")
		}
	}
}

// find reads the exchange that the response belongs to. A key with the scope read may see those of its account, any other
// only those of its own.
func (c *storedCall) find() (err error) {
	if c.caller, err = c.proxy.authenticate(c.in, c.out); err != nil {
		return err
	}
	if c.query, err = url.ParseQuery(c.in.Query()); err != nil {
		return codec.Invalid("", "the query cannot be read: %v", err)
	}
	archive := c.proxy.engine.Archive
	id, ours := exchangeOf(c.id)
	if !ours || !isOwnAnswer(c.id) {
		if id, err = archive.AnsweredAs(c.caller.Account, c.id); err != nil {
			if id = c.proxy.runs.answering(c.caller.Account, c.id); id == "" {
				return c.unknown(err)
			}
		}
	}
	c.running = c.proxy.runs.get(c.caller.Account, id)
	info, err := archive.ExchangeInfo(c.caller.Account, id)
	if err != nil {
		return c.unknown(err)
	}
	if !recordsAnswers(info.Surface) || info.Outcome == record.OutcomeRefused {
		return c.unknown(nil)
	}
	if info.KeyID != c.caller.KeyID {
		if err := c.caller.requireScope(store.ScopeRead); err != nil {
			return err
		}
	}
	if err := c.proxy.holdUntilSent(c.out, info.RequestSize+info.ResponseSize); err != nil {
		return err
	}
	if c.Exchange, err = archive.Exchange(c.caller.Account, id); err != nil {
		return c.unknown(err)
	}
	if scan.IsFalse(scan.Get(c.RawRequest, "store")) {
		return c.unknown(nil)
	}
	return nil
}

// holdUntilSent reserves room in the budget of answers until the answer has been sent.
func (s *proxy) holdUntilSent(out *edge.Response, n int64) error {
	if !s.answers.Take(n) {
		return errAnswersFull()
	}
	out.GiveWhenSent(s.answers, n)
	return nil
}

// unknown returns the error for a response that is not on record, or not to be found, which cause says.
func (c *storedCall) unknown(cause error) error {
	if known := codec.AsError(cause, ""); cause != nil && (known.Kind != codec.KindNotFound || known.RetryAfter > 0) {
		return cause
	}
	e := codec.Errorf(codec.KindNotFound, "Response with id '%s' not found: it is not on record here, or was sent with store: false.", edge.Printable(c.id))
	e.Param = "response_id"
	return e
}

// show answers with the response, or with the events of its stream.
func (c *storedCall) show() error {
	if c.wantsEvents() {
		return c.replay()
	}
	c.answer(c.object())
	return nil
}

// wantsEvents reports whether the client asks for a stream: in the query, or as OpenAI's SDK for Go does, in a body.
func (c *storedCall) wantsEvents() bool {
	if c.query.Get("stream") == "true" {
		return true
	}
	if length := c.in.Announced(); length <= 0 || length > longestBody {
		return false
	}
	share := c.proxy.held.Share()
	defer share.GiveAll()
	body, err := c.in.ReadBody(&share)
	return err == nil && scan.WellFormed(body) && scan.IsTrue(scan.Get(body, "stream"))
}

// longestBody is how much of a body is read where none is needed.
const longestBody = 4 << 10

func (c *storedCall) answer(body []byte) {
	c.out.SetContentType("application/json")
	c.out.SetBody(body)
}

// object returns the response as far as it has got.
func (c *storedCall) object() []byte {
	if object := responses.Stored(c.RawResponse); object != nil {
		object = c.compacted(object)
		if c.inBackground() {
			return responses.AppendRenamed(nil, object, c.id)
		}
		return object
	}
	status, failure := c.state()
	return responses.AppendUnanswered(nil, c.RawRequest, &codec.AnswerOptions{
		ID: c.ID[len("exch_"):], Begun: c.id, Created: c.Started, Model: c.ModelAsked,
	}, status, failure)
}

// compacted returns the response as its client got it: with the compaction, if the exchange is that of a summary.
func (c *storedCall) compacted(object []byte) []byte {
	if c.Auxiliary != record.AuxiliarySummary || !responses.AsksForSummary(c.RawRequest) {
		return object
	}
	summary := responses.Summarized(object)
	if len(summary) == 0 {
		return object
	}
	return responses.WithOutput(object, responses.AppendCompaction(nil, c.ID[len("exch_"):], c.caller.Account, summary))
}

// state returns the status of a response that has no object on record, and why it failed.
func (c *storedCall) state() (status string, failure *codec.Error) {
	switch c.Outcome {
	case record.OutcomeOpen:
		return responses.StatusInProgress, nil
	case record.OutcomeClientClosed:
		return responses.StatusCancelled, nil
	}
	failure = codec.Errorf(codec.KindUpstream, "The answer broke off.")
	if c.Error != nil {
		failure.Message = c.Error.Message
		if kind, known := codec.ParseKind(c.Error.Kind); known {
			failure.Kind = kind
		}
	}
	return responses.StatusFailed, failure
}

// replay answers with the events after starting_after.
func (c *storedCall) replay() error {
	after := int64(-1) // the number of the first event is 0
	if text := c.query.Get("starting_after"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return codec.Invalid("starting_after", "starting_after is the number of an event")
		}
		after = n
	}
	if !c.Stream {
		return codec.Invalid("stream", "this response was not streamed: get it without stream")
	}
	eventHeader(c.out)
	if c.running != nil {
		c.running.follow(c.ctx, c.out, after)
		return nil
	}
	c.out.SetBody(responses.EventsAfter(nil, c.RawResponse, after))
	return nil
}

// inBackground reports whether the client asked for the response in the background.
func (c *storedCall) inBackground() bool { return scan.IsTrue(scan.Get(c.RawRequest, "background")) }

// cancel stops a response in the background, and answers with it. One that has ended stays as it is.
func (c *storedCall) cancel() error {
	switch {
	case !c.inBackground():
		return codec.Invalid("", "only a response in the background can be cancelled: end the request of this one instead")
	case c.running != nil:
		c.running.stop()
		ended, err := c.proxy.engine.Archive.Exchange(c.caller.Account, c.ID)
		if err != nil {
			return c.unknown(err)
		}
		c.Exchange = ended
	case c.Outcome == record.OutcomeOpen:
		return codec.Errorf(codec.KindConflict, "Another node makes this response: cancel it there.")
	}
	c.answer(c.object())
	return nil
}

// delete erases the exchange from the memory.
func (c *storedCall) delete() error {
	if err := c.caller.requireScope(store.ScopeErase); err != nil {
		return err
	}
	if c.Outcome == record.OutcomeOpen {
		return codec.Errorf(codec.KindConflict, "This response is still being made: cancel it, then delete it.")
	}
	if err := c.erase(); err != nil {
		return err
	}
	answerJSON(c.out, struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Deleted bool   `json:"deleted"`
	}{c.id, "response", true})
	return nil
}

// erase returns once the exchange cannot be read any more.
func (c *storedCall) erase() error {
	archive, account := c.proxy.engine.Archive, c.caller.Account
	selection := record.Selection{Exchanges: []string{c.ID}}
	asked, err := json.Marshal(selection)
	if err != nil {
		return err
	}
	err = archive.Audited(store.AuditEntry{Actor: c.caller.KeyID, Action: "memory.erase", Account: account, Asked: asked}, func(entry *store.AuditEntry) error {
		receipt, err := archive.Erase(c.ctx, account, selection, false)
		if err == nil {
			entry.Subject = receipt.ID
		}
		return err
	})
	if err != nil {
		return err
	}
	tick := time.NewTicker(untilErased)
	defer tick.Stop()
	for c.readable() {
		select {
		case <-tick.C:
		case <-c.ctx.Done(): // it goes on in the background
			return nil
		}
	}
	return nil
}

// readable reports whether the exchange is still on record.
func (c *storedCall) readable() bool {
	_, err := c.proxy.engine.Archive.ExchangeInfo(c.caller.Account, c.ID)
	return err == nil
}

// untilErased is how often an erasure is looked at: it takes some milliseconds.
const untilErased = 5 * time.Millisecond

// inputItems answers with a page of what the model was given.
func (c *storedCall) inputItems() error {
	limit, ascending, err := c.page()
	if err != nil {
		return err
	}
	stored := &recorded{answers: c.proxy.engine.Archive, account: c.caller.Account}
	items, err := responses.InputItems(c.RawRequest, c.ID[len("exch_"):], int(c.proxy.opts.BodyBytes), stored)
	if err != nil {
		return err
	}
	if !ascending {
		slices.Reverse(items)
	}
	if after := c.query.Get("after"); after != "" {
		at := slices.IndexFunc(items, func(item []byte) bool { return scan.String(scan.Get(item, "id")) == after })
		if at < 0 {
			return codec.Invalid("after", "the response has no input item %s", edge.Printable(after))
		}
		items = items[at+1:]
	}
	more := len(items) > limit
	items = items[:min(limit, len(items))]
	list := struct {
		Object  string            `json:"object"`
		Data    []json.RawMessage `json:"data"`
		FirstID *string           `json:"first_id"`
		LastID  *string           `json:"last_id"`
		HasMore bool              `json:"has_more"`
	}{Object: "list", Data: make([]json.RawMessage, len(items)), HasMore: more}
	for i, item := range items {
		list.Data[i] = item
		id := scan.String(scan.Get(item, "id"))
		if list.LastID = &id; i == 0 {
			list.FirstID = &id
		}
	}
	answerJSON(c.out, list)
	return nil
}

// The number of items on a page, as OpenAI has it.
const (
	itemsByDefault = 20
	mostItems      = 100
)

// page returns the parameters of a list. The newest item comes first unless the client asks otherwise.
func (c *storedCall) page() (limit int, ascending bool, err error) {
	limit = itemsByDefault
	if text := c.query.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostItems {
			return 0, false, codec.Invalid("limit", "limit is a number from 1 to %d", mostItems)
		}
	}
	switch order := c.query.Get("order"); order {
	case "", "desc":
		return limit, false, nil
	case "asc":
		return limit, true, nil
	}
	return 0, false, codec.Invalid("order", "order is asc or desc")
}
