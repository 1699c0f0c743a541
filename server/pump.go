package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/record"
)

// pump relays one stream from a provider to a client, in the handler's own goroutine: read, note, translate if the
// formats differ, write, flush once per read. No event is held back while there is nothing else to read. Events that
// arrive together leave together, because the cost of a stream is in system calls, not bytes. Only whole frames leave,
// so whatever follows, an error or a heartbeat, is understood.
type pump struct {
	x     *exchange
	reply providerReply
	relay relay
	*buffers
	frame   sse.Frame
	lingers *time.Timer // ends the provider's stream some time after its terminal event

	alive  bool // the newest read brought only heartbeats
	closed bool // the newest read brought the end of the body
	ended  bool // a terminal or error event has been seen
	failed bool // it was an error event

	dropped bool // the request has been dropped, or has to be kept

	mu        sync.Mutex // guards the fields below against the heartbeat; held while a write waits for the client
	writer    *edge.Stream
	lastWrite time.Time
	next      int64 // number of the event after the last one sent
	gaps      telemetry.Gaps
	answered  bool // the head of the answer has been written
	over      bool // only the loop may still write
}

// relay turns a provider's stream into the client's: the same bytes (pass.go), or their translation (cross.go). It
// knows the id of the answer and the number of its events, so that anything written in the provider's place continues
// from there.
type relay interface {
	// frames reads the complete frames, tells p the kind of each, and returns the client's bytes for them, valid until
	// the next call.
	frames(p *pump) []byte
	// end handles the end of a body without a terminal event, with the bytes after the last frame. It reports whether
	// the answer is complete by the format's own rules.
	end(p *pump, residue []byte) (out []byte, complete bool)
	// rest returns what follows the terminal event without a blank line.
	rest(p *pump) []byte
	// fail appends the error that ends the answer; next is the number of that event.
	fail(dst []byte, e *codec.Error, next int64) []byte
	// next returns the number of the next event, 0 if events have none.
	next() int64
	// seen returns what the answer has said about itself so far.
	seen() *crossing.Seen
	// announce describes in the head of the answer what is done to it; record puts the same on record.
	announce()
	record()
	// answersWithStatus reports whether an error at the start of the stream becomes an answer with a status.
	answersWithStatus() bool
	release()
}

// streamBuffer is the read size of a stream: one or two reads empty a burst from a socket, and five thousand open
// streams take 80 MB.
const streamBuffer = 16 << 10

// afterTerminal is how long a provider may keep a stream open after its terminal event. The client has its answer by
// then. Later bytes are passed on, and the connection is reused if its end comes in time.
const afterTerminal = time.Second

// buffers are borrowed by a stream while it lasts.
type buffers struct {
	splitter *sse.Splitter
	out      []byte
}

var bufferPool = sync.Pool{New: func() any { return &buffers{splitter: sse.NewSplitter(streamBuffer, sse.MaxFrame)} }}

// newPump returns a pump for the stream of a reply. It has to be run.
func newPump(reply providerReply, by relay) *pump {
	x := reply.x
	p := &pump{
		x: x, reply: reply, relay: by, buffers: bufferPool.Get().(*buffers),
		writer: x.answer.out.Stream(), lastWrite: time.Now(),
	}
	x.answer.gaps = &p.gaps
	x.recording.closing.Status, x.recording.closing.ContentType = http.StatusOK, x.request.streamType()
	x.proxy.beat.add(p)
	return p
}

// release returns what the stream borrowed. The writer stays with the response, which hertz finalizes later.
func (p *pump) release() {
	p.x.proxy.beat.remove(p)
	_ = p.reply.Body.Close()
	p.mu.Lock()
	p.over = true
	p.x.answer.begun = p.answered
	p.mu.Unlock()
	if p.lingers != nil {
		p.lingers.Stop()
	}
	p.relay.release()
	p.splitter.Reset()
	if cap(p.out) > maxKept {
		p.out = nil
	}
	bufferPool.Put(p.buffers)
	p.buffers = nil
}

// maxKept is the largest output buffer that is kept for the next stream.
const maxKept = 64 << 10

// run serves the stream to its end. An error means that nothing has been sent, so that the client can still be answered
// with a status.
func (p *pump) run() error {
	defer p.release()
	for {
		got, failed := p.splitter.Read(p.reply.Body)
		if over, err := p.pass(len(got), failed); over {
			return err
		}
	}
}

// pass passes on what was read, n bytes and then perhaps an error, and reports whether that ends the stream.
func (p *pump) pass(n int, failed error) (over bool, err error) {
	p.closed = errors.Is(failed, io.EOF)
	if n > 0 {
		out := p.take()
		if e := p.refusal(); e != nil {
			return true, p.stop(e)
		}
		if err := p.send(out); err != nil {
			return true, p.stop(err)
		}
	}
	switch {
	case failed == nil:
		return false, nil
	case p.ended: // the client has everything
		return true, p.end()
	case p.closed:
		return true, p.endOfBody()
	case errors.Is(failed, sse.ErrFrameTooLong):
		return true, p.stop(p.x.route.providerError("sent an event of more than %d bytes", sse.MaxFrame))
	default:
		return true, p.stop(failed)
	}
}

// take notes the complete frames and returns the client's bytes for them.
func (p *pump) take() []byte {
	p.alive = true
	out := p.relay.frames(p)
	out = p.x.request.array().Of(out, p.ended)
	if p.alive && !p.splitter.Buffered() {
		p.reply.Body.KeptAlive()
	}
	return out
}

// refusal returns the provider's error that a stream began with. While nothing has been sent to the client, a
// translated stream is then answered with a status, which says more to a client than a stream that fails at once, or by
// another model. In the provider's own format only the latter is done.
func (p *pump) refusal() error {
	if !p.failed || !p.relay.answersWithStatus() && !p.x.mayFallBack() {
		return nil
	}
	failure := p.relay.seen().Err
	if failure == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answered {
		return nil
	}
	return p.x.route.fromProvider(failure)
}

// note records the kind of a frame.
func (p *pump) note(sign codec.FrameKind) {
	if sign != codec.FrameKeepAlive {
		p.alive = false
	}
	if (sign == codec.FrameTerminal || sign == codec.FrameError) && !p.ended {
		p.ended, p.failed = true, sign == codec.FrameError
	}
}

// send writes bytes to the client. Before the first of them the request is on record; before the terminal event the
// whole exchange is.
func (p *pump) send(out []byte) error {
	if len(out) == 0 && !p.ended {
		return nil
	}
	if p.x.recording.closing.FirstByte.IsZero() {
		if err := p.x.recording.capture.Recorded(p.x.ctx); err != nil {
			return err
		}
		p.x.recording.closing.FirstByte = time.Now()
	}
	if !p.x.recording.finished {
		if _, err := p.x.recording.capture.Write(out); err != nil {
			return err
		}
	}
	if p.ended && !p.x.recording.finished {
		if err := p.commit(); err != nil {
			return err
		}
	}
	err := p.write(out, p.closed && p.ended && !p.failed && !p.splitter.Buffered())
	if !p.dropped {
		p.dropRequest()
	}
	return err
}

// dropRequest drops the request when the answer has begun: no other provider can be asked any more.
func (p *pump) dropRequest() {
	keep := p.x.recording.off && crossing.Traits(p.x.route.format).Stream.Numbered // its errors repeat the request
	if p.dropped = keep || p.reply.Body.DropRequest(); p.dropped && !keep {
		p.x.request.dropBody()
		if _, refers := p.relay.(*translated); refers {
			_ = p.x.request.share.Take(p.x.request.size) // the translation of the answer has views of it
		}
		p.x.route.placement.Model = strings.Clone(p.x.route.placement.Model)
	}
}

// commit records the end of an answer that the provider has ended itself.
func (p *pump) commit() error {
	if !p.closed {
		p.lingers = time.AfterFunc(afterTerminal, p.reply.Body.Cut)
	}
	if p.failed {
		return p.finish(record.OutcomeUpstreamError)
	}
	return p.finish(record.OutcomeComplete)
}

func (p *pump) finish(outcome record.Outcome) error {
	p.relay.record()
	p.x.recordSeen(p.relay.seen())
	return p.x.commit(outcome)
}

// write sends bytes at once, preceded by the head of the answer the first time, and followed by its end the last time.
func (p *pump) write(out []byte, last bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.answered {
		p.relay.announce()
	}
	p.next = p.relay.next()
	return p.writeLocked(out, last)
}

func (p *pump) writeLocked(out []byte, last bool) error {
	now := time.Now()
	if p.answered {
		p.gaps.Note(now.Sub(p.lastWrite))
	}
	p.lastWrite = now
	p.x.answer.sent += int64(len(out))
	if !p.answered {
		p.answered = true
		p.reply.header()
		eventHeader(p.x.answer.out)
		p.x.answer.out.SetContentType(p.x.request.streamType())
	}
	if _, err := p.writer.Write(out); err != nil {
		return err
	}
	if last {
		return p.writer.End()
	}
	return p.writer.Flush()
}

// silent reports whether a heartbeat is due.
func (p *pump) silent() bool {
	if !p.mu.TryLock() {
		return false
	}
	defer p.mu.Unlock()
	return p.silentLocked()
}

func (p *pump) silentLocked() bool {
	return !p.over && time.Since(p.lastWrite) >= p.x.proxy.opts.Heartbeat
}

// beat writes a heartbeat if the stream is still silent. The loop will notice a failed write. A stream whose loop is
// writing, or waits for a slow client, is not silent.
func (p *pump) beat() {
	if !p.mu.TryLock() {
		return
	}
	defer p.mu.Unlock()
	if !p.silentLocked() {
		return
	}
	if !p.answered && p.x.recording.capture.Recorded(p.x.ctx) != nil {
		return
	}
	p.x.proxy.telemetry.Heartbeat()
	_ = p.writeLocked(crossing.AppendHeartbeat(nil, p.x.request.surface, p.next), false)
}

// end handles the end of a body after its terminal event. Trailing bytes without a blank line are passed on too. An
// answer that ended with an error gets no clean end.
func (p *pump) end() error {
	if p.failed {
		p.writer.Abort()
	}
	if rest := p.x.request.array().Of(p.relay.rest(p), false); len(rest) > 0 {
		return p.stopIf(p.send(rest))
	}
	return nil
}

// endOfBody handles a body that ended without a terminal event: complete by the format's own rules, or broken off.
func (p *pump) endOfBody() error {
	var residue []byte
	if p.splitter.Residue(&p.frame) {
		residue = p.frame.Data
	}
	out, complete := p.relay.end(p, residue)
	if !complete {
		if reported := p.relay.seen().Err; reported != nil && (reported.Kind != codec.KindUpstream || reported.Status != 0) {
			return p.stop(p.x.route.fromProvider(reported)) // it came after the last event, without a frame
		}
		return p.stop(p.x.route.providerError("ended its answer in the middle"))
	}
	p.ended = true
	return p.stopIf(p.send(p.x.request.array().Of(out, true)))
}

func (p *pump) stopIf(err error) error {
	if err == nil {
		return nil
	}
	return p.stop(err)
}

// stop ends a stream that cannot continue: with an error in the surface's format and a connection that is visibly cut,
// so that it never looks like a finished answer. If nothing has been sent yet, the error is returned and answered with
// a status.
func (p *pump) stop(err error) error {
	p.mu.Lock()
	p.over = true // no heartbeat into what follows
	answered := p.answered
	p.mu.Unlock()

	e := p.x.request.discreet(orDraining(p.x.ctx, asError(err)))
	if !answered && !clientGone(p.x.ctx) {
		return e
	}
	defer p.writer.Abort()
	outcome := outcomeOf(p.x.ctx, e, true)
	p.x.recording.closing.Error = e
	if clientGone(p.x.ctx) || !isForClient(err) {
		p.x.recording.closing.Error = nil
		return p.recorded(p.finish(record.OutcomeClientClosed))
	}
	p.out = p.relay.fail(p.out[:0], e, p.next)
	p.out = p.x.request.array().Of(p.out, true)
	if !p.x.recording.finished {
		_, _ = p.x.recording.capture.Write(p.out)
	}
	recorded := p.recorded(p.finish(outcome))
	_ = p.write(p.out, false)
	return recorded
}

// recorded logs a record that could not be completed; it is too late to tell the client.
func (p *pump) recorded(err error) error {
	if err != nil {
		p.x.proxy.log.Error("an exchange could not be put on record", "exchange", p.x.recording.capture.ID(), "error", err)
	}
	return nil
}
