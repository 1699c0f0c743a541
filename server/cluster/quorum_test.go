package cluster

import (
	"errors"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/store/ship"
)

func TestWhatTheBrokersHaveOutlivesItsEdge(t *testing.T) {
	brokerDir, dir := t.TempDir(), t.TempDir()
	broker := startBroker(t, brokerDir, server.RANDOM_PORT)
	port := broker.Addr().(*net.TCPAddr).Port
	o := options(t, 1, broker.ClientURL())
	o.Quorum = true
	centre, edge := openStore(t, dir), openStore(t, t.TempDir())
	gathering := gatherIn(t, centre, dir, o)
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
	gatherIn(t, centre, dir, o)
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
	broker, dir := startBroker(t, t.TempDir(), server.RANDOM_PORT), t.TempDir()
	o := options(t, 1, broker.ClientURL())
	o.Quorum = true
	gathering, edge := gatherIn(t, openStore(t, dir), dir, o), openStore(t, t.TempDir())
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
