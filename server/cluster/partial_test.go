package cluster

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store/ship"
)

// clock is a clock that a test sets.
type clock struct{ passed atomic.Int64 }

func (c *clock) now() time.Time          { return time.Unix(0, c.passed.Load()) }
func (c *clock) advance(d time.Duration) { c.passed.Add(int64(d)) }

// packetsOf returns the messages of a frame of a log with one exchange, which has so many parts.
func packetsOf(t *testing.T, k *ship.Key, node uint16, parts int) (messages [][]byte) {
	t.Helper()
	const size = 1000
	f := ship.Frame{Node: node, Log: ship.LogID{byte(node)}, Last: 1, Entries: []ship.Entry{{
		Account: "acme", Exchange: "x", Record: []byte("{}"), Skeleton: []byte(strings.Repeat("s", size*parts-size/2)),
	}}}
	messages = f.Packets(k, ship.KindPacket, size)
	if len(messages) != parts {
		t.Fatalf("the frame has %d parts, and was to have %d", len(messages), parts)
	}
	return messages
}

func TestAFrameOfWhichNothingComesForMinutesIsGivenUp(t *testing.T) {
	k := options(t, 1).Key
	var now clock
	ps := newPartials(now.now)
	message := uint64(100)
	add := func(sealed []byte) (whole bool) {
		t.Helper()
		p, err := ship.OpenPacket(k, ship.KindPacket, sealed)
		if err != nil {
			t.Fatal(err)
		}
		message++
		f, err := ps.add(&p, message)
		if err != nil {
			t.Fatal(err)
		}
		ps.giveUp()
		return f != nil
	}
	gone, slow := packetsOf(t, k, 1, 3), packetsOf(t, k, 2, 3)
	add(gone[0])
	add(slow[0])
	if freed := ps.freed(message); freed != 100 {
		t.Errorf("messages up to %d are freed, and the first part is 101", freed)
	}
	now.advance(partialSilence)
	add(slow[1]) // one that comes slowly is waited for
	now.advance(time.Second)
	ps.giveUp()
	if freed := ps.freed(message); freed != 101 {
		t.Errorf("without the frame that is given up messages up to %d are freed, and the first part of the other is 102", freed)
	}
	now.advance(partialSilence / 2)
	if !add(slow[2]) || ps.freed(message) != message {
		t.Error("a frame whose parts come slowly is not whole with the last one")
	}

	if add(gone[1]) || add(gone[2]) || ps.freed(message) != message {
		t.Error("later parts of a frame that was given up are kept")
	}
	for n, part := range gone {
		if add(part) != (n == 2) {
			t.Errorf("shipped again, the frame is whole with part %d", n)
		}
	}
}

func TestAnEdgeThatIsGoneForGoodDoesNotKeepTheStreamFromBeingFreed(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	var now clock
	o.clock = now.now
	centre := openCentre(t)
	gathering := gatherIn(t, centre, o)
	eventually(t, "the stream is there", func() bool { return gathering.idle(t.Context()) })
	conn := dial(t, broker)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	held := func() uint64 {
		stream, err := js.Stream(t.Context(), streamName)
		if err != nil {
			t.Fatal(err)
		}
		return stream.CachedInfo().State.Msgs
	}
	if _, err := js.Publish(t.Context(), shipSubjectOf(9), packetsOf(t, o.Key, 9, 2)[0]); err != nil {
		t.Fatal(err)
	}
	edge := openStore(t, t.TempDir())
	shipper := shipFrom(t, edge, 1, o)
	capture(t, edge, "acme", "c", 0, "behind it")
	eventually(t, "what is behind it is taken", func() bool { return shipper.Status().Waiting == 0 })
	if n := held(); n < 2 {
		t.Errorf("the brokers hold %d messages: the part of a frame that may go on was freed, or what is behind it", n)
	}
	now.advance(partialSilence + time.Second)
	eventually(t, "the stream is freed", func() bool { return held() == 0 })
}

// An edge that went on too late finds that its frame has not arrived, and ships it again from its first part on.
func TestAFrameThatWasGivenUpIsShippedAgainWhole(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	var now clock
	at := o
	at.clock = now.now
	centre, edge := openCentre(t), openStore(t, t.TempDir())
	gathering := gatherIn(t, centre, at)
	eventually(t, "the stream is there", func() bool { return gathering.idle(t.Context()) })
	js, err := jetstream.New(dial(t, broker))
	if err != nil {
		t.Fatal(err)
	}

	if err := edge.Shipping().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	long := make([]byte, 1<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(long) // which cannot be made shorter
	id := capture(t, edge, "acme", "c", 0, base64.StdEncoding.EncodeToString(long))
	f, err := edge.Shipping().Next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Node = 1
	parts := f.Packets(o.Key, ship.KindPacket, packetBytes)
	if len(parts) < 3 {
		t.Fatalf("the frame has %d parts", len(parts))
	}
	publish := func(part []byte) {
		t.Helper()
		if _, err := js.Publish(t.Context(), shipSubjectOf(1), part); err != nil {
			t.Fatal(err)
		}
	}
	freed := func() bool {
		stream, err := js.Stream(t.Context(), streamName)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	}
	publish(parts[0])
	eventually(t, "the first part was looked at", func() bool { return gathering.idle(t.Context()) })
	now.advance(partialSilence + time.Second)
	eventually(t, "the frame is given up", freed)
	for _, part := range parts[1:] {
		publish(part)
	}
	eventually(t, "the rest was looked at", freed)
	if n := count(t, centre, "acme"); n != 0 {
		t.Fatalf("%d exchanges were taken of a frame without its first part", n)
	}
	shipper := shipFrom(t, edge, 1, o)
	eventually(t, "it was shipped again", func() bool { return shipper.Status().Waiting == 0 })
	if _, err := centre.Archive().Exchange("acme", id); err != nil {
		t.Error(err)
	}
}
