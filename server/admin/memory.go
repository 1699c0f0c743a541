package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// The client side of the memory API and of the store's maintenance.

const (
	memoryRoot       = "/v1/memory/"
	accountParameter = "account"
)

// memoryPath returns a path in the memory of an account; ids in it are escaped.
func memoryPath(account string, query url.Values, parts ...string) string {
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	asked := url.Values{accountParameter: {account}}
	for name, values := range query {
		asked[name] = values
	}
	return memoryRoot + strings.Join(parts, "/") + "?" + asked.Encode()
}

// Sessions returns a page of an account's sessions. The query is that of GET /v1/memory/sessions.
func (c MemoryClient) Sessions(ctx context.Context, account string, query url.Values) (page api.List[api.Session], err error) {
	err = c.call(ctx, http.MethodGet, memoryPath(account, query, "sessions"), nil, &page)
	return page, err
}

// Costs returns what the tokens of an account's exchanges were for.
func (c MemoryClient) Costs(ctx context.Context, account string, query url.Values) (costs api.Costs, err error) {
	err = c.call(ctx, http.MethodGet, memoryPath(account, query, "costs"), nil, &costs)
	return costs, err
}

// Cache returns what broke the prompt caches of an account in the last week.
func (c MemoryClient) Cache(ctx context.Context, account string) (report api.CacheReport, err error) {
	err = c.call(ctx, http.MethodGet, memoryPath(account, nil, "cache"), nil, &report)
	return report, err
}

// Session returns one session.
func (c MemoryClient) Session(ctx context.Context, account, id string) (s api.Session, err error) {
	err = c.call(ctx, http.MethodGet, memoryPath(account, nil, "sessions", id), nil, &s)
	return s, err
}

// Timeline returns a page of a session's turns, oldest first.
func (c MemoryClient) Timeline(ctx context.Context, account, id, after string) (page api.List[api.Turn], err error) {
	query := url.Values{"after": {after}, "limit": {"100"}}
	err = c.call(ctx, http.MethodGet, memoryPath(account, query, "sessions", id, "timeline"), nil, &page)
	return page, err
}

// MergeSession moves the exchanges of a session into another one, and returns that.
func (c MemoryClient) MergeSession(ctx context.Context, account, id, into string) (s api.Session, err error) {
	err = c.call(ctx, http.MethodPost, memoryPath(account, nil, "sessions", id, "merge"), api.SessionMerge{Into: into}, &s)
	return s, err
}

// SplitSession moves an exchange of a session and all later ones into a new session, and returns that.
func (c MemoryClient) SplitSession(ctx context.Context, account, id, exchange string) (s api.Session, err error) {
	err = c.call(ctx, http.MethodPost, memoryPath(account, nil, "sessions", id, "split"), api.SessionSplit{Exchange: exchange}, &s)
	return s, err
}

// Erase starts an erasure, or with DryRun counts what it would erase.
func (c MemoryClient) Erase(ctx context.Context, account string, asked api.NewErasure) (e api.Erasure, err error) {
	err = c.call(ctx, http.MethodPost, memoryPath(account, nil, "erasures"), asked, &e)
	return e, err
}

// Erasure returns the current receipt of an erasure.
func (c MemoryClient) Erasure(ctx context.Context, account, id string) (e api.Erasure, err error) {
	err = c.call(ctx, http.MethodGet, memoryPath(account, nil, "erasures", id), nil, &e)
	return e, err
}

// Stats returns the size of an account's memory.
func (c MemoryClient) Stats(ctx context.Context, account string) (s api.Stats, err error) {
	err = c.call(ctx, http.MethodGet, memoryPath(account, nil, "stats"), nil, &s)
	return s, err
}

// Tail calls tell with an account's events as they happen, until ctx ends or tell returns an error. The query is that
// of GET /v1/memory/events.
func (c MemoryClient) Tail(ctx context.Context, account string, query url.Values, tell func(record.Event) error) error {
	received, err := c.open(ctx, http.MethodGet, memoryPath(account, query, "events"), nil)
	if err != nil {
		return err
	}
	defer received.Close()
	lines := bufio.NewScanner(received)
	for lines.Scan() {
		data, isData := strings.CutPrefix(lines.Text(), "data: ")
		if !isData {
			continue
		}
		var e record.Event
		if json.Unmarshal([]byte(data), &e) != nil {
			break // the last line, cut short
		}
		if err := tell(e); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return lost(errors.Join(lines.Err(), io.ErrUnexpectedEOF))
}

// Export returns an account's export as a stream; the caller closes it. The query is that of GET
// /v1/memory/export.jsonl.
func (c MemoryClient) Export(ctx context.Context, account string, query url.Values) (io.ReadCloser, error) {
	return c.open(ctx, http.MethodGet, memoryPath(account, query, "export.jsonl"), nil)
}

// Import imports an export into an account.
func (c MemoryClient) Import(ctx context.Context, account string, export io.Reader) (done api.Import, err error) {
	received, err := c.open(ctx, http.MethodPost, memoryPath(account, nil, "imports"), export)
	if err != nil {
		return done, err
	}
	defer received.Close()
	if err := json.NewDecoder(received).Decode(&done); err != nil {
		return done, lost(err)
	}
	return done, nil
}

// Check verifies the store's invariants and calls tell with each finding; with repair it corrects what can be derived.
func (c UpkeepClient) Check(ctx context.Context, repair bool, tell func(store.Finding)) (report store.CheckReport, err error) {
	received, err := c.open(ctx, http.MethodPost, "/check?repair="+strconv.FormatBool(repair), nil)
	if err != nil {
		return report, err
	}
	defer received.Close()
	for lines := json.NewDecoder(received); ; {
		var line api.CheckLine
		if err := lines.Decode(&line); err != nil {
			return report, lost(err)
		}
		if line.Report != nil {
			return *line.Report, nil
		}
		if line.Finding != nil {
			tell(*line.Finding)
		}
	}
}

// Backup returns a backup as a stream; the caller closes it. since is the mark of the backup it builds on, 0 for a full
// one.
func (c UpkeepClient) Backup(ctx context.Context, since uint64) (io.ReadCloser, error) {
	return c.open(ctx, http.MethodGet, "/backup?since="+strconv.FormatUint(since, 10), nil)
}

// Compact returns unused space of the store to the volume.
func (c UpkeepClient) Compact(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/compact", nil, nil)
}

// RotateMasterKey replaces the master key.
func (c UpkeepClient) RotateMasterKey(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/master-key/rotate", nil, nil)
}

// Answer returns the answer of an exchange, independent of its format.
func (c MemoryClient) Answer(ctx context.Context, account, id string) ([]record.Message, error) {
	var x api.Exchange
	err := c.call(ctx, http.MethodGet, memoryPath(account, url.Values{"include": {"normalized"}}, "exchanges", id), nil, &x)
	switch {
	case err != nil:
		return nil, err
	case x.Normalized == nil:
		return nil, fmt.Errorf("the server does not say what %s answered; see it with: mneme exchange show %s --raw", id, id)
	case x.Normalized.Error != "":
		return nil, fmt.Errorf("%s: %s", id, x.Normalized.Error)
	}
	return x.Normalized.Answer, nil
}

// ExchangeInfo returns what lists show of an exchange.
func (c MemoryClient) ExchangeInfo(ctx context.Context, account, id string) (x record.ExchangeInfo, err error) {
	err = c.call(ctx, http.MethodGet, memoryPath(account, nil, "exchanges", id), nil, &x)
	return x, err
}
