package command

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/codec"
	engines "github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// The brokers stop while an answer is under way.
func TestAnAnswerThatTheBrokersDoNotTakeIsMarkedOrRefused(t *testing.T) {
	for onOutage, refuse := range map[string]bool{"local": false, "refuse": true} {
		t.Run(onOutage, func(t *testing.T) {
			broker := startBroker(t)
			key, err := ship.NewKey(bytes.Repeat([]byte{1}, ship.KeySize))
			if err != nil {
				t.Fatal(err)
			}
			o := cluster.Options{NATS: []string{broker.ClientURL()}, Key: key, Log: slog.New(slog.DiscardHandler), Quorum: true}
			open := func(node uint16) *engine.Engine {
				m, err := engine.Open(store.Options{Dir: t.TempDir(), Node: node, MinFreeDisk: -1}, nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = m.Close() })
				if _, err := m.Accounts().Create("acme"); err != nil {
					t.Fatal(err)
				}
				return m
			}
			roster, m := open(0), open(1)
			kept, err := catalog.Open(t.Context(), catalog.Options{
				URL: postgrestest.Shared(t).Memory(t), Centre: postgrestest.Centre, Cache: roster.Shared(), Retention: roster.Archive().RetentionOf,
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(kept.Close)
			gathering, err := cluster.Gather(t.Context(), kept, kept, catalog.RosterOf(kept), o)
			if err != nil {
				t.Fatal(err)
			}
			defer gathering.Close()
			joined, err := cluster.Join(t.Context(), m.Shipping(), m.Archive(), m.Roster(), 1, 0, o)
			if err != nil {
				t.Fatal(err)
			}
			defer joined.Close()
			recorder := &quorumRecorder{engines.Over(m).Recorder, joined, o.Log, refuse, m.Shipping().CommittedHere}
			begin := func() store.Recording {
				t.Helper()
				r, err := recorder.Begin(t.Context(), &record.Opening{Account: "acme", Surface: codec.Chat, Format: codec.Chat, Body: []byte(`{"messages":[]}`)})
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			finish := func(r store.Recording) (committed string, err error) {
				t.Helper()
				err = r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200})
				info, lost := m.Archive().ExchangeInfo("acme", r.ID())
				if lost != nil || info.Outcome != record.OutcomeComplete {
					t.Fatalf("the edge itself has %+v (%v)", info, lost)
				}
				return info.Committed, err
			}
			for deadline := time.Now().Add(time.Minute); ; {
				if time.Now().After(deadline) {
					t.Fatal("the brokers never take anything")
				}
				if joined.Away() {
					time.Sleep(time.Millisecond)
					continue
				}
				if committed, err := finish(begin()); committed == "" && err == nil {
					break // the centre has made its stream
				}
			}
			late := begin()
			broker.Shutdown()
			broker.WaitForShutdown()
			committed, err := finish(late)
			if committed != record.CommittedLocal || (err != nil) != refuse || refuse && codec.AsError(err, "").Kind != codec.KindStorage {
				t.Errorf("refuse %v: the record says %q, and the answer ends with %v", refuse, committed, err)
			}
			_, err = recorder.Begin(t.Context(), &record.Opening{Account: "acme", Surface: codec.Chat, Body: []byte(`{}`)})
			if (err != nil) != refuse || refuse && codec.AsError(err, "").RetryAfter == 0 {
				t.Errorf("refuse %v: a request that comes while they are away: %v", refuse, err)
			}
		})
	}
}

// startBroker runs a broker with JetStream in this process.
func startBroker(t *testing.T) *server.Server {
	t.Helper()
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	broker.Start()
	t.Cleanup(func() { broker.Shutdown(); broker.WaitForShutdown() })
	if !broker.ReadyForConnections(time.Minute) {
		t.Fatal("the broker does not start")
	}
	return broker
}
