package store

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

func TestAnExchangeKeepsItsDescription(t *testing.T) {
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{Dir: t.TempDir(), Digest: digestTest, Redact: redactor}
	c := beganToDigest(t, opts)
	exchange, session := c.exchange(say("1"), record.OutcomeComplete, "2")
	before, err := c.s.Archive().ExchangeInfo("acme", exchange)
	if err != nil {
		t.Fatal(err)
	}
	note, secret := "as it should be", "the key is sk-ant-api03-"+strings.Repeat("a", 93)+"AA"
	for _, d := range []record.Description{{Tags: []string{"good"}}, {Note: &secret}, {Note: &note}} {
		if _, err := c.s.Archive().DescribeExchange("acme", exchange, d); err != nil {
			t.Fatal(err)
		}
		if said, err := c.s.Archive().ExchangeInfo("acme", exchange); err != nil {
			t.Fatal(err)
		} else if strings.Contains(said.Note, "aaaa") {
			t.Errorf("a credential is in the note %q", said.Note)
		}
	}
	c.reopen(opts)
	said, err := c.s.Archive().ExchangeInfo("acme", exchange)
	if err != nil {
		t.Fatal(err)
	}
	if len(said.Tags) != 1 || said.Tags[0] != "good" || said.Note != note {
		t.Errorf("the exchange has tags %q and note %q", said.Tags, said.Note)
	}
	said.Tags, said.Note = nil, ""
	if diff := cmp.Diff(before, said); diff != "" {
		t.Errorf("saying something of it changed more (-before +after):\n%s", diff)
	}
	if x, err := c.s.Archive().Exchange("acme", exchange); err != nil || string(x.RawResponse) != "2" || x.Session != session {
		t.Errorf("the exchange is %+v (%v)", x, err)
	}
	mustBeSound(t, c.s)

	if _, err := c.s.Archive().DescribeExchange("acme", exchange, record.Description{Tags: []string{}}); err != nil {
		t.Fatal(err)
	}
	if said, err = c.s.Archive().ExchangeInfo("acme", exchange); err != nil || len(said.Tags) != 0 || said.Note != note {
		t.Errorf("without tags it is %q, %q (%v)", said.Tags, said.Note, err)
	}
	erase(t, c.s, "acme", record.Selection{Exchanges: []string{exchange}})
	_, err = c.s.Archive().DescribeExchange("acme", exchange, record.Description{Note: &note})
	wantKind(t, err, codec.KindNotFound)
}

func TestAnInvalidDescriptionIsRefused(t *testing.T) {
	c := newConversation(t)
	exchange, session := c.exchange(say("1"), record.OutcomeComplete, "2")
	open, err := c.s.Begin(t.Context(), say("still open"))
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Recorded(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, long := "x", strings.Repeat("x", record.MaxNote+1)
	for _, refused := range []struct {
		account, id string
		record.Description
		kind codec.Kind
	}{
		{"acme", exchange, record.Description{Title: &text}, codec.KindInvalidRequest},
		{"acme", exchange, record.Description{Note: &long}, codec.KindInvalidRequest},
		{"acme", exchange, record.Description{Tags: []string{""}}, codec.KindInvalidRequest},
		{"acme", exchange, record.Description{Tags: make([]string, record.MaxTags+1)}, codec.KindInvalidRequest},
		{"acme", open.ID(), record.Description{Note: &text}, codec.KindConflict},
		{"other", exchange, record.Description{Note: &text}, codec.KindNotFound},
		{"acme", session, record.Description{Note: &text}, codec.KindNotFound},
	} {
		_, err := c.s.Archive().DescribeExchange(refused.account, refused.id, refused.Description)
		wantKind(t, err, refused.kind)
	}
	if err := open.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Fatal(err)
	}
}
