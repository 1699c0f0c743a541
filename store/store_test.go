package store

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func openStore(t testing.TB, opts Options) *Store {
	t.Helper()
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func mustAccount(t testing.TB, s *Store, name string) {
	t.Helper()
	if _, err := s.Accounts().Create(name); err != nil {
		t.Fatal(err)
	}
}

// wantKind fails unless err is a [codec.Error] of the kind.
func wantKind(t testing.TB, err error, kind codec.Kind) {
	t.Helper()
	var e *codec.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got error %v, want one of kind %s", err, kind)
	}
}

func capture(t testing.TB, s *Store, account, request, response string) string {
	t.Helper()
	ctx := context.Background()
	c, err := s.Begin(ctx, &record.Opening{Account: account, Surface: codec.Chat, Format: codec.Chat, Body: []byte(request)})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Recorded(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte(response)); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}); err != nil {
		t.Fatal(err)
	}
	return c.ID()
}

func TestAnExchangeComesBackByteForByte(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	long := strings.Repeat("0123456789abcdef", 100_000)
	for _, body := range []string{"", "x", "{\"a\":\x00\xff}", long} {
		id := capture(t, s, "acme", body, body)
		x, err := s.Archive().Exchange("acme", id)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(x.RawRequest, []byte(body)) || !bytes.Equal(x.RawResponse, []byte(body)) {
			t.Errorf("%d bytes came back as %d and %d", len(body), len(x.RawRequest), len(x.RawResponse))
		}
		if x.Outcome != record.OutcomeComplete || x.ID != id || x.Status != 200 {
			t.Errorf("record is %+v", x.ExchangeInfo)
		}
	}
}

func TestSyncedCommitsAreKeptToo(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir, Durability: Power})
	mustAccount(t, s, "acme")
	id := capture(t, s, "acme", "request", "answer")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir, Durability: Power})
	if x, err := s.Archive().Exchange("acme", id); err != nil || string(x.RawResponse) != "answer" {
		t.Errorf("the exchange is %+v (%v)", x, err)
	}
}

func TestListsPageBothWaysWithoutGapOrRepeat(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	var ids []string
	for range 10 {
		ids = append(ids, capture(t, s, "acme", "q", "a"))
		capture(t, s, "other", "q", "a")
	}
	list := func(account string, q record.ExchangeQuery) string {
		page, err := s.Archive().Exchanges(account, q)
		if err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, x := range page.Data {
			for i, id := range ids {
				if id == x.ID {
					b.WriteByte(byte('0' + i))
				}
			}
		}
		if page.HasMore {
			b.WriteByte('+')
		}
		return b.String()
	}
	for _, c := range []struct {
		q    record.ExchangeQuery
		want string
	}{
		{record.ExchangeQuery{}, "9876543210"},
		{record.ExchangeQuery{Limit: 3}, "987+"},
		{record.ExchangeQuery{Limit: 3, After: ids[7]}, "654+"},
		{record.ExchangeQuery{Limit: 3, After: ids[3]}, "210"},
		{record.ExchangeQuery{Limit: 3, Before: ids[3]}, "654+"},
		{record.ExchangeQuery{Limit: 3, Before: ids[7]}, "98"},
		{record.ExchangeQuery{Ascending: true}, "0123456789"},
		{record.ExchangeQuery{Ascending: true, Limit: 4, After: ids[1]}, "2345+"},
		{record.ExchangeQuery{Ascending: true, Limit: 4, Before: ids[5]}, "1234+"},
		{record.ExchangeQuery{Ascending: true, After: ids[2], Before: ids[5]}, "34"},
		{record.ExchangeQuery{After: ids[5], Before: ids[2]}, "43"},
	} {
		if got := list("acme", c.q); got != c.want {
			t.Errorf("%+v lists %s, want %s", c.q, got, c.want)
		}
	}
	all, err := s.Archive().Exchanges("", record.ExchangeQuery{Limit: 100})
	if err != nil || len(all.Data) != 20 {
		t.Errorf("every account lists %d exchanges (%v), want 20", len(all.Data), err)
	}
}
