package store

import (
	"context"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestTwoAccountsNeverSeeEachOther(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	body := newAgent(1).request()
	mine := captureBody(t, s, "acme", body, []byte("answer"))
	_, before := storedBytes(t, s)
	theirs := captureBody(t, s, "other", body, []byte("answer"))
	_, after := storedBytes(t, s)

	if after[kv.SpaceBlock] != 2*before[kv.SpaceBlock] || after[kv.SpaceNode] != 2*before[kv.SpaceNode] {
		t.Errorf("blocks of the same body take %d bytes in one account and %d in two: they are shared", before[kv.SpaceBlock], after[kv.SpaceBlock])
	}
	_, err := s.Archive().Exchange("other", mine)
	wantKind(t, err, codec.KindNotFound)
	unknown := err.Error()
	_, err = s.Archive().Exchange("other", "exch_"+mine[len("exch_"):len(mine)-4]+"0000")
	wantKind(t, err, codec.KindNotFound)
	if len(err.Error()) != len(unknown) {
		t.Errorf("an exchange of another account is told %q, one that never was %q", unknown, err)
	}
	page, err := s.Archive().Exchanges("other", record.ExchangeQuery{Ascending: true})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != theirs {
		t.Errorf("the other account lists %+v (%v)", page, err)
	}
	page, err = s.Archive().Exchanges("other", record.ExchangeQuery{Before: mine})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range page.Data {
		if x.ID == mine {
			t.Error("a cursor leads to another account's exchange")
		}
	}
	for account, want := range map[string]int64{"acme": 1, "other": 1} {
		u, err := s.Archive().Usage(context.Background(), account)
		if err != nil || u.Exchanges != want || u.RequestBytes != int64(len(body)) || u.StoredBlocks == 0 {
			t.Errorf("%s uses %+v (%v)", account, u, err)
		}
	}
	if keys := s.Keys().List("other"); len(keys) != 0 {
		t.Errorf("the other account has keys %v", keys)
	}
	_, err = s.Archive().Exchanges("nobody", record.ExchangeQuery{})
	wantKind(t, err, codec.KindNotFound)
}
