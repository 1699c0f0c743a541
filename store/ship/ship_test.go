package ship

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testKey(t *testing.T, seed byte) *Key {
	t.Helper()
	k, err := NewKey(bytes.Repeat([]byte{seed}, KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func testFrame() *Frame {
	return &Frame{Node: 7, Log: LogID{1, 2}, After: 3, Last: 9, Whole: true, Entries: []Entry{
		{
			Ahead: -10 * time.Minute, Account: "acme", Exchange: "exch_1", Record: []byte("record"), Session: []byte{}, Skeleton: []byte{1},
			Parts:   [][]byte{[]byte("one"), bytes.Repeat([]byte("two"), 1000)},
			Objects: []Object{{Hash: [32]byte{1}, Value: []byte("block")}, {Node: true, Hash: [32]byte{2}, Value: []byte("node")}},
		},
		{Account: "other", Exchange: "exch_2", Record: []byte("r"), Skeleton: []byte("s")},
	}}
}

func TestAFrameIsRestoredFromItsPackets(t *testing.T) {
	key, want := testKey(t, 1), testFrame()
	for _, size := range []int{1, 10, 1000, 1 << 20} {
		var j Joiner
		messages := want.Packets(key, KindPacket, size)
		for i, message := range messages {
			p, err := OpenPacket(key, KindPacket, message)
			if err != nil {
				t.Fatal(err)
			}
			got, err := j.Add(&p)
			if err != nil {
				t.Fatal(err)
			}
			if last := i == len(messages)-1; last != (got != nil) {
				t.Fatalf("packet %d of %d of at most %d bytes: a frame is %t", i, len(messages), size, got != nil)
			}
			if got != nil && !cmp.Equal(want, got) {
				t.Errorf("in packets of %d bytes (-want +got):\n%s", size, cmp.Diff(want, got))
			}
		}
	}
	empty := &Frame{Log: LogID{1}, After: 1, Last: 2}
	p, err := OpenPacket(key, KindPacket, empty.Packets(key, KindPacket, 1000)[0])
	if err != nil {
		t.Fatal(err)
	}
	if got, err := new(Joiner).Add(&p); err != nil || !cmp.Equal(empty, got) {
		t.Errorf("a frame of nothing is %+v (%v)", got, err)
	}
}

func TestPartsOfDifferentFramesAreNotJoined(t *testing.T) {
	key := testKey(t, 1)
	one, other := testFrame(), testFrame()
	other.After, other.Last = 9, 10
	packets := func(f *Frame) (all []Packet) {
		for _, message := range f.Packets(key, KindPacket, 1000) {
			p, err := OpenPacket(key, KindPacket, message)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		return all
	}
	a, b := packets(one), packets(other)
	for name, order := range map[string][]Packet{
		"the other's end": {a[0], b[1], b[2], b[3]}, "no beginning": a[1:], "one is missing": {a[0], a[2], a[3]}, "one comes twice": {a[0], a[0], a[2], a[3]},
	} {
		var j Joiner
		for i := range order {
			if f, err := j.Add(&order[i]); f != nil || err != nil {
				t.Errorf("%s: %+v (%v)", name, f, err)
			}
		}
	}
	var j Joiner
	for _, p := range append([]Packet{a[0], b[0]}, b[1:]...) {
		if f, _ := j.Add(&p); f != nil {
			return
		}
	}
	t.Error("a frame that starts before another one is complete is not restored")
}

func TestOnlySignedMessagesAreOpened(t *testing.T) {
	key := testKey(t, 1)
	message := testFrame().Packets(key, KindPacket, 1<<20)[0]
	other := bytes.Clone(message)
	other[len(magic)]++
	for name, c := range map[string]struct {
		message []byte
		want    error
	}{
		"nothing":         {nil, ErrForged},
		"cut":             {message[:len(message)-1], ErrForged},
		"longer":          {append(bytes.Clone(message), 0), ErrForged},
		"another version": {other, ErrVersion},
		"another key":     {testFrame().Packets(testKey(t, 2), KindPacket, 1<<20)[0], ErrForged},
		"another use":     {(&Question{}).Seal(key), ErrForged},
	} {
		if _, err := OpenPacket(key, KindPacket, c.message); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		changed := bytes.Clone(message)
		changed[random.IntN(len(changed))] ^= 1 << random.IntN(8)
		if _, err := OpenPacket(key, KindPacket, changed); err == nil {
			t.Fatal("a changed packet was opened")
		}
	}
}

// A node that has the key may be of a later build, or broken.
func TestASignedMalformedMessageIsAnError(t *testing.T) {
	key, random := testKey(t, 1), rand.New(rand.NewPCG(1, 2))
	body := (&Packet{Node: 1, After: 1, Last: 2, Parts: 1, Payload: AppendEntries(nil, testFrame().Entries)}).append(nil)
	for range 20_000 {
		changed := bytes.Clone(body[:random.IntN(len(body)+1)])
		for range random.IntN(4) {
			if len(changed) > 0 {
				changed[random.IntN(len(changed))] = byte(random.Uint32())
			}
		}
		p, err := OpenPacket(key, KindPacket, key.Seal(KindPacket, changed)) // must not panic, nor allocate what a length claims
		if err == nil {
			_, _ = new(Joiner).Add(&p)
		}
		_, _ = OpenQuestion(key, key.Seal(KindQuestion, changed))
		_, _ = OpenMark(key, key.Seal(KindMark, changed))
		_, _ = OpenLeaseRequest(key, key.Seal(KindLeaseRequest, changed))
		_, _ = OpenLeases(key, key.Seal(KindLeases, changed))
	}
	for _, p := range []Packet{{Last: 1}, {Parts: 1}, {After: 2, Last: 1, Parts: 1}, {Last: 1, Part: 1, Parts: 1}} {
		if _, err := OpenPacket(key, KindPacket, key.Seal(KindPacket, p.append(nil))); err == nil {
			t.Errorf("%+v was opened", p)
		}
	}
}

func TestQuestionsAndMarksAreDecodedAsSent(t *testing.T) {
	key := testKey(t, 1)
	q := Question{Node: 65535, Log: LogID{3}, Nonce: [16]byte{4}}
	if got, err := OpenQuestion(key, q.Seal(key)); err != nil || got != q {
		t.Errorf("%+v (%v)", got, err)
	}
	m := Mark{Log: LogID{3}, Mark: 1 << 40, Nonce: q.Nonce, Idle: true, Time: time.UnixMilli(1_700_000_000_000), Handled: 1 << 41, Newest: 1 << 42}
	if got, err := OpenMark(key, m.Seal(key)); err != nil || got != m {
		t.Errorf("%+v (%v)", got, err)
	}
}

func TestLeasesAreDecodedAsSent(t *testing.T) {
	k := testKey(t, 1)
	asked := LeaseRequest{Nonce: [16]byte{1}, Server: "7-a", Uses: []Use{
		{Share: Share{Limit: "tokens_per_month", Key: "key_a", Period: 24322}, Most: 100, Used: -3, Counted: 5, Held: 1, Want: GiveBack},
		{Share: Share{Limit: "budget_usd_day", Account: "acme", Period: 20000}, Most: 1e9},
	}}
	got, err := OpenLeaseRequest(k, asked.Seal(k))
	if err != nil || !cmp.Equal(got, asked) {
		t.Errorf("%+v, %v", got, err)
	}
	lent := Leases{Nonce: [16]byte{1}, Servers: 3, Leases: []Lease{{Room: 4, Left: -5}, {}}}
	back, err := OpenLeases(k, lent.Seal(k))
	if err != nil || !cmp.Equal(back, lent) {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := OpenLeases(k, asked.Seal(k)); !errors.Is(err, ErrForged) {
		t.Errorf("a request is read as a reply: %v", err)
	}
	asked.Uses[0].Used = math.MaxInt64
	if _, err := OpenLeaseRequest(k, asked.Seal(k)); err == nil {
		t.Error("amounts that overflow are accepted")
	}
}
