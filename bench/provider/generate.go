package provider

import (
	"hash"
	"net/http"
)

// A format reads generation requests and writes answers in one wire format.
type format interface {
	errorShape
	// authorize refuses a request without the headers that the real provider insists on.
	authorize(r *http.Request) *fault
	// read understands a request; with strict, it refuses what the real provider would.
	read(c *call, strict bool) (*prompt, *fault)
	// cached counts in bytes what the real provider's prompt cache has of a request, and what it takes in.
	cached(c *promptCache, owner hash.Hash, request object) (read, written int)
	// header sets the response headers that clients of the format look for.
	header(h http.Header, requestID string)
	// complete appends a whole answer.
	complete(dst []byte, a *answer, p *prompt) []byte
	// stream writes an answer event by event.
	stream(s *stream, a *answer, p *prompt)
}

// generate answers generation requests of one format.
func (s *Server) generate(f format) http.Handler {
	return s.handle(f, func(c *call) error { return c.generate(f) })
}

// dialect is how a provider's endpoints know callers, and head their answers.
type dialect interface {
	authorize(r *http.Request) *fault
	header(h http.Header, requestID string)
}

// admit heads the answer, and checks the caller's credential if the server is strict.
func (c *call) admit(d dialect) error {
	d.header(c.w.Header(), "req_"+c.id)
	if c.server.options.Strict {
		if refusal := d.authorize(c.r); refusal != nil {
			return refusal
		}
	}
	return nil
}

// read admits the caller and parses the body.
func (c *call) read(d dialect) error {
	if err := c.admit(d); err != nil {
		return err
	}
	return c.parse()
}

func (c *call) generate(f format) error {
	strict := c.server.options.Strict
	if err := c.read(f); err != nil {
		return err
	}
	p, refusal := f.read(c, strict)
	if refusal != nil {
		return refusal
	}
	p.bytes = len(c.body)
	ofAgents := c.server.options.Script
	if c.server.options.LookRound {
		ofAgents = p.lookRound()
	}
	chosen, err := p.choose(ofAgents)
	if err != nil {
		return refuse("", "The script in the prompt cannot be played: %v", err)
	}
	plan := &chosen.delivery
	if err := pause(c.r.Context(), plan.beforeHeader); err != nil {
		return errClientGone
	}
	if chosen.fault != nil && c.server.stillFailing(c.body, chosen.faultTimes) {
		return c.fail(chosen.fault, plan)
	}
	if plan.instead != insteadNothing {
		return deliverInstead(c.w, plan)
	}
	a, err := build(chosen, p, c.id, c.server.options.Clock().Unix())
	if err != nil {
		return refuse("", "The script in the prompt cannot be played: %v", err)
	}
	c.countCached(f, a, p)
	if !p.stream {
		if chosen.insideFault != nil {
			return c.fail(chosen.insideFault, plan)
		}
		if err := pause(c.r.Context(), plan.beforeFirst); err != nil {
			return errClientGone
		}
		if plan.queued > 0 {
			return deliverQueued(c.r.Context(), c.w, plan, f.complete(nil, a, p))
		}
		return deliver(c.w, plan, http.StatusOK, f.complete(nil, a, p))
	}
	return c.stream(f, a, p)
}

func (c *call) stream(f format, a *answer, p *prompt) error {
	buffer := c.server.buffers.Get().(*[]byte)
	out := newStream(c.r.Context(), c.w, &a.delivery, "text/event-stream; charset=utf-8", *buffer)
	defer func() {
		*buffer = out.buf
		c.server.buffers.Put(buffer)
	}()
	out.insideSet, out.insideAfter = a.insideFault != nil, a.insideAfter
	f.stream(out, a, p)
	return out.close()
}

// stillFailing counts how often a request was answered with a fault that lasts a number of times.
func (s *Server) stillFailing(body []byte, times int) bool {
	if times == 0 {
		return true
	}
	key := answerID(body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.repeated[key] >= times {
		return false
	}
	if len(s.repeated) >= maxRepeated {
		clear(s.repeated)
	}
	s.repeated[key]++
	return true
}
