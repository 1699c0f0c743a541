package store

import (
	"bytes"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// turnValue returns the stored key and value of a turn.
func turnValue(t *testing.T, s *Store, exchange string) (key, value []byte) {
	t.Helper()
	account, ok := s.accounts.Find("acme")
	id, parsed := kv.ParseExchangeID(exchange)
	if !ok || !parsed {
		t.Fatalf("%s is no exchange of the account", exchange)
	}
	key = kv.ExchangeKey(kv.SpaceTurn, account, id)
	err := s.db.View(func(tx *badger.Txn) (err error) {
		value, err = kv.Get(tx, key)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return key, value
}

func TestATurnIsNotEncodedAgainWhenAnotherContinuesIt(t *testing.T) {
	c := newConversation(t)
	key := func(o *record.Opening) *record.Opening { o.ChatKey = "k"; return o }
	first, session := c.exchange(key(say("1")), record.OutcomeComplete, "2")
	c.idle()
	_, before := turnValue(t, c.s, first)
	second, _ := c.exchange(key(say("1", "2", "3")), record.OutcomeComplete, "4")
	c.idle()
	_, after := turnValue(t, c.s, first)
	id, _ := kv.ParseExchangeID(second)
	if want := append(append([]byte{record.EncodingContinued}, id[:]...), before[1:]...); !bytes.Equal(after, want) {
		t.Errorf("the turn was %x, and is %x", before, after)
	}
	page, err := c.s.Archive().Timeline("acme", session, record.TimelineQuery{})
	if err != nil || len(page.Data) != 2 || page.Data[0].Turn.Continued != second || page.Data[1].Turn.Continued != "" {
		t.Errorf("the timeline is %+v (%v)", page.Data, err)
	}
}
