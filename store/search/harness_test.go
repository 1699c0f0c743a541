package search

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// timeout is how long a test waits for something that is to happen soon; only a failure takes that long.
const timeout = time.Minute

var pollers = []goleak.Option{goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start")}

// memory is a store with an index.
type memory struct {
	t     testing.TB
	dir   string
	opts  Options // of the index, from the next opening on
	store *store.Store
	index *Index
}

func openMemory(t testing.TB, dir string) *memory {
	t.Helper()
	return openMemoryWith(t, dir, Options{})
}

func openMemoryWith(t testing.TB, dir string, opts Options) *memory {
	t.Helper()
	m := &memory{t: t, dir: dir, opts: opts}
	m.open()
	t.Cleanup(m.close)
	for _, account := range []string{"acme", "globex"} {
		if _, err := m.store.Accounts().Create(account); err != nil && !isKind(err, codec.KindConflict) {
			t.Fatal(err)
		}
	}
	if opts.Embedder != nil { // what ends before it is followed gets its vector some time, and is not waited for
		m.until("vectors that are followed", func() bool { return !m.vectorStatus("acme").Building })
	}
	return m
}

func (m *memory) open() {
	m.t.Helper()
	var err error
	m.store, m.index, err = openBoth(m.dir, m.opts)
	m.ok(err)
}

// openBoth opens a store and its index.
func openBoth(dir string, opts Options) (*store.Store, *Index, error) {
	st, err := store.Open(store.Options{Dir: dir, MinFreeDisk: -1, Digest: readScript})
	if err != nil {
		return nil, nil, err
	}
	opts.Dir = filepath.Join(dir, "index")
	if opts.WriteAfter == 0 {
		opts.WriteAfter = 50 * time.Millisecond
	}
	x := Open(st, opts)
	x.searchTimeout = timeout // the machine may stand still for longer than a person waits
	return st, x, nil
}

func (m *memory) close() {
	m.t.Helper()
	m.ok(errors.Join(m.index.Close(), m.store.Close()))
}

// check verifies the index and the store, and adds up what they find.
func (m *memory) check(ctx context.Context, repair bool, tell func(store.Finding)) (store.CheckReport, error) {
	var findings int64
	damaged := m.index.Verify(ctx, func(f store.Finding) {
		findings++
		tell(f)
	})
	report, err := m.store.Upkeep().Check(ctx, repair, tell)
	report.Findings += findings
	return report, errors.Join(damaged, err)
}

func isKind(err error, kind codec.Kind) bool {
	var e *codec.Error
	return errors.As(err, &e) && e.Kind == kind
}

func (m *memory) ok(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// reopen is a restart; meanwhile happens while the store is closed.
func (m *memory) reopen(meanwhile func()) {
	m.t.Helper()
	m.close()
	meanwhile()
	m.open()
}

// script is the body of a captured exchange in these tests: what was said, ready to be read.
type script struct {
	Messages, Answer []record.Message
}

func readScript(x *record.Exchange) (d record.Digest, err error) {
	var s script
	err = json.Unmarshal(x.RawRequest, &s)
	return record.Digest{Messages: s.Messages, Answer: s.Answer}, err
}

func text(role, words string) record.Message {
	return record.Message{Role: role, Parts: []record.Part{{Kind: "text", Text: words}}}
}

// talk is one exchange: what the user says and what the model answers.
func talk(user, assistant string) script {
	return script{Messages: []record.Message{text("user", user)}, Answer: []record.Message{text("assistant", assistant)}}
}

// capture keeps an exchange and gives its id. Changes to the opening may be nil.
func (m *memory) capture(account string, s script, changes ...func(*record.Opening)) string {
	m.t.Helper()
	id, err := captureScript(m.store, account, s, changes...)
	m.ok(err)
	return id
}

func captureScript(st *store.Store, account string, s script, changes ...func(*record.Opening)) (string, error) {
	body, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	o := &record.Opening{Account: account, Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "gpt-5", Body: body}
	for _, change := range changes {
		change(o)
	}
	ctx := context.Background()
	c, err := st.Begin(ctx, o)
	if err != nil {
		return "", err
	}
	return c.ID(), c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200})
}

// erase erases an exchange and waits until that is done.
func (m *memory) erase(account, id string) {
	m.t.Helper()
	erasure, err := m.store.Archive().Erase(context.Background(), account, record.Selection{Exchanges: []string{id}}, false)
	m.ok(err)
	m.until("the erasure", func() bool {
		erasure, err = m.store.Archive().Erasure(account, erasure.ID)
		m.ok(err)
		return erasure.State == record.ErasureDone
	})
}

func (m *memory) search(account string, r Request) *Answer {
	m.t.Helper()
	answer, err := m.ask(account, r)
	m.ok(err)
	return answer
}

func (m *memory) ask(account string, r Request) (*Answer, error) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	m.ok(m.index.WaitVectors(ctx, account))
	return m.index.Search(ctx, account, &r)
}

// found searches and gives the exchanges, the best first.
func (m *memory) found(account, query string) []string {
	m.t.Helper()
	return exchangesOf(m.search(account, Request{Query: query}))
}

func exchangesOf(a *Answer) []string {
	list := []string{}
	for i := range a.Data {
		list = append(list, a.Data[i].Exchange)
	}
	return list
}
