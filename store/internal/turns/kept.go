package turns

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// An exchange is digested from the bytes that its recorder has in memory anyway. It is read back from the store only if
// it was too large for that, if too many wait, or if it is from before the last start.
const (
	KeptRequest = 1 << 20  // bytes of a request kept until its exchange is digested
	KeptTotal   = 16 << 20 // bytes of all requests kept

	// Requests and answers of up to this size together are read in some 20 µs, before their end is committed. A stream
	// that was read as it passed has its text ready, which is a part of its steps, and less than an eighth of it: the frame
	// of a token takes 100 bytes and more. Steps repeat the text where the provider does, as in Responses.
	ReadAtOnce = 8 << 10
	Framing    = 8

	// Requests from KeptLarge on may take half of KeptTotal: a few dozen agents with long answers leave room
	// for the rest.
	KeptLarge = 64 << 10
)

// hold reports whether n more bytes may be kept. Release frees what is held.
func (d *Digester) hold(n int) bool {
	most := int64(KeptTotal)
	if n >= KeptLarge {
		most /= 2
	}
	if d.Held.Add(int64(n)) <= most {
		return true
	}
	d.Held.Add(int64(-n))
	return false
}

// Release frees the bytes of an exchange that was handed over, if it was. They must not be read afterwards.
func (d *Digester) Release(x *record.Exchange) {
	if x == nil {
		return
	}
	d.Held.Add(-int64(cap(x.RawRequest) + heldAnswer(x) + x.Items.Size()))
	buffer.Put(x.RawRequest)
	buffer.Put(x.RawResponse)
	buffer.Put(x.Stored)
	x.RawRequest, x.RawResponse, x.Reader, x.Answer, x.Items, x.Stored = nil, nil, nil, nil, nil, nil
}

// Kept is what is kept of a request until its exchange has ended.
type Kept struct {
	request []byte               // from the buffer pool; nil: the request is read back
	items   *record.RequestItems // of request, may be nil
	derived *chatkey.Keys        // of request; nil: unknown
}

// Keep keeps the unknown part of a request, if that is small and there is room. last is nil if the request was not cut
// along its items: then rereading it all is cheap. A refused request may be malformed, so its keys are not derived.
func (d *Digester) Keep(account kv.AccountNumber, surface string, o *record.Opening, last []blob.ItemHash) (k Kept) {
	if d.contentOf == nil || o.Auxiliary != "" {
		return k
	}
	unread := o.Body
	if last != nil {
		k.items = record.ItemsOf(o.Items, last)
	}
	held := k.items.Size()
	if o.Format != codec.FormatUnknown {
		k.derived = &chatkey.Keys{Opening: o.DerivedOpening, Reply: o.DerivedReply}
	}
	if k.derived != nil && k.items != nil {
		if known, from := d.prefixes.find(account, surface, k.items); from > 0 {
			k.items.Known, k.items.From, k.items.Start = known, from, o.Items[from].Start
			unread = o.Body[k.items.Start:o.Items[len(o.Items)-1].End]
		}
	}
	if len(unread) > KeptRequest || !d.hold(buffer.SizeOf(len(unread))+held) {
		k.derived = nil // streams may stay open for long
		if held > 0 && !d.hold(held) {
			k.items = nil
		}
		return k
	}
	k.request = append(buffer.Get(len(unread)), unread...)
	return k
}

// HandOver returns an ended exchange with what was kept of its request and its answer, or frees them, in which case it has
// to be read back. What is known about its items is handed over even then, without a request: were they forgotten, the
// next request of the session, as large as this one, would have to be read whole, too, for which there is even less room.
// x has the answer, from the buffer pool; whole says that it is all of it. Stored are the steps of the answer, if it is
// stored as steps; Answer is what the answer says, if that was read before.
func (d *Digester) HandOver(k Kept, x record.Exchange, whole bool) *record.Exchange {
	if k.request != nil && whole {
		handed := x
		handed.RawRequest, handed.Items, handed.Derived = k.request, k.items, k.derived
		if d.hold(heldAnswer(&handed)) {
			return &handed
		}
	}
	buffer.Put(x.Stored)
	d.Held.Add(int64(-cap(k.request)))
	buffer.Put(k.request)
	buffer.Put(x.RawResponse)
	if k.items == nil {
		return nil
	}
	return &record.Exchange{Items: k.items}
}

// AtOnce digests an exchange with little to read in the commit of its end, which saves a separate commit, another change
// in the log and a third record of the session. It returns nil for one with more to read, which is handed to the writer
// with its end. Exchanges of a session are digested in the order they ended, so one is left to the digester, too, while
// others of its session wait there: inOrder reports that none do, as far as is known. The writer checks that again: only
// it knows the session of an exchange that ends before its opening is committed.
func (d *Digester) AtOnce(at kv.ExchangeRef, x *record.Exchange, inOrder func() bool) (digest writing.Change, done bool) {
	d.prefixes.skipKnown(at.Account, x)
	if x == nil || x.RawRequest == nil || len(x.RawRequest)+unreadAnswer(x) > ReadAtOnce || !inOrder() {
		return nil, false
	}
	began := time.Now()
	read, ok := d.readCaptured(at.Account, x)
	if ok {
		digest = d.digestOf(at, read, nil)
		d.Feed.Worked(feed.StageDigest, 1, began)
	}
	return digest, true
}

// unreadAnswer estimates how many bytes of an answer the digest has to read.
func unreadAnswer(x *record.Exchange) int {
	if x.Reader == nil || !strings.HasPrefix(x.ResponseType, "text/event-stream") {
		return len(x.RawResponse)
	}
	unread := len(x.RawResponse) / Framing
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
