package store

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// An exchange is digested from the bytes that its capture has in memory anyway. It is read back from the store only if
// it was too large for that, if too many wait, or if it is from before the last start.
const (
	handoverRequest = 1 << 20  // bytes of a request kept until its exchange is digested
	handoverTotal   = 16 << 20 // bytes of all requests kept

	// Requests and answers of up to this size together are read in some 20 µs, before their end is committed. A stream
	// that was read as it passed has its text ready, which is a part of its steps, and less than an eighth of it: the frame
	// of a token takes 100 bytes and more. Steps repeat the text where the provider does, as in Responses.
	digestedAtOnce = 8 << 10
	framing        = 8

	// Requests from handoverLarge on may take half of handoverTotal: a few dozen agents with long answers leave room
	// for the rest.
	handoverLarge = 64 << 10
)

// hold reports whether n more bytes may be kept. release frees what is held.
func (d *digester) hold(n int) bool {
	most := int64(handoverTotal)
	if n >= handoverLarge {
		most /= 2
	}
	if d.held.Add(int64(n)) <= most {
		return true
	}
	d.held.Add(int64(-n))
	return false
}

// release frees the bytes of an exchange that was handed over, if it was. They must not be read afterwards.
func (d *digester) release(x *record.Exchange) {
	if x == nil {
		return
	}
	d.held.Add(-int64(cap(x.RawRequest) + heldAnswer(x) + x.Items.Size()))
	buffer.Put(x.RawRequest)
	buffer.Put(x.RawResponse)
	buffer.Put(x.Stored)
	x.RawRequest, x.RawResponse, x.Reader, x.Answer, x.Items, x.Stored = nil, nil, nil, nil, nil, nil
}

// keepRequest keeps the unknown part of a request for the digester, if that is small and there is room. last is nil if
// the request was not cut along its items: then rereading it all is cheap. A refused request may be malformed, so its
// keys are not derived.
func (c *Capture) keepRequest(o *record.Opening, last []blob.ItemHash) {
	d := &c.store.digester
	if c.store.opts.Digest == nil || o.Auxiliary != "" {
		return
	}
	unread := o.Body
	if last != nil {
		c.items = record.ItemsOf(o.Items, last)
	}
	held := c.items.Size()
	if o.Format != codec.FormatUnknown {
		c.derived = &chatkey.Keys{Opening: o.DerivedOpening, Reply: o.DerivedReply}
	}
	if c.derived != nil && c.items != nil {
		if known, from := d.prefixes.find(c.account, c.info.Surface, c.items); from > 0 {
			c.items.Known, c.items.From, c.items.Start = known, from, o.Items[from].Start
			unread = o.Body[c.items.Start:o.Items[len(o.Items)-1].End]
		}
	}
	if len(unread) > handoverRequest || !d.hold(buffer.SizeOf(len(unread))+held) {
		c.derived = nil // streams may stay open for long
		if held > 0 && !d.hold(held) {
			c.items = nil
		}
		return
	}
	c.request = append(buffer.Get(len(unread)), unread...)
}

// handOver returns the ended exchange with its bytes, or frees them, in which case it has to be read back. What is known
// about its items is handed over even then, without a request: were they forgotten, the next request of the session, as
// large as this one, would have to be read whole, too, for which there is even less room. steps are those of the
// answer's last part, if it is stored as steps; read is what the answer says, if that was read before.
func (c *Capture) handOver(steps []byte, read *codec.Answer) *record.Exchange {
	request, items, answer, reader := c.request, c.items, c.buffer, c.answer.reader()
	if c.beyond > 0 || c.answer.masked() {
		read = nil
	}
	c.request, c.items, c.buffer, c.answer = nil, nil, nil, nil
	d := &c.store.digester
	if request != nil && c.part == 0 {
		x := &record.Exchange{ExchangeInfo: *c.info, RawRequest: request, RawResponse: answer, Reader: reader, Answer: read, Items: items, Derived: c.derived, Stored: steps}
		if d.hold(heldAnswer(x)) {
			return x
		}
	}
	buffer.Put(steps)
	d.held.Add(int64(-cap(request)))
	buffer.Put(request)
	buffer.Put(answer)
	if items == nil {
		return nil
	}
	return &record.Exchange{Items: items}
}

// digestAtOnce digests an exchange with little to read in the commit of its end, which saves a separate commit, another
// change in the log and a third record of the session. Exchanges of a session are digested in the order they ended, so
// this one is left to the digester while others of its session wait there. The writer checks that again: only it knows
// the session of an exchange that ends before its opening is committed.
func (c *Capture) digestAtOnce(w *closing) {
	x := w.captured
	c.store.digester.prefixes.skipKnown(c.account, x)
	if x == nil || x.RawRequest == nil || len(x.RawRequest)+unreadAnswer(x) > digestedAtOnce {
		return
	}
	select {
	case <-c.opening.Done:
		if c.session == (kv.SessionID{}) || !c.store.feed.Digested(kv.SessionRef{Account: c.account, ID: c.session}) {
			return
		}
	default:
	}
	w.captured = nil
	began := time.Now()
	if read, ok := c.store.readCaptured(c.account, x); ok {
		w.digest = c.store.digestOf(kv.ExchangeRef{Account: c.account, ID: c.id}, read, nil)
		c.store.feed.Worked(StageDigest, 1, began)
	}
}

// unreadAnswer estimates how many bytes of an answer the digest has to read.
func unreadAnswer(x *record.Exchange) int {
	if x.Reader == nil || !strings.HasPrefix(x.ResponseType, "text/event-stream") {
		return len(x.RawResponse)
	}
	unread := len(x.RawResponse) / framing
	if x.Stored != nil {
		unread = min(unread, len(x.Stored))
	}
	return unread
}

// heldAnswer returns the size that an answer counts for: once read, its text is kept too, which is no longer than it.
func heldAnswer(x *record.Exchange) int {
	held := cap(x.RawResponse) + cap(x.Stored)
	if x.Reader != nil || x.Answer != nil {
		held += len(x.RawResponse)
	}
	return held
}
