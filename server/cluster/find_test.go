package cluster

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// openNumbered opens the store of a node whose ids name it.
func openNumbered(t *testing.T, dir string, node uint16) *store.Store {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, Node: node, MasterKey: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // once more
	for _, account := range []string{"acme", "other"} {
		if _, err := s.Accounts().Create(account); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestReasoningStateIsFoundOnEveryEdge(t *testing.T) {
	t.Parallel()
	brokerDir := t.TempDir()
	broker := startBroker(t, brokerDir, server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	gatherIn(t, openCentre(t), o)
	one, two := joinFrom(t, openNumbered(t, t.TempDir(), 1), 1, 0, o), joinFrom(t, openNumbered(t, t.TempDir(), 2), 2, 0, o)
	keptIsFound := func(name string) func() bool {
		return func() bool { // until there is a bucket it is let go
			one.KeepReasoning("acme", name, []byte("a signature"))
			return string(two.RecallReasoning("acme", name)) == "a signature"
		}
	}
	name := "call"
	eventually(t, "what one edge keeps is found on the other", keptIsFound(name))
	if value := two.RecallReasoning("acme", "late call"); value != nil {
		t.Errorf("before it is kept: %q", value)
	}
	eventually(t, "what was asked for before it came is found as well", keptIsFound("late call"))
	for _, of := range []struct{ account, name string }{{"other", name}, {"acme", "another call"}} {
		if value := two.RecallReasoning(of.account, of.name); value != nil {
			t.Errorf("%q of %q is %q", of.name, of.account, value)
		}
	}
	broker.Shutdown()
	broker.WaitForShutdown()
	for range 2 * reasoningQueue { // nobody waits for brokers that are away
		one.KeepReasoning("acme", name, []byte("a signature"))
	}
	if value := two.RecallReasoning("acme", name); value != nil {
		t.Errorf("without brokers: %q", value)
	}
}

func TestAnAnswerIsFoundWhereverItWasGiven(t *testing.T) {
	t.Parallel()
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	o.findTime = timeout // nodes that are there answer, however busy this machine is
	one, two, centre := openNumbered(t, t.TempDir(), 1), openNumbered(t, t.TempDir(), 2), openCentre(t)
	if _, err := centre.Accounts().Create("other"); err != nil {
		t.Fatal(err)
	}
	first, second := joinFrom(t, one, 1, 0, o), joinFrom(t, two, 2, 0, o)
	if err := first.broker.FlushTimeout(timeout); err != nil { // the broker knows that it listens
		t.Fatal(err)
	}

	// Of the edge that gave it, before any centre has it; it is larger than a message of the brokers.
	answer := strings.Repeat("a long answer ", 200_000)
	id := capture(t, one, "acme", "c", 0, answer)
	if x, err := second.Exchange("acme", id); err != nil || string(x.RawResponse) != answer || x.ID != id || len(x.RawRequest) == 0 {
		t.Fatalf("the edge that gave it is not asked: %v", err)
	}
	notFound := func(e *Edge, account, id string, again bool) {
		t.Helper()
		_, err := e.Exchange(account, id)
		if failure := codec.AsError(err, ""); failure.Kind != codec.KindNotFound || (failure.RetryAfter > 0) != again {
			t.Errorf("%s of %s: %v, try again after %v", id, account, err, failure.RetryAfter)
		}
	}
	missing := id[:len(id)-4] + "0000"
	notFound(second, "acme", missing, true) // there is no centre

	gathering := gatherIn(t, centre, o)
	eventually(t, "the centre has it", func() bool { return first.Status().Waiting == 0 })
	notFound(second, "other", id, false)
	notFound(second, "nobody", id, false)
	notFound(second, "acme", missing, false)

	// Of the centre, when the edge that gave it is away.
	away := func(name string) {
		t.Helper()
		eventually(t, "the broker knows that "+name+" is away", func() bool {
			_, err := second.broker.Request(findSubject+name, nil, 100*time.Millisecond)
			return errors.Is(err, nats.ErrNoResponders)
		})
	}
	first.Close()
	away("1")
	if x, err := second.Exchange("acme", id); err != nil || string(x.RawResponse) != answer {
		t.Errorf("the centre is not asked: %v", err)
	}
	notFound(second, "acme", missing, true)
	gathering.Close()
	away(findCentre)
	notFound(second, "acme", id, true)

	// Of no node whose cluster is another one.
	stranger := joinFrom(t, openNumbered(t, t.TempDir(), 3), 3, 0, options(t, 2, broker.ClientURL()))
	held := capture(t, two, "acme", "c", 1, "b")
	notFound(stranger, "acme", held, true)
}
