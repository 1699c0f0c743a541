package store

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

const firstByteOfShortTexts = 7

// kept returns the stored skeleton of an exchange, or its answer, which its record has, and a function that replaces it.
func kept(t testing.TB, s *Store, space byte, id string) (value []byte, replace func(t *testing.T, value []byte)) {
	t.Helper()
	number, _ := s.accounts.Find("acme")
	exchange, _ := kv.ParseExchangeID(id)
	key := kv.ExchangeKey(space, number, exchange)
	if space == kv.SpaceResponse {
		key = kv.ExchangeKey(kv.SpaceExchange, number, exchange)
	}
	if err := s.db.View(func(tx *badger.Txn) (err error) {
		value, err = kv.Get(tx, key)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if space != kv.SpaceResponse {
		return value, func(t *testing.T, value []byte) { damage(t, s, key, value) }
	}
	info := new(record.ExchangeInfo)
	if err := record.Decode(value, info); err != nil {
		t.Fatal(err)
	}
	return info.Part, func(t *testing.T, value []byte) {
		own := *info
		own.Part = value
		damage(t, s, key, record.Encode(&own))
	}
}

// lengthen stores the skeleton and the answer of an exchange unchanged, as those are that would be no shorter.
func lengthen(t *testing.T, s *Store, id string) {
	t.Helper()
	skeleton, replace := kept(t, s, kv.SpaceRequest, id)
	skeleton, err := blob.PlainSkeleton(skeleton)
	if err != nil {
		t.Fatal(err)
	}
	replace(t, skeleton)
	part, replace := kept(t, s, kv.SpaceResponse, id)
	if part, err = blob.PlainPart(part); err != nil {
		t.Fatal(err)
	}
	replace(t, part)
}

func TestSmallExchangesAreStoredInFewerBytes(t *testing.T) {
	c := newConversation(t)
	question, answer := numbered("where is the lease renewed?", 150), numbered("it is renewed by its holder", 500)
	opening := say(question)
	id, _ := c.exchange(opening, record.OutcomeComplete, answer)
	for space, whole := range map[byte]int{kv.SpaceRequest: len(opening.Body), kv.SpaceResponse: len(answer)} {
		if value, _ := kept(t, c.s, space, id); value[0] != firstByteOfShortTexts || len(value) > whole*3/4 {
			t.Errorf("of %d bytes the store has %d, which begin with %d", whole, len(value), value[0])
		}
	}
	x, err := c.s.Archive().Exchange("acme", id)
	if err != nil || x.ID != id || !bytes.Equal(x.RawRequest, opening.Body) || string(x.RawResponse) != answer {
		t.Errorf("it is read as %+v (%v)", x, err)
	}
	mustBeSound(t, c.s)
}

// A centre may be older than the node, and need not have the dictionary.
func TestShippedExchangesHaveNoShortTexts(t *testing.T) {
	c := newConversation(t)
	shipping := beginShipping(t, c.s)
	id, _ := c.exchange(say("a question that is kept as a short text"), record.OutcomeComplete, numbered("an answer", 400))
	frame, err := shipping.Next(t.Context(), 0)
	if err != nil || len(frame.Entries) == 0 {
		t.Fatalf("%d exchanges are shipped (%v)", len(frame.Entries), err)
	}
	e := &frame.Entries[len(frame.Entries)-1]
	info, err := record.ReadInfo(e.Record)
	if err != nil || info.ID != id {
		t.Errorf("the record is of %q (%v)", info.ID, err)
	}
	if e.Skeleton[0] != blob.Version || len(e.Parts) != 1 || e.Parts[0][0] != blob.EncodingRaw {
		t.Errorf("the skeleton begins with %d, the parts are %.10q", e.Skeleton[0], e.Parts)
	}
}

// A short text that a broken disk or another program has changed is refused, and found by a check. Everything else is
// served.
func TestOnlyADamagedShortTextIsLost(t *testing.T) {
	harms := map[string]func([]byte) []byte{
		"nothing but its first byte": func(value []byte) []byte { return value[:1] },
		"its first half":             func(value []byte) []byte { return value[:len(value)/2] },
		"one byte more":              func(value []byte) []byte { return append(bytes.Clone(value), 0) },
		"bits of another text": func(value []byte) []byte {
			return append(bytes.Clone(value[:3]), bytes.Repeat([]byte{0xa5}, len(value))...)
		},
		"the length of a large text": func(value []byte) []byte { return append([]byte{value[0], 0xff, 0xff, 0xff, 0xff, 0x7f}, value[1:]...) },
		"a length beyond any number": func(value []byte) []byte { return append([]byte{value[0]}, bytes.Repeat([]byte{0xff}, 12)...) },
	}
	for name, harm := range harms {
		for _, space := range []byte{kv.SpaceRequest, kv.SpaceResponse} {
			t.Run(fmt.Sprintf("%c has %s", space, name), func(t *testing.T) {
				c := newConversation(t)
				harmed, _ := c.exchange(say(numbered("what is lost?", 150)), record.OutcomeComplete, numbered("this is lost", 300))
				other, _ := c.exchange(say(numbered("what is left?", 150)), record.OutcomeComplete, numbered("this is left", 300))
				value, replace := kept(t, c.s, space, harmed)
				if value[0] != firstByteOfShortTexts {
					t.Fatalf("it is not kept as a short text: %q", value)
				}
				replace(t, harm(value))
				var refused *codec.Error
				if x, err := c.s.Archive().Exchange("acme", harmed); !errors.As(err, &refused) || refused.Kind != codec.KindStorage ||
					!strings.Contains(refused.Message, harmed+" cannot be read; run mneme check") {
					t.Errorf("it is read as %+v (%v)", x, err)
				}
				if _, err := c.s.Archive().Exchange("acme", other); err != nil {
					t.Errorf("the other one is refused: %v", err)
				}
				left := 0
				for e, err := range c.s.Archive().Export(t.Context(), "acme", record.Selection{All: true}) {
					if err == nil && e.Exchange != nil && e.Exchange.ID == other {
						left++
					}
				}
				if left != 1 {
					t.Errorf("the other one is exported %d times", left)
				}
				found := false
				if _, err := c.s.Upkeep().Check(t.Context(), true, func(f Finding) { found = found || f.Subject == harmed }); err != nil || !found {
					t.Errorf("the check finds it: %v (%v)", found, err)
				}
				erase(t, c.s, "acme", record.Selection{Exchanges: []string{harmed}})
				mustBeSound(t, c.s)
			})
		}
	}
}

// Small bodies are the same in a backup and in another account, whatever their form in the store.
func TestSmallExchangesAreTheSameInABackupAndAnExport(t *testing.T) {
	c := newConversation(t)
	former, _ := c.exchange(say("a question that is kept as it came"), record.OutcomeComplete, numbered("former answer", 400))
	lengthen(t, c.s, former)
	var full, more bytes.Buffer
	mark, err := c.s.Upkeep().Backup(t.Context(), &full, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.exchange(say(numbered("a question that is kept as a short text", 200)), record.OutcomeComplete, numbered("answer", 400))
	if _, err := c.s.Upkeep().Backup(t.Context(), &more, mark); err != nil {
		t.Fatal(err)
	}
	want, stored := exported(t, c.s, "acme", record.Selection{All: true}), snapshot(t, c.s)

	target := t.TempDir()
	for _, file := range []*bytes.Buffer{&full, &more} {
		if _, err := Restore(t.Context(), Options{Dir: target}, file, nil); err != nil {
			t.Fatal(err)
		}
	}
	copyMasterKey(t, c.s.opts.Dir, target)
	restored := openStore(t, Options{Dir: target, Digest: digestTest})
	sameSnapshot(t, snapshot(t, restored), stored)
	mustBeSound(t, restored)
	if diff := cmp.Diff(want, exported(t, restored, "acme", record.Selection{All: true})); diff != "" {
		t.Errorf("the restored store says something else (-want +got):\n%s", diff)
	}

	d := newConversation(t)
	for _, e := range want {
		if taken, err := d.s.Archive().Import(t.Context(), "other", e); err != nil || !taken {
			t.Fatal(taken, err)
		}
	}
	d.settle()
	if diff := cmp.Diff(want, exported(t, d.s, "other", record.Selection{All: true})); diff != "" {
		t.Errorf("the other account says something else (-want +got):\n%s", diff)
	}
	mustBeSound(t, d.s)
}
