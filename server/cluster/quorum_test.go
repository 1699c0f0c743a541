package cluster

import (
	"bytes"
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store/ship"
)

func TestWhatTheBrokersHaveOutlivesItsEdge(t *testing.T) {
	brokerDir := t.TempDir()
	broker := startBroker(t, brokerDir, server.RANDOM_PORT)
	port := broker.Addr().(*net.TCPAddr).Port
	o := options(t, 1, broker.ClientURL())
	o.Quorum = true
	centre, edge := openCentre(t), openStore(t, t.TempDir())
	gathering := gatherIn(t, centre, o)
	shipper := shipFrom(t, edge, 1, o)
	brokered := func() bool { return shipper.Brokered() == nil }
	capture(t, edge, "acme", "c", 0, "before the centre goes")
	eventually(t, "the brokers have it", brokered)
	eventually(t, "the centre has it", func() bool { return shipper.Status().Waiting == 0 })
	gathering.Close()

	var acknowledged []string
	for turn := range 5 {
		id := capture(t, edge, "acme", "c", turn+1, "while it is away")
		eventually(t, "the brokers have it", brokered)
		acknowledged = append(acknowledged, id)
	}
	shipper.Close() // and the disk of the edge is lost
	gatherIn(t, centre, o)
	for _, id := range acknowledged {
		eventually(t, "the centre has what the brokers had", func() bool {
			_, err := centre.Archive().Exchange("acme", id)
			return err == nil
		})
	}

	another := openStore(t, t.TempDir())
	shipper = shipFrom(t, another, 2, o)
	capture(t, another, "acme", "d", 0, "an answer")
	eventually(t, "the brokers have it", brokered)
	broker.Shutdown()
	broker.WaitForShutdown()
	eventually(t, "the edge sees that the brokers are away", shipper.Away)
	local := shipper.Status().Local
	alone := capture(t, another, "acme", "d", 1, "nobody else has it")
	if err := shipper.Brokered(); !errors.Is(err, ErrLocal) || shipper.Status().Local != local+1 {
		t.Errorf("without brokers: %v, counted %d", err, shipper.Status().Local-local)
	}
	startBroker(t, brokerDir, port)
	eventually(t, "they take it when they are back", brokered)
	eventually(t, "the centre has it, too", func() bool {
		_, err := centre.Archive().Exchange("acme", alone)
		return err == nil
	})
}

// A centre without its database is there, and does not answer. That is nothing to those who wait for the brokers.
func TestTheBrokersTakeWhatEndsWhileTheCentreOwesAnAnswer(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	o.Quorum = true
	gathering, edge := gatherIn(t, openCentre(t), o), openStore(t, t.TempDir())
	shipper := shipFrom(t, edge, 1, o)
	capture(t, edge, "acme", "c", 0, "before")
	eventually(t, "the centre has it", func() bool { return shipper.Status().Waiting == 0 && !shipper.Status().Confirmed.IsZero() })
	gathering.Close()
	questions, err := dial(t, broker).SubscribeSync(questionSubject)
	if err != nil {
		t.Fatal(err)
	}
	capture(t, edge, "acme", "c", 1, "what makes the edge ask")
	held, err := questions.NextMsg(timeout)
	if err != nil {
		t.Fatal(err)
	}
	before := shipper.Status().Confirmed

	capture(t, edge, "acme", "c", 2, "while the question waits")
	eventually(t, "the brokers have it", func() bool { return shipper.Brokered() == nil })
	q, err := ship.OpenQuestion(o.Key, held.Data)
	if err != nil {
		t.Fatal(err)
	}
	answer := ship.Mark{Log: q.Log, Nonce: q.Nonce, Time: time.Now(), Mark: edge.Shipping().Confirmed()}
	if err := held.Respond(answer.Seal(o.Key)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the edge still waits for the answer", func() bool { return shipper.Status().Confirmed.After(before) })
	if resent := shipper.Status().Resent; resent > 0 {
		t.Errorf("it has shipped %d times again", resent)
	}
}

func TestAnEdgeThatStartsShipsWhileTheCentreOwesItsFirstAnswer(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	o.Quorum = true
	gathering := gatherIn(t, openCentre(t), o)
	eventually(t, "there is a stream", func() bool { return gathering.idle(t.Context()) })
	gathering.Close()
	conn := dial(t, broker)
	questions, err := conn.SubscribeSync(questionSubject)
	if err := errors.Join(err, conn.Flush()); err != nil {
		t.Fatal(err)
	}
	edge := openStore(t, t.TempDir())
	capture(t, edge, "acme", "c", 0, "from before the start")
	shipper := shipFrom(t, edge, 1, o)
	held, err := questions.NextMsg(timeout)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the brokers have it", func() bool { return shipper.Brokered() == nil })
	q, err := ship.OpenQuestion(o.Key, held.Data)
	if err != nil {
		t.Fatal(err)
	}
	answer := ship.Mark{Log: q.Log, Nonce: q.Nonce, Time: time.Now()}
	if err := held.Respond(answer.Seal(o.Key)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the edge still waits for the answer", func() bool { return !shipper.Status().Confirmed.IsZero() })
}

// As when a broker is lost with an acknowledgement: the brokers keep one of the two messages, because they have one id.
func TestAMessageWithoutAnAcknowledgementIsSoonPublishedAgain(t *testing.T) {
	broker, edge := startBroker(t, t.TempDir(), server.RANDOM_PORT), openStore(t, t.TempDir())
	conn := dial(t, broker)
	published, err := conn.SubscribeSync(shipSubjectOf(1))
	if err := errors.Join(err, conn.Flush()); err != nil {
		t.Fatal(err)
	}
	capture(t, edge, "acme", "c", 0, "an answer")
	shipper := shipFrom(t, edge, 1, options(t, 1, broker.ClientURL()))
	var messages [2]*nats.Msg
	for n := range messages {
		if messages[n], err = published.NextMsg(timeout); err != nil {
			t.Fatal(err)
		}
	}
	if problem := shipper.Status().Problem; problem != "" {
		t.Errorf("it is published again after %s", problem)
	}
	id := messages[0].Header.Get(jetstream.MsgIDHeader)
	if again := messages[1].Header.Get(jetstream.MsgIDHeader); id == "" || again != id || !bytes.Equal(messages[1].Data, messages[0].Data) {
		t.Errorf("message %s is published again as %s", id, again)
	}
	if err := messages[1].Respond([]byte(`{"stream":"MNEME","seq":1,"duplicate":true}`)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the frame is shipped", func() bool { return shipper.Status().Frames == 1 })
}

// An edge whose brokers are behind ships without a break: the last byte of an answer waits its time all the same, and no longer.
func TestAnAnswerDoesNotWaitLongerWhileTheBrokersTakeWhatCameBefore(t *testing.T) {
	const last = 1 << 20
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			var (
				q        quorum
				shipping sync.WaitGroup
			)
			for range 4 {
				shipping.Go(func() {
					for range 2 { // when the time is over, and later
						time.Sleep(quorumTime)
						for number := range uint64(500) {
							q.advance(number)
						}
					}
				})
			}
			began := time.Now()
			if q.wait(last) {
				t.Error("it ends as if the brokers had it")
			}
			if waited := time.Since(began); waited != quorumTime {
				t.Errorf("it waits %v, not %v", waited, quorumTime)
			}
			shipping.Wait()
		})
	}
}
