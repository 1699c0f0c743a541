// Package memory is the HTTP API to an account's memory: sessions and turns, exchanges, search, erasures, a live tail,
// export and import. Holders of service keys reach it on the server, the operator on the management socket; both serve
// the same [Handler].
//
//	GET    /v1/memory/sessions                  newest first; filters chat_key, external_id, model, client, project, outcome,
//	                                            tag, parent, since, until. A page with "has_more" may be short or empty:
//	                                            continue after its last_id
//	GET    /v1/memory/sessions/{id}
//	PATCH  /v1/memory/sessions/{id}             {"title", "tags", "note"}
//	GET    /v1/memory/sessions/{id}/timeline    what each exchange added, oldest first
//	GET    /v1/memory/sessions/{id}/cache       what broke the prompt cache, and what that cost
//	GET    /v1/memory/sessions/{id}/forecast    what the next prompt costs, by model (that of the last one)
//	POST   /v1/memory/sessions/{id}/merge       {"into"}
//	POST   /v1/memory/sessions/{id}/split       {"exchange"}: moves it and all later ones to a new session
//	DELETE /v1/memory/sessions/{id}
//	GET    /v1/memory/exchanges                 newest first
//	GET    /v1/memory/exchanges/{id}            ?include=raw_request,raw_response,normalized,asked,cache
//	                                            "redactions" lists what was masked before the raw members were stored
//	PATCH  /v1/memory/exchanges/{id}            {"tags", "note"}
//	GET    /v1/memory/exchanges/{id}/translation  the request as sent to its provider, with what was dropped and emulated
//	GET    /v1/memory/exchanges/{id}/context      what fills the request, and where its prefix differs from the previous turn
//	GET    /v1/memory/exchanges/{id}/messages/{message}/parts/{part}
//	GET    /v1/memory/exchanges/{id}/answer/parts/{part}
//	                                            the bytes of an image; both count from 0, as in "normalized"
//	DELETE /v1/memory/exchanges/{id}
//	POST   /v1/memory/erasures                  a selection, and "dry_run"
//	GET    /v1/memory/erasures/{id}
//	POST   /v1/memory/search                    {"query", "filters", …}, see search.Request; X-Service-Memory-Wait: indexed
//	POST   /v1/memory/recall                    {"prompt", "cwd", …}, see api.RecallRequest; also the body of a client's hook
//	GET    /v1/memory/stats
//	GET    /v1/memory/usage                     tokens and costs, by=day,key,model and the like; since, until
//	GET    /v1/memory/costs                     what tokens were for, by=part,tool,server,skill,subagent,age; of a session or exchange;
//	                                            since, until. A page that is not the last is continued after its last_id
//	GET    /v1/memory/cache                     what broke the prompt caches of all sessions; since (a week ago), until
//	GET    /v1/memory/events                    server-sent events; filters session, key; resumes after Last-Event-ID
//	GET    /v1/memory/export.jsonl              filters session, exchange, chat_key, external_id, since, until, after
//	POST   /v1/memory/imports                   the output of export.jsonl
//
// Lists come as {"object": "list", "data", "first_id", "last_id", "has_more"}; after and before take ids of the list,
// limit 1 to 100 (20), order asc or desc. Times are RFC 3339. Scope read reads, erase erases, and write changes the
// rest.
package memory

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/promptcache"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Options configure a [Handler].
type Options struct {
	Archive  Archive
	Searcher Searcher
	Ledger   Ledger // nil: no usage is reported
	Keys     Keys   // have the labels of keys in usage; nil: there are none
	// Identify returns the account of a caller with the scope. It may be called again during a long answer.
	Identify func(r *http.Request, scope store.Scopes) (account string, err error)
	// Actor names the sender of an identified request for the audit record.
	Actor func(r *http.Request) (string, error)
	// AccountParameter is the query parameter that selects one of several accounts; "": none.
	AccountParameter string
	// LineBytes bounds a line of an import, which is held in memory; 0: 1 GiB.
	LineBytes int
	// Noted is called with the records that a change, a search or an erasure concerns: one, or so many; -1: unknown. nil: nothing
	// has to know.
	Noted func(ctx context.Context, account, record string, count int64)
	// Forget is called when what was read of a request's body is no longer held; nil: nothing has to know.
	Forget func(r *http.Request)
	// Fail answers with an error.
	Fail     func(w http.ResponseWriter, r *http.Request, err error)
	Recaller Recaller // nil: nothing is recalled
	// Translate rebuilds the provider's body of a recorded request; nil: not available.
	Translate Translate
	Prices    promptcache.Prices // what tokens cost; nil: unknown
	Warn      record.USD         // least extra cost at which hooks warn of a lost cache; 0: [promptcache.LeastWarning]; negative: never
	Clock     func() time.Time   // nil: [time.Now]
	Lacks     string             // what has more than Archive, such as "centre": answers say so; "": nothing
	// Closing ends the tails of events when closed; nil: they end with their callers.
	Closing <-chan struct{}
}

// headerDegraded names what an answer lacks.
const headerDegraded = "X-Service-Memory-Degraded"

type handler struct {
	Options
	epoch  string
	caches promptcache.Caches
}

// endpoint answers one request for an account. The answer is encoded as JSON; nil means that the endpoint wrote it
// itself.
type endpoint func(c *call) (answer any, err error)

// call is one request.
type call struct {
	account string
	w       http.ResponseWriter
	r       *http.Request
	query   query
	status  int   // of the answer; 200 unless the endpoint sets it
	records int64 // that it concerns; -1: unknown
}

func (c *call) ctx() context.Context { return c.r.Context() }

func (c *call) id() string { return c.r.PathValue("id") }

func (h *handler) endpoint(scope store.Scopes, serve endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		account, err := h.Identify(r, scope)
		if err != nil {
			h.Fail(w, r, err)
			return
		}
		if h.Lacks != "" {
			w.Header().Set(headerDegraded, h.Lacks)
		}
		c := &call{account: account, w: w, r: r, query: query{values: r.URL.Query()}, status: http.StatusOK, records: -1}
		delete(c.query.values, h.AccountParameter)
		answer, err := serve(c)
		if h.Noted != nil {
			h.Noted(r.Context(), account, c.id(), c.records)
		}
		switch {
		case err != nil:
			h.Fail(w, r, err)
		case answer != nil:
			if list, ok := answer.(interface{ Lacking(whole string) any }); ok && h.Lacks != "" {
				answer = list.Lacking(h.Lacks)
			}
			writeJSON(w, c.status, answer)
		}
	}
}

func (h *handler) stats(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	usage, err := h.Archive.Usage(c.ctx(), c.account)
	if err != nil {
		return nil, err
	}
	stats := api.Stats{Object: "memory.stats", Account: c.account, Usage: usage, Stored: usage.Stored()}
	if h.Recaller != nil {
		stats.Recall = h.Recaller.Counts(c.account)
	}
	stats.Index, err = h.Searcher.Status(c.ctx(), c.account)
	return stats, err
}

// maxBody bounds the JSON of a request, in bytes: a selection may name thousands of exchanges.
const maxBody = 1 << 20

// read decodes the request's body.
func (c *call) read(v any) error {
	if err := c.query.end(); err != nil {
		return err
	}
	err := decodeStrictly(http.MaxBytesReader(c.w, c.r.Body, maxBody), v)
	if err == nil {
		return nil
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return codec.Errorf(codec.KindTooLarge, "The body has more than %d bytes.", maxBody)
	}
	return malformed(err)
}

// decodeStrictly reads one JSON value without unknown members.
func decodeStrictly(r io.Reader, v any) error {
	decoder := json.NewDecoder(r)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		return err
	}
	if _, rest := decoder.Token(); !errors.Is(rest, io.EOF) {
		return errors.New("more than one value")
	}
	return nil
}

// malformed describes the fault of a body.
func malformed(err error) *codec.Error {
	var invalid *codec.Error
	var mistyped *json.UnmarshalTypeError
	switch member, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); { // encoding/json has no type for it
	case unknown:
		invalid = codec.Errorf(codec.KindInvalidRequest, "Unknown member %.60s: check its spelling, and which object it belongs to.", member)
	case errors.As(err, &mistyped) && mistyped.Field != "":
		invalid = codec.Invalid(mistyped.Field, "%s cannot be a JSON %s.", mistyped.Field, mistyped.Value)
	default:
		invalid = codec.Errorf(codec.KindInvalidRequest, "The body is not a single JSON object with the expected members.")
	}
	invalid.Cause = err
	return invalid
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer) // fails only when the caller has left
}

// Translate rebuilds the provider's body of a recorded request.
type Translate func(x *record.Exchange) (body []byte, notes codec.Notes, err error)

// Keys lists the keys of an account, or of all.
type Keys interface {
	List(account string) []store.Key
}
