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
	"github.com/mnemeproxy/mneme/store/record"
)

// toyArchive is the least that an engine of memory has to be: it keeps exchanges in a slice, and forgets them with the
// process. What it does not do it refuses.
type toyArchive struct {
	memory.Editor // nil: sessions are not edited here

	mu        sync.Mutex
	accounts  []string
	exchanges []*record.Exchange // by id
	next      int
}

func (a *toyArchive) Begin(_ context.Context, o *record.Opening) (store.Recording, error) {
	if !slices.Contains(a.accounts, o.Account) {
		return nil, codec.Errorf(codec.KindNotFound, "no account %q", o.Account)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.next++
	x := &record.Exchange{RawRequest: slices.Clone(o.Body), ExchangeInfo: record.ExchangeInfo{
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
	return &toyRecording{archive: a, exchange: &record.Exchange{ExchangeInfo: record.ExchangeInfo{ID: "exch_off"}}}
}

// toyRecording is on record as it is made.
type toyRecording struct {
	archive  *toyArchive
	exchange *record.Exchange
}

func (r *toyRecording) ID() string                     { return r.exchange.ID }
func (r *toyRecording) SessionID() string              { return r.exchange.Session }
func (r *toyRecording) Shed() bool                     { return false }
func (r *toyRecording) Recorded(context.Context) error { return nil }

func (*toyRecording) Omit(int64) {}

func (r *toyRecording) Write(p []byte) (int, error) {
	r.archive.mu.Lock()
	defer r.archive.mu.Unlock()
	r.exchange.RawResponse = append(r.exchange.RawResponse, p...)
	return len(p), nil
}

func (r *toyRecording) Finish(c *record.Closing) error {
	r.archive.mu.Lock()
	defer r.archive.mu.Unlock()
	r.exchange.Outcome, r.exchange.Status, r.exchange.LastByte = c.Outcome, c.Status, c.LastByte
	return nil
}

// of returns the exchanges of an account that are wanted, oldest first.
func (a *toyArchive) of(account string, wanted func(*record.Exchange) bool) (found []record.Exchange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, x := range a.exchanges {
		if x.Account == account && wanted(x) {
			found = append(found, *x)
		}
	}
	return found
}

func (a *toyArchive) Exchange(account, id string) (*record.Exchange, error) {
	found := a.of(account, func(x *record.Exchange) bool { return x.ID == id })
	if len(found) == 0 {
		return nil, record.NoExchange(id)
	}
	return &found[0], nil
}

func (a *toyArchive) ExchangeInfo(account, id string) (*record.ExchangeInfo, error) {
	x, err := a.Exchange(account, id)
	if err != nil {
		return nil, err
	}
	return &x.ExchangeInfo, nil
}

func (a *toyArchive) Exchanges(account string, q record.ExchangeQuery) (page record.ExchangePage, err error) {
	found := a.of(account, func(x *record.Exchange) bool { return q.After == "" || x.ID < q.After })
	slices.Reverse(found)
	for i := range found {
		if page.HasMore = q.Limit > 0 && len(page.Data) == q.Limit; page.HasMore {
			break
		}
		page.Data = append(page.Data, found[i].ExchangeInfo)
	}
	return page, nil
}

func (a *toyArchive) Sessions(account string, q record.SessionQuery) (page record.SessionPage, err error) {
	for _, x := range a.of(account, func(x *record.Exchange) bool { return q.ChatKey == "" || x.ChatKey == q.ChatKey }) {
		known := slices.IndexFunc(page.Data, func(s record.Session) bool { return s.ID == x.Session })
		if known < 0 {
			known = len(page.Data)
			page.Data = append(page.Data, record.Session{ID: x.Session, Account: account, ChatKey: x.ChatKey})
		}
		page.Data[known].Exchanges++
	}
	return page, nil
}

func (a *toyArchive) Session(account, id string) (*record.Session, error) {
	page, err := a.Sessions(account, record.SessionQuery{})
	for i := range page.Data {
		if page.Data[i].ID == id {
			return &page.Data[i], err
		}
	}
	return nil, record.NoSession(id)
}

func (a *toyArchive) SessionSummary(string, string) (*record.SessionSummary, error) { return nil, nil }

func (a *toyArchive) Timeline(account, session string, _ record.TimelineQuery) (page record.TimelinePage, err error) {
	for _, x := range a.of(account, func(x *record.Exchange) bool { return x.Session == session }) {
		page.Data = append(page.Data, record.TimelineEntry{Exchange: x.ExchangeInfo})
	}
	return page, nil
}

func (a *toyArchive) Turn(account, id string) (t record.TimelineEntry, err error) {
	x, err := a.Exchange(account, id)
	if err == nil {
		t.Exchange = x.ExchangeInfo
	}
	return t, err
}

func (a *toyArchive) Usage(_ context.Context, account string) (u record.Usage, err error) {
	u.Exchanges = int64(len(a.of(account, func(*record.Exchange) bool { return true })))
	return u, nil
}

func (a *toyArchive) RetentionOf(string) store.Retention { return store.Retention{} }

func (a *toyArchive) Erase(_ context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error) {
	selected := a.of(account, func(x *record.Exchange) bool { return slices.Contains(sel.Exchanges, x.ID) })
	if !dryRun {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.exchanges = slices.DeleteFunc(a.exchanges, func(x *record.Exchange) bool {
			return slices.ContainsFunc(selected, func(s record.Exchange) bool { return s.ID == x.ID })
		})
	}
	return &record.Erasure{ID: "erase_1", State: record.ErasureDone, Exchanges: int64(len(selected)), DryRun: dryRun}, nil
}

func (a *toyArchive) Erasure(string, string) (*record.Erasure, error) {
	return nil, codec.Errorf(codec.KindNotFound, "erasures are done at once here")
}

func (a *toyArchive) Export(context.Context, string, record.Selection) iter.Seq2[record.Exported, error] {
	return func(yield func(record.Exported, error) bool) {
		yield(record.Exported{}, codec.Errorf(codec.KindNotFound, "there is no export here"))
	}
}

func (a *toyArchive) Subscribe(string, uint64) (*record.Subscription, error) {
	return nil, codec.Errorf(codec.KindNotFound, "there are no events here")
}
