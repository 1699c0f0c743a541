package store

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/storetest/fixture"
)

// The files in testdata/format-1 were written by mneme at commit d44e073, the last one whose records were all JSON: a store
// with every member of exchanges, sessions and turns, one exchange of it left open, and what that mneme said of its content
// after it had opened the store again.
func TestAStoreWithRecordsOfVersion1LosesNothing(t *testing.T) {
	want, err := os.ReadFile("testdata/format-1/content.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fixture.Unpack(t, "testdata/format-1/store.tar.gz", dir)
	opts := Options{Dir: dir, Digest: digestTest}
	s := openStore(t, opts)
	(&conversation{t, s}).settle()
	sameContent(t, "after the first opening", whatIsSaid(t, s), want)
	mustBeSound(t, s)

	// Each session goes on, so that the records of both versions stand beside each other and follow from each other.
	c := &conversation{t, s}
	page, err := s.Archive().Sessions("acme", SessionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, session := range page.Data {
		if session.ChatKey == "" && session.ExternalSession == "" {
			continue
		}
		next := with(say("one", "1", "and on"), func(o *Opening) { o.ChatKey, o.ExternalSession = session.ChatKey, session.ExternalSession })
		id, joined := c.exchange(next, OutcomeComplete, "it goes on")
		if joined != session.ID {
			t.Errorf("the next exchange of %s went into %s", session.ID, joined)
		}
		erase(t, s, "acme", Selection{Exchanges: []string{id}})
	}
	mustBeSound(t, s)
	sameContent(t, "after more was added and erased", withoutUpdated(whatIsSaid(t, s)), withoutUpdated(want))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, opts)
	sameContent(t, "after another opening", withoutUpdated(whatIsSaid(t, s)), withoutUpdated(want))
	if version, err := formatOf(s); err != nil || version != formatVersion {
		t.Errorf("the store says that it is of format %d (%v)", version, err)
	}
}

// whatIsSaid returns what a store says of its accounts, a line of JSON for each session, exchange and turn.
func whatIsSaid(t *testing.T, s *Store) (said []byte) {
	t.Helper()
	say := func(v any) {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		said = append(append(said, line...), '\n')
	}
	for _, account := range []string{"acme", "other"} {
		for _, e := range exported(t, s, account, Selection{All: true}) {
			if e.Exchange != nil {
				x := e.Exchange
				x.Imported = time.Time{}
				say(map[string]any{"exchange": x.ExchangeInfo, "request": x.RawRequest, "response": x.RawResponse})
				continue
			}
			say(e)
		}
		sessions, err := s.Archive().Sessions(account, SessionQuery{Limit: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range sessions.Data {
			page, err := s.Archive().Timeline(account, session.ID, TimelineQuery{Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range page.Data {
				say(entry.Turn)
			}
		}
	}
	return said
}

// withoutUpdated takes out what an exchange that came and went leaves in a session and in the turn before.
func withoutUpdated(said []byte) []byte {
	said = regexp.MustCompile(`"updated":"[^"]*",`).ReplaceAll(said, nil)
	return regexp.MustCompile(`"continued":"[^"]*",`).ReplaceAll(said, nil)
}

func sameContent(t *testing.T, when string, got, want []byte) {
	t.Helper()
	gotLines, wantLines := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	if len(gotLines) != len(wantLines) {
		t.Errorf("%s the store says %d things, want %d", when, len(gotLines), len(wantLines))
		return
	}
	for i := range wantLines {
		if !bytes.Equal(gotLines[i], wantLines[i]) {
			t.Errorf("%s the store says\n%.600s\nwant\n%.600s", when, gotLines[i], wantLines[i])
		}
	}
}

func formatOf(s *Store) (version byte, err error) {
	err = s.view(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, kv.NameKey(kv.SpaceMeta, "format"))
		if err == nil {
			version = value[0]
		}
		return err
	})
	return version, err
}
