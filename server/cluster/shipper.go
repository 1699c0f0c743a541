package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store/ship"
)

// Log is the log of a store that ships. Only a [Shipper] uses it, except for Waiting and Oldest.
type Log interface {
	Begin(ctx context.Context) error // start logging, with everything that has ended before
	Repeat(ctx context.Context) error
	Next(ctx context.Context, after uint64) (ship.Frame, error) // Last is 0 if there are no more
	Forget()
	Confirm(ctx context.Context, upTo uint64) error
	Log() ship.LogID
	Last() uint64
	Confirmed() uint64
	Waiting() uint64
	Holds(number uint64, tail ship.Tail) (bool, error)
	Oldest() (time.Time, error)
	Changed() <-chan struct{}
}

// gather is how long ended exchanges are collected before they are shipped: brokers spend more on a message than on its
// content.
const gather = 10 * time.Millisecond

// greetTime is how long shipping waits for the first reply of the centre, which comes within milliseconds.
const greetTime = quorumTime

// Shipping is the state of a shipper.
type Shipping struct {
	Connected bool      `json:"connected"`          // to a broker
	Waiting   uint64    `json:"waiting"`            // exchanges that the centre has not confirmed
	Oldest    time.Time `json:"oldest,omitzero"`    // when the first of them began
	Frames    int64     `json:"frames"`             // taken by the brokers
	Resent    int64     `json:"resent"`             // how often it went back because frames had not arrived
	Confirmed time.Time `json:"confirmed,omitzero"` // when the centre last answered
	Skew      int64     `json:"skew_ms"`            // of the centre's clock against this one
	Local     int64     `json:"local"`              // exchanges that should have waited for the brokers, which did not take them in time
	Problem   string    `json:"problem,omitempty"`  // why nothing moves; "": it does, or there is nothing to ship
	Identity  *Identity `json:"identity,omitempty"` // nil: it follows no roster
}

// Shipper ships a log. [Ship] starts it, and Close ends it.
type Shipper struct {
	options Options
	node    uint16
	log     Log
	broker  *broker
	marks   chan ship.Mark
	stop    context.CancelFunc
	done    chan struct{}

	mu     sync.Mutex
	status Shipping

	quorum quorum
	centre centreClock

	// The rest is owned by run.
	sent    uint64   // number of the last entry that the brokers have taken
	packets [][]byte // of the next frame, those that the brokers have not taken yet
	last    uint64   // number of that frame's last entry
	first   int      // index of packets[0] in that frame
	attempt int      // changes when entries are sent again, so that the brokers do not take them for duplicates
	probe   probe
}

// probe is an entry that was published before a message of the brokers' stream. A centre that has handled the message
// and lacks the entry will not get it, however much others publish behind it.
type probe struct {
	entry   uint64 // number in the log; 0: none
	message uint64
}

// Ship starts shipping. It does not wait for brokers or centre, and survives their absence.
func Ship(ctx context.Context, log Log, node uint16, o Options) (*Shipper, error) {
	if err := log.Begin(ctx); err != nil {
		return nil, err
	}
	b, err := connect(&o)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Shipper{
		options: o, node: node, log: log, broker: b, marks: make(chan ship.Mark, 16), stop: stop, done: make(chan struct{}),
		sent: log.Confirmed(), quorum: quorum{taken: log.Confirmed()},
	}
	if _, err := b.Subscribe(markSubjectOf(node), s.hear); err != nil {
		stop()
		b.Close()
		return nil, fmt.Errorf("listen to the centre: %w", err)
	}
	go s.run(ctx)
	return s, nil
}

// Close stops shipping. The next Shipper ships what was not confirmed.
func (s *Shipper) Close() {
	s.stop()
	<-s.done
	s.broker.Close()
}

// Status returns the current state.
func (s *Shipper) Status() Shipping {
	s.mu.Lock()
	status := s.status
	s.mu.Unlock()
	ahead, _ := s.centre.ahead(s.options.now())
	status.Skew = -ahead.Milliseconds()
	status.Connected, status.Waiting = s.broker.IsConnected(), s.log.Waiting()
	if status.Waiting > 0 {
		status.Oldest, _ = s.log.Oldest()
	}
	if !status.Connected {
		status.Problem = s.options.unreachable()
	}
	return status
}

func (s *Shipper) update(change func(*Shipping)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.status)
}

// hear handles a mark that the centre has sent unasked. A mark that finds the queue full is followed by another, or
// asked for.
func (s *Shipper) hear(m *nats.Msg) {
	mark, err := ship.OpenMark(s.options.Key, m.Data)
	if err != nil || mark.Nonce != [16]byte{} {
		return
	}
	select {
	case s.marks <- mark:
	default:
	}
}

// run ships new entries, applies marks, and asks for a mark while one is due. It ships also while the centre does not
// answer: answers to clients may wait for the brokers, and the brokers do not need the centre.
func (s *Shipper) run(ctx context.Context) {
	defer close(s.done)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	said := ""
	waiting, asked := s.greet(ctx) // the reply that is due, nil for none, and why the centre has to be asked again
	defer func() {
		if waiting != nil {
			<-waiting
		}
	}()
	for ctx.Err() == nil {
		more, err := false, asked
		if err == nil || !errors.Is(err, errRefused) {
			more, err = s.shipNext(ctx)
		}
		said = s.say(err, said)
		if more {
			if err := s.heedWaiting(ctx); err != nil {
				asked = err
			}
			select {
			case r := <-waiting:
				waiting, asked = nil, s.heedReply(ctx, r)
			case <-tick.C: // also while there is always more
				if waiting == nil {
					waiting = s.ask(ctx)
				}
			default:
			}
			continue
		}
		changed := s.log.Changed()
		if err != nil {
			changed = nil // the next attempt waits for the tick
		}
		select {
		case <-ctx.Done():
		case <-changed:
			if !s.options.Quorum {
				sleep(ctx, gather)
			}
		case m := <-s.marks:
			if err := s.heed(ctx, m, nil); err != nil {
				asked = err
			}
		case r := <-waiting:
			waiting, asked = nil, s.heedReply(ctx, r)
		case <-tick.C:
			if waiting == nil && (asked != nil || s.log.Confirmed() < s.sent) {
				waiting = s.ask(ctx)
			}
		}
	}
}

// say logs an error once, and when it is over.
func (s *Shipper) say(err error, before string) string {
	text := ""
	if err != nil && !errors.Is(err, context.Canceled) {
		text = err.Error()
	}
	if text == before {
		return text
	}
	s.update(func(status *Shipping) { status.Problem = text })
	if text != "" {
		s.options.Log.Warn("nothing is shipped to the centre; exchanges are kept here until it is", "cause", err, "waiting", s.log.Waiting())
	} else {
		s.options.Log.Info("exchanges are being shipped to the centre")
	}
	return text
}

// shipNext publishes the next frame; more is false if there is none.
func (s *Shipper) shipNext(ctx context.Context) (more bool, err error) {
	if len(s.packets) == 0 {
		f, err := s.log.Next(ctx, s.sent)
		if err != nil || f.Last == 0 {
			return false, err
		}
		f.Node = s.node
		ahead, _ := s.centre.ahead(s.options.now())
		for i := range f.Entries {
			f.Entries[i].Ahead = ahead
		}
		s.packets, s.first, s.last = f.Packets(s.options.Key, ship.KindPacket, packetBytes), 0, f.Last
	}
	for len(s.packets) > 0 {
		m := &nats.Msg{Subject: shipSubjectOf(s.node), Data: s.packets[0]}
		id := fmt.Sprintf("%s-%d-%d-%d", s.log.Log(), s.last, s.attempt, s.first)
		if err := s.publish(ctx, m, id); err != nil {
			return false, err
		}
		s.packets = s.packets[1:]
		s.first++
	}
	s.sent = max(s.sent, s.last) // meanwhile, a mark may have confirmed frames of an earlier process
	s.update(func(status *Shipping) { status.Frames++ })
	s.quorum.advance(s.sent)
	return true, nil
}

// publish waits until the brokers have a message on as many disks as the stream has replicas. It publishes the message
// again, less and less often, while no acknowledgement comes: the brokers keep one of those with the same id.
func (s *Shipper) publish(ctx context.Context, m *nats.Msg, id string) error {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	err := context.DeadlineExceeded
	for wait := resend; errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil; wait *= 2 {
		once, end := context.WithTimeout(ctx, wait)
		_, err = s.broker.stream.PublishMsg(once, m, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
		end()
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		return errors.New("the brokers have no stream: no centre has been started yet")
	}
	var refused *jetstream.APIError
	if errors.As(err, &refused) && refused.ErrorCode == notStored {
		return fmt.Errorf("%w: %s", errFull, refused.Description)
	}
	if err != nil {
		return fmt.Errorf("publish to the brokers: %w", err)
	}
	return nil
}

// notStored is the code of a broker's error when the stream has no room for a message.
const notStored jetstream.ErrorCode = 10077

var errFull = errors.New("the brokers hold as much as cluster.waiting allows, and no centre or worker takes it")

// heedWaiting applies the marks that have arrived.
func (s *Shipper) heedWaiting(ctx context.Context) error {
	for {
		select {
		case m := <-s.marks:
			if err := s.heed(ctx, m, nil); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// errRefused is returned when the centre does not accept this node's signature.
var errRefused = errors.New("the centre refuses this node")

// reply is what a question has led to, with what was known when it was asked.
type reply struct {
	mark      ship.Mark
	err       error
	sent      uint64
	confirmed uint64
	attempt   int
}

// ask asks the centre for its mark, and returns a channel for its reply, which comes after [reach] at the latest.
func (s *Shipper) ask(ctx context.Context) <-chan reply {
	q := ship.Question{Node: s.node, Log: s.log.Log()}
	_, _ = rand.Read(q.Nonce[:]) // never fails: crypto/rand ends the program instead
	r := reply{sent: s.sent, confirmed: s.log.Confirmed(), attempt: s.attempt}
	replies := make(chan reply, 1)
	go func() {
		r.mark, r.err = s.request(ctx, &q)
		replies <- r
	}()
	return replies
}

// request sends a question, and waits for the answer.
func (s *Shipper) request(ctx context.Context, q *ship.Question) (m ship.Mark, err error) {
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	asked := s.options.now()
	answer, err := s.broker.RequestWithContext(ctx, questionSubject, q.Seal(s.options.Key))
	if err != nil {
		return m, fmt.Errorf("the centre does not answer: %w", err)
	}
	if refusal, refused := strings.CutPrefix(string(answer.Data), refusalPrefix); refused && len(refusal) < 200 {
		return m, fmt.Errorf("%w: %q", errRefused, refusal)
	}
	m, err = ship.OpenMark(s.options.Key, answer.Data)
	if err != nil || m.Nonce != q.Nonce {
		return m, fmt.Errorf("%w: its answer is not signed with the key of this cluster", errRefused)
	}
	now := s.options.now()
	s.centre.heard(m.Time, asked, now)
	s.update(func(status *Shipping) { status.Confirmed = now })
	return m, nil
}

// greet asks the centre what it has before anything is shipped, which detects a log that the centre knows differently. A
// centre that takes longer than [greetTime] does not hold up shipping: its reply is due then.
func (s *Shipper) greet(ctx context.Context) (due <-chan reply, err error) {
	due = s.ask(ctx)
	timer := time.NewTimer(greetTime)
	defer timer.Stop()
	select {
	case r := <-due:
		return nil, s.heedReply(ctx, r)
	case <-timer.C:
		return due, nil
	}
}

// heedReply is heed for the reply to a question. One from before entries were sent again says nothing of these.
func (s *Shipper) heedReply(ctx context.Context, r reply) error {
	if r.err != nil || r.attempt != s.attempt {
		return r.err
	}
	return s.heed(ctx, r.mark, &r)
}

// heed removes from the log what a mark confirms. The mark of an answer also shows what had not arrived when the question
// was asked; asked is nil for any other.
func (s *Shipper) heed(ctx context.Context, m ship.Mark, asked *reply) error {
	if m.Log != s.log.Log() {
		return nil
	}
	confirmed := s.log.Confirmed()
	diverged := asked != nil && m.Mark < asked.confirmed
	if m.Mark > confirmed && m.Tail != (ship.Tail{}) {
		held, err := s.log.Holds(m.Mark, m.Tail)
		if err != nil {
			return err
		}
		diverged = !held
	}
	switch {
	case diverged || m.Mark > s.log.Last():
		// This store or the centre was restored from a backup: neither knows what the other has.
		s.options.Log.Warn("the centre or this node was restored from a backup; everything is shipped again, and the centre keeps each exchange once",
			"centre", m.Mark, "confirmed", confirmed, "last", s.log.Last())
		if err := s.log.Repeat(ctx); err != nil {
			return err
		}
		s.goBack(0)
		return nil
	case m.Mark > confirmed:
		if err := s.log.Confirm(ctx, m.Mark); err != nil {
			return err
		}
		s.sent = max(s.sent, m.Mark)
		s.quorum.advance(s.sent)
	}
	if asked == nil {
		return nil
	}
	if arrived := max(m.Mark, confirmed); arrived < asked.sent && (m.Idle || s.missed(m, asked.sent)) {
		s.log.Forget()
		s.goBack(arrived)
	}
	return nil
}

// missed reports whether an answer shows that entries published before its question, up to sent, will not arrive: the
// centre has handled what the brokers got after them. It needs two answers while others publish.
func (s *Shipper) missed(m ship.Mark, sent uint64) bool {
	if m.Newest == 0 {
		return false
	}
	if s.probe.entry <= m.Mark || m.Newest < s.probe.message { // it has arrived, or the stream was made again
		s.probe = probe{entry: sent, message: m.Newest}
	}
	return m.Handled >= s.probe.message
}

// goBack ships the entries after a number again.
func (s *Shipper) goBack(after uint64) {
	s.sent, s.packets, s.probe = after, nil, probe{}
	s.attempt++
	s.update(func(status *Shipping) { status.Resent++ })
	s.quorum.goBack(after)
}
