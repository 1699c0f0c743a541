package server

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/turns"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Recalled text is inserted after a person's words at the start of a turn. It is decided once, is on record before the
// request goes upstream, and is inserted again at its place, with the same bytes, in every later request of the
// conversation. So each request begins with all of the previous one, and the provider's prompt cache keeps hitting.
// Neither the client nor the index ever sees it: the record has the original request.

// requestRecall recalls in requests.
type requestRecall struct {
	options recall.Options
	from    recall.Recaller
	notes   Recollections
	places  turns.Reader // of recollections
	log     *slog.Logger
}

// wanted reports whether anything is recalled for a request to a model. An "off" in the configuration, the key or the
// header wins.
func (c *requestRecall) wanted(r *request) bool {
	o, key := &c.options, r.caller.Recall
	if o.Requests == recall.RequestsOff || key == store.KeyRecallOff || crossing.Traits(r.surface).Client.TextBlock == "" {
		return false
	}
	asked := r.in.Header(headerRecall)
	if asked != "" {
		return !strings.EqualFold(asked, "off")
	}
	if r.in.Header(headerStrict) == "1" {
		return false
	}
	return o.Requests == recall.RequestsOn || key == store.KeyRecallOn || slices.Contains(o.Accounts, r.caller.Account)
}

// tokensAsked returns how many tokens may be recalled, if the client says so.
func (r *request) tokensAsked() int {
	text, _ := strings.CutPrefix(r.in.Header(headerRecall), "tokens=")
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return recall.DefaultTokens
	}
	return min(n, recall.MaxTokens)
}

// insert inserts what is recalled into a request that is on record, and returns what that was; nil if there is nothing to
// say of it. If anything fails, the request goes on unchanged. Recalled text comes from the memory, so a key without the
// scope to read that gets none, neither new text nor that of earlier turns.
func (c *requestRecall) insert(ctx context.Context, r *request, capture store.Recording, o *record.Opening) *record.RecallInfo {
	switch {
	case o.Auxiliary != "" && o.Auxiliary != record.AuxiliaryTokens, o.NativeAgent != "", capture.Shed():
		return nil // the client's own request, a subagent's, or one that is not recorded
	case !r.caller.Scopes.Has(store.ScopeRead):
		return &record.RecallInfo{Reason: string(recall.ReasonScope)}
	}
	of := recollecting{requestRecall: c, ctx: ctx, request: r, capture: capture, session: conversationOf(o)}
	return of.insert(o)
}

// recollecting is the recall for one request.
type recollecting struct {
	*requestRecall
	ctx     context.Context
	request *request
	capture store.Recording
	session string // the client's id of the conversation; "" without one
}

// mostIDs bounds the ids in a header. The record has all.
const mostIDs = 24

func recallHeader(r *record.RecallInfo) string {
	text := "none; reason=" + r.Reason
	if len(r.Exchanges) > 0 {
		text = fmt.Sprintf("hits=%d; tokens=%d; ids=%s", len(r.Exchanges), r.Tokens, strings.Join(r.Exchanges[:min(len(r.Exchanges), mostIDs)], ","))
	}
	if r.Replayed > 0 {
		text += fmt.Sprintf("; replayed=%d", r.Replayed)
	}
	return text
}

// Reasons for silence that only requests have.
const (
	reasonLate   = "late"    // the turn has continued before anything was decided
	reasonNoTurn = "no_turn" // no person says anything
	reasonFormat = "format"  // the answer has to be JSON of a schema
)

func (c *recollecting) insert(o *record.Opening) *record.RecallInfo {
	r := c.request
	failed := &record.RecallInfo{Reason: string(recall.ReasonFailed)}
	q := turns.Request{Body: o.Body, Envelope: &r.envelope, Scope: recallScope(o.Account, o.Project), Pieces: r.blocks, Prints: r.prints}
	if len(o.Redacted) > 0 { // places are positions in the record, which is shorter
		q.Envelope, q.Pieces, q.Prints = new(codec.Envelope), nil, nil
		if q.Envelope.Read(o.Body) != nil || len(q.Envelope.Items) != len(r.envelope.Items) {
			return failed
		}
	}
	places := c.places.Places(&q)
	if len(places) == 0 {
		return &record.RecallInfo{Reason: reasonNoTurn}
	}
	found, err := c.decided(r.caller.Account, places, c.session)
	if err != nil {
		c.log.Error("what was recalled before cannot be read", "exchange", c.capture.ID(), "error", err)
		return failed
	}
	info := new(record.RecallInfo)
	last := len(places) - 1
	switch {
	case found[last] != nil:
	case !places[last].Newest:
		info.Reason = reasonLate
	default:
		found[last] = c.decide(places, q.Envelope.Items[places[last].Item].Of(o.Body), o.Project, found)
	}
	for _, before := range found[:last] {
		if before != nil && before.Text != "" {
			info.Replayed++
		}
	}
	if now := found[last]; now != nil {
		info.Reason, info.Coverage = now.Reason, now.Coverage
		if now.Text != "" {
			info.Exchanges, info.Tokens, info.Reason = now.Quotes, now.Tokens, ""
		}
	}
	if !r.insert(insertions(r.surface, r.body, &r.envelope, places, found)) {
		return failed
	}
	return info
}

// recallScope separates the conversations of accounts and projects: the same words open turns in many.
func recallScope(account, project string) string { return account + "\x00" + project }

// conversationOf returns the client's id for the conversation, or "".
func conversationOf(o *record.Opening) string {
	for _, id := range []string{o.ChatKey, o.ExternalSession, o.NativeSession, o.Conversation} {
		if id != "" {
			return recallScope(o.Account, o.Project) + "\x00" + id
		}
	}
	return ""
}

// decided returns what was decided at places: by everything said up to them, else by the session, which never decides
// for the newest one.
func (c *requestRecall) decided(account string, places []turns.Place, session string) ([]*record.Recollection, error) {
	keys := make([]record.RecollectionKey, len(places))
	for i := range places {
		keys[i] = record.RecollectionKey(places[i].Key)
	}
	found, err := c.notes.Recollections(account, keys)
	if err != nil || session == "" {
		return found, err
	}
	var missing []int
	for i := range places {
		if found[i] == nil && !places[i].Newest {
			missing = append(missing, i)
		}
	}
	if len(missing) == 0 {
		return found, nil
	}
	keys = keys[:0]
	for _, key := range turns.SessionKeys(session, places, missing) {
		keys = append(keys, record.RecollectionKey(key))
	}
	bySession, err := c.notes.Recollections(account, keys)
	for i, r := range bySession {
		found[missing[i]] = r
	}
	return found, err
}

// decide asks what to recall at the newest place, and returns what is stored of that: silence if nothing can be.
func (c *recollecting) decide(places []turns.Place, item []byte, project string, before []*record.Recollection) *record.Recollection {
	q := recall.Query{Account: c.request.caller.Account, Prompt: c.places.Said(item), Project: project, Tokens: c.request.tokensAsked(), Asked: c.request.in.Header(headerRecall) != ""}
	spent := 0
	for i, r := range before {
		if r != nil {
			q.Given = append(q.Given, r.Quotes...)
			if !places[i].Summed { // what was lost and given again counts by itself
				spent += r.Tokens
			}
		}
	}
	r := recall.Recalled{Reason: reasonFormat}
	switch {
	case spent >= recall.SessionTokens:
		r.Reason = recall.ReasonBudget
	case !c.request.wantsSchema():
		if c.capture.Recorded(c.ctx) == nil {
			q.Session = c.capture.SessionID()
		}
		if places[len(places)-1].Summed {
			r = c.resume(q)
		}
		if r.Text == "" {
			q.Tokens = min(q.Tokens, recall.SessionTokens-spent)
			r = c.from.Recall(c.ctx, &q)
		}
	}
	decision := record.Recollection{Exchange: c.capture.ID(), Text: r.Text, Reason: string(r.Reason), Coverage: r.Coverage, Tokens: r.Tokens}
	for i := range r.Hits {
		decision.Quotes = append(decision.Quotes, r.Hits[i].Exchanges()...)
	}
	newest := len(places) - 1
	keys := []record.RecollectionKey{record.RecollectionKey(places[newest].Key)}
	if c.session != "" {
		keys = append(keys, record.RecollectionKey(turns.SessionKeys(c.session, places, []int{newest})[0]))
	}
	holds, err := c.notes.Recollect(c.ctx, c.request.caller.Account, keys, decision)
	if err != nil {
		c.log.Error("what was recalled could not be kept", "exchange", c.capture.ID(), "error", err)
		return &record.Recollection{Reason: string(recall.ReasonFailed)}
	}
	return holds
}

// resumeTime bounds how long a request waits for what its conversation said and did before the client compacted it.
const resumeTime = time.Second

// resume gives a conversation that the client has compacted what it said and did before.
func (c *recollecting) resume(q recall.Query) recall.Recalled {
	ctx, cancel := context.WithTimeout(c.ctx, resumeTime)
	defer cancel()
	q.Tokens = 0
	return c.from.Resume(ctx, &q)
}

// wantsSchema reports whether a chat client wants JSON of a schema; more text in the question does not help there.
func (r *request) wantsSchema() bool {
	format := scan.Get(r.body, "response_format")
	return scan.String(scan.Get(format, "type")) == "json_schema"
}

// insertions returns the texts to insert, with their places in a body.
func insertions(surface codec.Format, body []byte, e *codec.Envelope, places []turns.Place, found []*record.Recollection) (all []codec.Insertion) {
	for i, of := range found {
		if of != nil && of.Text != "" {
			all = append(all, turns.Insertions(&crossing.Traits(surface).Client, body, e.Items[places[i].Item], of.Text)...)
		}
	}
	return all
}

// insert inserts text into the body. It returns false, and changes nothing, if there is no room for it.
func (r *request) insert(insertions []codec.Insertion) bool {
	if len(insertions) == 0 {
		return true
	}
	size := int64(len(r.body))
	for i := range insertions {
		size += int64(len(insertions[i].Text))
	}
	if r.share.Take(size) != nil {
		return false
	}
	whole := len(r.envelope.Items) == 1 && r.envelope.Items[0].Start == insertions[0].At // the input was a string
	buffer := upstreamBodies.Get().(*[]byte)
	*buffer = r.envelope.Insert((*buffer)[:0], r.body, insertions)
	r.body, r.buffer = *buffer, buffer
	if whole {
		chatKey, external := r.envelope.ChatKey, r.envelope.ExternalSession
		r.envelope.Reset()
		_ = r.envelope.Read(r.body) // the body was and stays well-formed
		r.envelope.ChatKey, r.envelope.ExternalSession = chatKey, external
		r.blocks, r.prints = nil, nil
		return true
	}
	pieces, prints := r.envelope.Blocks(nil), slices.Clone(r.prints)
	for i := range pieces {
		if pieces[i].End-pieces[i].Start != r.blocks[i].End-r.blocks[i].Start {
			copy(prints[i:], codec.Fingerprints(nil, r.caller.Account, r.body, pieces[i:i+1]))
		}
	}
	r.blocks, r.prints = pieces, prints
	return true
}

// asSent returns a recorded request as it was sent, with what was recalled for it.
func (c *requestRecall) asSent(surface codec.Format, account string, x *record.Exchange) []byte {
	var e codec.Envelope
	if e.Read(x.RawRequest) != nil {
		return x.RawRequest
	}
	places := c.places.Places(&turns.Request{Body: x.RawRequest, Envelope: &e, Scope: recallScope(account, x.Project)})
	found, err := c.decided(account, places, "")
	if err != nil {
		return x.RawRequest
	}
	all := insertions(surface, x.RawRequest, &e, places, found)
	if len(all) == 0 {
		return x.RawRequest
	}
	return e.Insert(nil, x.RawRequest, all)
}
