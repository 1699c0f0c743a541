package store

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/recording"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// modelExchange is what a plain map knows of an exchange.
type modelExchange struct {
	request, answer []byte
	outcome         record.Outcome
	group           int // session, by number
}

// model is the plain picture that the store has to agree with, for one account.
type model struct {
	t         *rapid.T
	s         **Store
	dir       string
	account   string
	exchanges map[string]*modelExchange
	open      map[string]*Capture
	groups    map[string]int // chat key to session
	sessions  map[int]string // session to its id in the store
	next      int
	steps     int
}

// TestRandomHistoriesAgreeWithAPlainModel runs random sequences of everything that changes what is stored, restarts
// included, in a fresh account of one store each.
func TestRandomHistoriesAgreeWithAPlainModel(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir, Digest: digestTest})
	t.Cleanup(func() { _ = s.Close() })
	var run atomic.Int64
	bodies := crashSessions()
	fewerChecks(t, 20)
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{
			t: rt, s: &s, dir: dir, account: fmt.Sprintf("account-%d", run.Add(1)),
			exchanges: make(map[string]*modelExchange), open: make(map[string]*Capture),
			groups: make(map[string]int), sessions: make(map[int]string),
		}
		if _, err := s.Accounts().Create(m.account); err != nil {
			rt.Fatal(err)
		}
		rt.Repeat(map[string]func(*rapid.T){
			"begin": func(rt *rapid.T) {
				session := bodies[rapid.IntRange(0, len(bodies)-1).Draw(rt, "session")]
				m.begin(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key"), session[rapid.IntRange(0, 3).Draw(rt, "turn")])
			},
			"write": func(rt *rapid.T) {
				m.write(m.pickOpen(rt), rapid.SampledFrom([]int{0, 1, 300, 5000, recording.PartSize}).Draw(rt, "size"))
			},
			"finish": func(rt *rapid.T) {
				m.finish(m.pickOpen(rt), rapid.SampledFrom([]record.Outcome{record.OutcomeComplete, record.OutcomeClientClosed, record.OutcomeUpstreamError}).Draw(rt, "outcome"))
			},
			"erase exchange": func(rt *rapid.T) { m.eraseExchange(m.pick(rt)) },
			"erase session":  func(rt *rapid.T) { m.eraseGroup(m.pick(rt)) },
			"merge":          func(rt *rapid.T) { m.merge(m.pick(rt), m.pick(rt)) },
			"restart": func(rt *rapid.T) {
				if rapid.IntRange(0, 11).Draw(rt, "really") == 0 {
					m.restart(func() {})
				}
			},
			"kill": func(rt *rapid.T) {
				if rapid.IntRange(0, 11).Draw(rt, "really") == 0 {
					m.restart(m.kill)
				}
			},
			"fail": func(*rapid.T) { m.fail() },
			"": func(*rapid.T) {
				if m.steps++; m.steps%4 == 0 {
					m.compare()
				}
			},
		})
		for id := range m.open {
			m.finish(id, record.OutcomeComplete)
		}
		m.compare()
	})
	mustBeSound(t, s)
}

// fewerChecks keeps a slow law to n histories, unless -rapid.checks asks for more.
func fewerChecks(t *testing.T, n int) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	if checks == nil || checks.Value.String() != checks.DefValue {
		return
	}
	if err := checks.Value.Set(strconv.Itoa(n)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
}

func (m *model) store() *Store { return *m.s }

func (m *model) check(err error) {
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) pick(rt *rapid.T) string {
	ids := sortedKeys(m.exchanges)
	if len(ids) == 0 {
		rt.Skip("nothing there")
	}
	return rapid.SampledFrom(ids).Draw(rt, "exchange")
}

func (m *model) pickOpen(rt *rapid.T) string {
	ids := sortedKeys(m.open)
	if len(ids) == 0 {
		rt.Skip("nothing open")
	}
	return rapid.SampledFrom(ids).Draw(rt, "open exchange")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func (m *model) begin(key string, body []byte) {
	var e codec.Envelope
	m.check(e.Read(body))
	ctx := context.Background()
	c, err := m.store().Begin(ctx, &record.Opening{Account: m.account, Surface: codec.Messages, Format: codec.Messages, Body: body, Spans: e.Blocks(nil), ChatKey: key})
	m.check(err)
	m.check(c.Recorded(ctx))
	group, known := m.groups[key]
	if !known {
		m.next++
		group = m.next
		m.groups[key] = group
		m.sessions[group] = c.SessionID()
	}
	if c.SessionID() != m.sessions[group] {
		m.t.Fatalf("chat key %s leads to %s, want %s", key, c.SessionID(), m.sessions[group])
	}
	m.open[c.ID()] = c
	m.exchanges[c.ID()] = &modelExchange{request: body, group: group}
}

func (m *model) write(id string, n int) {
	p := bytes.Repeat([]byte("data: "), n/6+1)[:n]
	_, err := m.open[id].Write(p)
	m.check(err)
	m.exchanges[id].answer = append(m.exchanges[id].answer, p...)
}

func (m *model) finish(id string, outcome record.Outcome) {
	m.check(m.open[id].Finish(&record.Closing{Outcome: outcome, Usage: codec.Usage{Output: 3}}))
	delete(m.open, id)
	m.exchanges[id].outcome = outcome
}

func (m *model) erase(sel record.Selection) {
	s := m.store()
	number, err := s.accounts.Number(m.account)
	m.check(err)
	m.check(s.keeper.Erasures.Expire(context.Background(), number, sel))
}

func (m *model) eraseExchange(id string) {
	m.erase(record.Selection{Exchanges: []string{id}})
	m.forget(id)
}

func (m *model) eraseGroup(id string) {
	group := m.exchanges[id].group
	m.erase(record.Selection{Sessions: []string{m.sessions[group]}})
	for _, other := range sortedKeys(m.exchanges) {
		if m.exchanges[other].group == group {
			m.forget(other)
		}
	}
}

// forget takes an exchange out of the model, unless it is open; with the last one its session goes.
func (m *model) forget(id string) {
	x := m.exchanges[id]
	if m.open[id] != nil {
		return
	}
	delete(m.exchanges, id)
	for _, other := range m.exchanges {
		if other.group == x.group {
			return
		}
	}
	for _, key := range sortedKeys(m.groups) {
		if m.groups[key] == x.group {
			delete(m.groups, key)
		}
	}
}

func (m *model) merge(from, into string) {
	source, target := m.exchanges[from].group, m.exchanges[into].group
	_, err := m.store().Archive().MergeSession(context.Background(), m.account, m.sessions[source], m.sessions[target])
	if source == target {
		if err == nil {
			m.t.Fatal("a session was merged into itself")
		}
		return
	}
	m.check(err)
	for _, x := range m.exchanges {
		if x.group == source {
			x.group = target
		}
	}
	for key, group := range m.groups {
		if group == source {
			m.groups[key] = target
		}
	}
}

// kill forgets what is only in memory, so that the store is left as by a killed process.
func (m *model) kill() {
	m.check(m.store().writer.Update(context.Background(), func(g *writing.Group, _ *commit.Op) error {
		g.Sessions.Lose()
		return nil
	}))
}

// fail makes a commit fail that counts an exchange.
func (m *model) fail() {
	s := m.store()
	number, err := s.accounts.Number(m.account)
	m.check(err)
	m.check(s.writer.Update(context.Background(), func(*writing.Group, *commit.Op) error { return nil })) // nothing else fails
	err = s.writer.Update(context.Background(), func(g *writing.Group, w *commit.Op) error {
		for _, text := range m.sessions {
			id, _ := kv.ParseSessionID(text)
			if r := g.Sessions.At(kv.SessionRef{Account: number, ID: id}); r != nil {
				r.Exchanges++
				g.Sessions.Count(w, kv.SessionRef{Account: number, ID: id}, r)
			}
		}
		g.Put(w, []byte("!badger!"), []byte("a key that the database keeps to itself"))
		return nil
	})
	if err == nil {
		m.t.Fatal("a key of the database was written")
	}
}

// restart opens the store again. Few records of sessions are ahead in it.
func (m *model) restart(before func()) {
	before()
	m.check(m.store().Close())
	s, err := Open(Options{Dir: m.dir, Digest: digestTest})
	m.check(err)
	m.check(s.writer.Update(context.Background(), func(g *writing.Group, _ *commit.Op) error {
		g.Sessions.StoreEarly(1)
		return nil
	}))
	*m.s = s
	for id := range m.open {
		m.exchanges[id].outcome = record.OutcomeInterrupted
	}
	clear(m.open)
}

// compare looks at every exchange and every session.
func (m *model) compare() {
	s := m.store()
	page, err := s.Archive().Exchanges(m.account, record.ExchangeQuery{Limit: kv.MaxPage, Ascending: true})
	m.check(err)
	var ids []string
	for _, info := range page.Data {
		ids = append(ids, info.ID)
	}
	if want := sortedKeys(m.exchanges); !slices.Equal(ids, want) {
		m.t.Fatalf("the store lists %v, want %v", ids, want)
	}
	perSession, complete := make(map[string]int64), make(map[string]int64)
	for id, want := range m.exchanges {
		x, err := s.Archive().Exchange(m.account, id)
		m.check(err)
		perSession[x.Session]++
		if x.Outcome == record.OutcomeComplete {
			complete[x.Session]++
		}
		if x.Outcome != want.outcome || x.Session != m.sessions[want.group] || !bytes.Equal(x.RawRequest, want.request) {
			m.t.Fatalf("%s is %s in %s, want %s in %s; or its request differs", id, x.Outcome, x.Session, want.outcome, m.sessions[want.group])
		}
		whole := bytes.Equal(x.RawResponse, want.answer)
		if !whole && (want.outcome.Ended() || !bytes.HasPrefix(want.answer, x.RawResponse)) {
			m.t.Fatalf("%s: the answer differs", id)
		}
	}
	sessions, err := s.Archive().Sessions(m.account, record.SessionQuery{Limit: kv.MaxPage})
	m.check(err)
	if len(sessions.Data) != len(perSession) {
		m.t.Fatalf("%d sessions, want %d", len(sessions.Data), len(perSession))
	}
	for _, session := range sessions.Data {
		if session.Exchanges != perSession[session.ID] || session.Completed != complete[session.ID] {
			m.t.Fatalf("%s counts %d exchanges, %d complete; has %d, %d", session.ID, session.Exchanges, session.Completed, perSession[session.ID], complete[session.ID])
		}
	}
}
