package opensearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
)

const (
	putTimeout  = time.Minute
	bulkBytes   = 4 << 20     // of a request; the terms of a single turn may have almost a megabyte
	dropTimeout = time.Minute // for all copies of an account; the service continues after that, and is asked again
)

// action is the first line of an operation in a bulk request. With an external version the engine refuses a state that is not
// later than the one that it has.
type action struct {
	ID      string `json:"_id"`
	Routing string `json:"routing"`
	Version int64  `json:"version"`
	Kind    string `json:"version_type"`
}

// document returns the copy of a turn.
func document(c *catalog.Change) object {
	d := object{
		"account": c.Account, "exchange": c.Exchange, "began": c.Turn.Began.UnixMicro(), "length": len(c.Turn.Terms) + 1, "terms": c.Turn.Terms,
	}
	if n := len(c.Turn.Codes); n > 0 && n <= mostDimensions {
		d["embedder"], d[vectorField(n)] = c.Turn.Embedder, c.Turn.Codes
	}
	return d
}

// Put stores the state of turns, or deletes the copies of those that are gone, unless the engine has a later state.
func (x *Index) Put(ctx context.Context, changes []catalog.Change) (outcomes []catalog.Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, putTimeout)
	defer cancel()
	var body bytes.Buffer
	sent := 0 // changes before it
	for i := range changes {
		c := &changes[i]
		if c.Turn != nil && len(c.Turn.Codes) > 0 && len(c.Turn.Codes) <= mostDimensions {
			if err := x.hasVectors(ctx, len(c.Turn.Codes)); err != nil {
				return nil, err
			}
		}
		if err := write(&body, c); err != nil {
			return nil, err
		}
		if body.Len() < bulkBytes && i < len(changes)-1 {
			continue
		}
		some, err := x.bulk(ctx, changes[sent:i+1], body.Bytes())
		if err != nil {
			return nil, err
		}
		outcomes, sent = append(outcomes, some...), i+1
		body.Reset()
	}
	return outcomes, nil
}

// write appends an operation to a bulk request.
func write(body *bytes.Buffer, c *catalog.Change) error {
	kind := "index"
	if c.Turn == nil {
		kind = "delete"
	}
	lines := json.NewEncoder(body)
	lines.SetEscapeHTML(false)
	err := lines.Encode(map[string]action{kind: {documentID(c.Account, c.Exchange), routing(c.Account), c.Version, "external"}})
	if err == nil && c.Turn != nil {
		err = lines.Encode(document(c))
	}
	return err
}

// bulk sends operations, and returns their outcomes.
func (x *Index) bulk(ctx context.Context, changes []catalog.Change, body []byte) ([]catalog.Outcome, error) {
	var answer struct {
		Items []map[string]struct {
			ID     string `json:"_id"`
			Status int
		}
	}
	err := x.call(ctx, http.MethodPost, "/"+x.name+"/_bulk", url.Values{"require_alias": {"true"}}, asLines, body, &answer)
	if err != nil {
		return nil, err
	}
	if len(answer.Items) != len(changes) {
		return nil, fmt.Errorf("the search engine answers to %d of %d changes", len(answer.Items), len(changes))
	}
	outcomes := make([]catalog.Outcome, len(changes))
	for i, item := range answer.Items {
		c := &changes[i]
		done, ok := item["index"]
		if c.Turn == nil {
			done, ok = item["delete"]
		}
		if !ok || done.ID != documentID(c.Account, c.Exchange) {
			return nil, errors.New("the search engine answers to a change that was not sent")
		}
		if outcomes[i] = outcome(done.Status, c.Turn == nil); outcomes[i] == catalog.CopyRefused {
			x.remember(&described{}) // a field may be gone, with the index that had it
		}
	}
	return outcomes, nil
}

// outcome returns what the status of an operation means.
func outcome(status int, deleted bool) catalog.Outcome {
	switch {
	case status >= 200 && status <= 299:
		return catalog.CopyDone
	case status == http.StatusConflict: // it has this state already, or a later one
		return catalog.CopyDone
	case status == http.StatusNotFound && deleted:
		return catalog.CopyDone
	case status == http.StatusNotFound || status == http.StatusTooManyRequests || status >= 500: // the index may have been lost
		return catalog.CopyLater
	}
	return catalog.CopyRefused
}

// DropAccount deletes all copies of an account. done is false if some may be left.
func (x *Index) DropAccount(ctx context.Context, account store.AccountNumber) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, dropTimeout)
	defer cancel()
	if err := x.Refresh(ctx); err != nil { // only what searches see is deleted
		return false, err
	}
	var answer struct {
		TimedOut  bool `json:"timed_out"`
		Total     int64
		Deleted   int64
		Conflicts int64 `json:"version_conflicts"`
		Failures  []json.RawMessage
	}
	parameters := url.Values{"routing": {routing(account)}, "conflicts": {"proceed"}, "refresh": {"true"}}
	err = x.callJSON(ctx, http.MethodPost, "/"+x.name+"/_delete_by_query", parameters, object{"query": all(of(account))}, &answer)
	if isMissing(err) {
		return true, nil // there is no index
	}
	return err == nil && !answer.TimedOut && answer.Conflicts == 0 && len(answer.Failures) == 0 && answer.Deleted == answer.Total, err
}

// Refresh lets searches see what was put before.
func (x *Index) Refresh(ctx context.Context) error {
	err := x.manage(ctx, http.MethodPost, "/"+x.name+"/_refresh", nil)
	if isMissing(err) {
		return nil
	}
	return err
}
