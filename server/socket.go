package server

import (
	"context"
	"net/http"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store"
)

// socket is a client's WebSocket on the surface of Responses (docs/wire/responses.md#12). Each event of the client asks for
// a response. They are answered one after another, each as the exchange that a POST would be.
type socket struct {
	*edge.Socket
	proxy *proxy
	ctx   context.Context // ends with the connection

	mu      sync.Mutex
	waiting []message // behind the one that is being answered
	busy    bool      // a goroutine answers
	leaving bool      // the socket ends when nothing is being answered
	work    sync.WaitGroup

	// What follows belongs to that goroutine.
	conversation responses.Conversation // of responses that are not stored
	kept         int64                  // bytes of it
}

// message is an event of the client, with the memory that it takes.
type message struct {
	*responses.Create
	share edge.Share
}

// mostWaiting is how many events a client may send ahead.
const mostWaiting = 16

// openSocket serves a WebSocket to its end.
func (s *proxy) openSocket(ctx context.Context, in *edge.Request, out *edge.Response) {
	if !in.WantsSocket() {
		s.refuseUpgrade(ctx, in, out)
		return
	}
	ws, err := s.upgrade(in, out)
	if err != nil {
		s.answerError(out, codec.Responses, asError(err), "")
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	k := &socket{Socket: ws, proxy: s, ctx: ctx}
	forget := s.edge.BeforeDrain(k.leave)
	code := k.read()
	forget()
	cancel()
	k.work.Wait()
	s.conversations.Give(k.kept)
	k.End(code)
}

func (s *proxy) upgrade(in *edge.Request, out *edge.Response) (*edge.Socket, error) {
	if s.edge.Draining() {
		return nil, edge.ErrDraining
	}
	c, err := s.authenticate(in, out)
	if err != nil {
		return nil, err
	}
	if err := c.requireScope(store.ScopeWrite); err != nil {
		return nil, err
	}
	ws, refused := s.edge.Upgrade(in, out)
	if refused != nil {
		return nil, refused
	}
	return ws, nil
}

// refuseUpgrade answers a GET that asks for no WebSocket.
func (s *proxy) refuseUpgrade(_ context.Context, _ *edge.Request, out *edge.Response) {
	e := codec.Errorf(codec.KindInvalidRequest, "POST to this path, or open a WebSocket on it.")
	s.answerError(out, codec.Responses, e, "")
	out.Set("Upgrade", "websocket")
	out.SetStatus(http.StatusUpgradeRequired)
}

// read reads events until there are no more, and returns the code to close with.
func (k *socket) read() (code int) {
	for {
		m := message{share: k.proxy.held.Share()}
		text, err := k.Read(&m.share)
		if err != nil && !isForClient(err) {
			m.share.GiveAll()
			return k.farewell()
		}
		if err == nil {
			if err = m.share.Take(int64(len(text))); err == nil { // it is copied
				m.Create, err = responses.ReadCreate(text)
			}
		}
		if err == nil {
			err = k.accept(m)
		}
		if err != nil {
			m.share.GiveAll()
			if k.Send(responses.AppendErrorOf(nil, asError(err))) != nil {
				return k.farewell()
			}
		}
	}
}

func (k *socket) farewell() (code int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.leaving {
		return edge.CloseGoAway
	}
	return edge.CloseNormal
}

// accept has an event answered when those before it have been.
func (k *socket) accept(m message) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.leaving:
		return edge.ErrDraining
	case len(k.waiting) == mostWaiting:
		return codec.Errorf(codec.KindRateLimited, "%d events wait on this connection: send the next one when a response has ended.", mostWaiting)
	}
	k.waiting = append(k.waiting, m)
	if k.busy {
		return nil
	}
	k.work.Add(1)
	if refused := k.proxy.edge.Go(func(context.Context) { k.answerAll() }); refused != nil {
		k.work.Done()
		k.waiting = nil
		return refused
	}
	k.busy = true
	return nil
}

// answerAll answers all events that wait.
func (k *socket) answerAll() {
	whole := false
	defer func() {
		if !whole { // a panic
			k.Close(edge.CloseByFault)
		}
		k.work.Done()
	}()
	for m, more := k.next(); more; m, more = k.next() {
		k.answer(&m)
	}
	whole = true
}

// next returns the next event that waits.
func (k *socket) next() (m message, more bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.waiting) == 0 {
		k.busy = false
		if k.leaving {
			k.Close(edge.CloseGoAway)
		}
		return message{}, false
	}
	m = k.waiting[0]
	k.waiting = k.waiting[1:]
	return m, true
}

// leave ends the socket when the drain begins, or when what is being answered has been.
func (k *socket) leave() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.leaving = true
	if !k.busy {
		k.Close(edge.CloseGoAway)
	}
}

// answer answers an event. The response can be continued if it did not fail.
func (k *socket) answer(m *message) {
	continues := m.Previous != "" && m.Previous == k.conversation.Newest()
	if !continues {
		k.forget()
	}
	told := &told{stream: m.Stream, keeps: m.WarmUp || !m.Store}
	err := k.respond(m, continues, told)
	if err != nil {
		k.tell(told, responses.AppendErrorOf(nil, asError(err)))
	}
	if told.Complete {
		k.remember(m, told)
	} else { // it failed, or is on record
		k.forget()
	}
}

func (k *socket) respond(m *message, continues bool, told *told) error {
	if continues {
		if err := k.conversation.Check(m.Body); err != nil {
			m.share.GiveAll()
			return err
		}
	}
	if m.WarmUp {
		defer m.share.GiveAll()
		return k.warmUp(m, told)
	}
	k.exchange(m, continues, told)
	return nil
}

// exchange runs the exchange of an event.
func (k *socket) exchange(m *message, continues bool, told *told) {
	d := k.Do(m.Body, told.hear)
	defer d.End()
	x := k.proxy.newExchange(k.ctx, &d.Request, &d.Response, codec.Responses)
	defer x.finish()
	x.request.share = m.share
	if continues {
		x.request.continues = &k.conversation
	}
	x.run()
	whole, status := d.Response.Body(), d.Response.Status()
	switch {
	case told.begun || k.ctx.Err() != nil && len(whole) == 0:
	case status < http.StatusMultipleChoices && len(whole) > 0:
		_ = send(d.Response.Stream(), responses.AppendWhole(nil, whole))
	default:
		k.tell(told, responses.AppendErrorEvent(nil, status, whole))
	}
}

// warmUp answers with a response that nothing was generated for.
func (k *socket) warmUp(m *message, told *told) error {
	var envelope codec.Envelope
	if err := envelope.Read(m.Body); err != nil {
		return err
	}
	if err := envelope.RequireModel(); err != nil {
		return err
	}
	o := &codec.AnswerOptions{
		ID: k.proxy.engine.Recorder.Off().ID()[len("exch_"):], Previous: m.Previous, Model: envelope.Model, Created: k.proxy.opts.Clock(),
	}
	response := responses.AppendUnanswered(nil, m.Body, o, responses.StatusCompleted, nil)
	d := k.Do(nil, told.hear)
	defer d.End()
	_ = send(d.Response.Stream(), responses.AppendWhole(nil, response))
	return nil
}

// tell sends an event about a request.
func (k *socket) tell(told *told, event []byte) { _ = k.Send(told.tagged(event)) }

// remember keeps what a continuation of the response needs, if there is room.
func (k *socket) remember(m *message, told *told) {
	n := k.conversation.Add(told.ID, m.Body, told.Items)
	k.kept += n
	if !k.proxy.conversations.Take(n) {
		k.kept -= n
		k.forget()
	}
}

func (k *socket) forget() {
	k.conversation.Forget()
	k.proxy.conversations.Give(k.kept)
	k.kept = 0
}

// told is what the client has been told of a response.
type told struct {
	responses.Told
	stream []byte // the stream_id of the events, nil for none
	keeps  bool   // the response can be continued on this connection only
	buffer []byte
	begun  bool
}

// hear returns an event for the client.
func (t *told) hear(f *sse.Frame) []byte {
	t.begun = true
	if t.keeps {
		t.Hear(f)
	}
	return t.tagged(f.Data)
}

func (t *told) tagged(event []byte) []byte {
	if t.stream == nil {
		return event
	}
	t.buffer = responses.AppendTagged(t.buffer[:0], event, t.stream)
	return t.buffer
}
