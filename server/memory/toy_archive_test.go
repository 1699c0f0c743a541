package memory_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/store"
)

// toyArchive is the least that an engine of memory has to be: it keeps exchanges in a slice, and forgets them with the
// process. What it does not do it refuses.
type toyArchive struct {
	memory.Editor // nil: sessions are not edited here

	mu        sync.Mutex
	accounts  []string
	exchanges []*store.Exchange // by id
	next      int
}

func (a *toyArchive) Begin(_ context.Context, o *store.Opening) (store.Recording, error) {
	if !slices.Contains(a.accounts, o.Account) {
		return nil, codec.Errorf(codec.KindNotFound, "no account %q", o.Account)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	x := &store.Exchange{RawRequest: slices.Clone(o.Body), ExchangeInfo: store.ExchangeInfo{
		ID: fmt.Sprintf("exch_%06d", a.next), Account: o.Account, Started: o.Started, ModelAsked: o.ModelAsked,
		Surface: o.Surface.String(), ChatKey: o.ChatKey,
	}}
	if x.Session = "sess_" + o.ChatKey; o.ChatKey == "" {
		x.Session = fmt.Sprint("sess_", a.next)
	}
	a.exchanges = append(a.exchanges, x)
	return &toyRecording{archive: a, exchange: x}, nil
}

func (a *toyArchive) Off() store.Recording {
	return &toyRecording{archive: a, exchange: &store.Exchange{ExchangeInfo: store.ExchangeInfo{ID: "exch_off"}}}
}

// toyRecording is on record as it is made.
type toyRecording struct {
	archive  *toyArchive
	exchange *store.Exchange
}

func (r *toyRecording) ID() string                     { return r.exchange.ID }
func (r *toyRecording) SessionID() string              { return r.exchange.Session }
func (r *toyRecording) Shed() bool                     { return false }
func (r *toyRecording) Recorded(context.Context) error { return nil }

func (r *toyRecording) Write(p []byte) (int, error) {
	r.archive.mu.Lock()
	defer r.archive.mu.Unlock()
	r.exchange.RawResponse = append(r.exchange.RawResponse, p...)
	return len(p), nil
}

func (r *toyRecording) Finish(c *store.Closing) error {
	r.archive.mu.Lock()
	defer r.archive.mu.Unlock()
	r.exchange.Outcome, r.exchange.Status, r.exchange.LastByte = c.Outcome, c.Status, c.LastByte
	return nil
}

// of returns the exchanges of an account that are wanted, oldest first.
func (a *toyArchive) of(account string, wanted func(*store.Exchange) bool) (found []store.Exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.exchanges {
		if x.Account == account && wanted(x) {
			found = append(found, *x)
		}
	}
	return found
}

func (a *toyArchive) Exchange(account, id string) (*store.Exchange, error) {
	found := a.of(account, func(x *store.Exchange) bool { return x.ID == id })
	if len(found) == 0 {
		return nil, store.NoExchange(id)
	}
	return &found[0], nil
}

func (a *toyArchive) ExchangeInfo(account, id string) (*store.ExchangeInfo, error) {
	x, err := a.Exchange(account, id)
	if err != nil {
		return nil, err
	}
	return &x.ExchangeInfo, nil
}

func (a *toyArchive) Exchanges(account string, q store.ExchangeQuery) (page store.ExchangePage, err error) {
	found := a.of(account, func(x *store.Exchange) bool { return q.After == "" || x.ID < q.After })
	slices.Reverse(found)
	for i := range found {
		if page.HasMore = q.Limit > 0 && len(page.Data) == q.Limit; page.HasMore {
			break
		}
		page.Data = append(page.Data, found[i].ExchangeInfo)
	}
	return page, nil
}

func (a *toyArchive) Sessions(account string, q store.SessionQuery) (page store.SessionPage, err error) {
	for _, x := range a.of(account, func(x *store.Exchange) bool { return q.ChatKey == "" || x.ChatKey == q.ChatKey }) {
		known := slices.IndexFunc(page.Data, func(s store.Session) bool { return s.ID == x.Session })
		if known < 0 {
			known = len(page.Data)
			page.Data = append(page.Data, store.Session{ID: x.Session, Account: account, ChatKey: x.ChatKey})
		}
		page.Data[known].Exchanges++
	}
	return page, nil
}

func (a *toyArchive) Session(account, id string) (*store.Session, error) {
	page, err := a.Sessions(account, store.SessionQuery{})
	for i := range page.Data {
		if page.Data[i].ID == id {
			return &page.Data[i], err
		}
	}
	return nil, store.NoSession(id)
}

func (a *toyArchive) SessionSummary(string, string) (*store.SessionSummary, error) { return nil, nil }

func (a *toyArchive) Timeline(account, session string, _ store.TimelineQuery) (page store.TimelinePage, err error) {
	for _, x := range a.of(account, func(x *store.Exchange) bool { return x.Session == session }) {
		page.Data = append(page.Data, store.TimelineEntry{Exchange: x.ExchangeInfo})
	}
	return page, nil
}

func (a *toyArchive) Usage(_ context.Context, account string) (u store.Usage, err error) {
	u.Exchanges = int64(len(a.of(account, func(*store.Exchange) bool { return true })))
	return u, nil
}

func (a *toyArchive) RetentionOf(string) store.Retention { return store.Retention{} }

func (a *toyArchive) Erase(_ context.Context, account string, sel store.Selection, dryRun bool) (*store.Erasure, error) {
	selected := a.of(account, func(x *store.Exchange) bool { return slices.Contains(sel.Exchanges, x.ID) })
	if !dryRun {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.exchanges = slices.DeleteFunc(a.exchanges, func(x *store.Exchange) bool {
			return slices.ContainsFunc(selected, func(s store.Exchange) bool { return s.ID == x.ID })
		})
	}
	return &store.Erasure{ID: "erase_1", State: store.ErasureDone, Exchanges: int64(len(selected)), DryRun: dryRun}, nil
}

func (a *toyArchive) Erasure(string, string) (*store.Erasure, error) {
	return nil, codec.Errorf(codec.KindNotFound, "erasures are done at once here")
}

func (a *toyArchive) Export(context.Context, string, store.Selection) iter.Seq2[store.Exported, error] {
	return func(yield func(store.Exported, error) bool) {
		yield(store.Exported{}, codec.Errorf(codec.KindNotFound, "there is no export here"))
	}
}

func (a *toyArchive) Subscribe(string, uint64) (*store.Subscription, error) {
	return nil, codec.Errorf(codec.KindNotFound, "there are no events here")
}
