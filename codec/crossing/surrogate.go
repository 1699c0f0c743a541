package crossing

import "github.com/mnemeproxy/mneme/codec"

// A surrogate pair that a provider writes as two escapes may be split over two deltas: "\ud83d" ends one and "\ude00"
// begins the next. Clients that decode each delta separately, such as Go's, lose the character. So the first half waits
// for the next delta of its item.
type surrogatePairs struct {
	escape [surrogateEscape]byte // \uXXXX
	waits  bool
	event  codec.Event // the event that the half was cut from, with the provider's ordinal
}

// surrogateEscape is the length of \uXXXX.
const surrogateEscape = 6

// endsInHalf reports whether a string body ends with the escape of a high surrogate.
func endsInHalf(body []byte) bool {
	n := len(body) - surrogateEscape
	if n < 0 || body[n] != '\\' || body[n+1] != 'u' || body[n+2]|0x20 != 'd' {
		return false
	}
	if c := body[n+3] | 0x20; c != '8' && c != '9' && c != 'a' && c != 'b' {
		return false
	}
	return !insideEscape(body, n)
}

// join holds back half a pair at the end of a delta and prepends it to the next one, which is then written to out.
// Other deltas are unchanged. It reports whether there is something to pass on.
func (h *surrogatePairs) join(ev *codec.Event, out *eventBuffer) bool {
	if h.waits && ev.Item == h.event.Item && ev.Kind == h.event.Kind && ev.Sub == h.event.Sub {
		h.waits = false
		from := len(out.bytes)
		out.bytes = append(append(out.bytes, h.escape[:]...), ev.Raw...)
		ev.Raw = out.since(from)
	}
	if !h.waits && endsInHalf(ev.Raw) {
		n := len(ev.Raw) - surrogateEscape
		h.waits, h.event = true, *ev
		h.event.Raw = nil
		copy(h.escape[:], ev.Raw[n:])
		ev.Raw = ev.Raw[:n]
		return n > 0
	}
	return true
}

// release returns a delta with a half of the item whose other half did not come.
func (h *surrogatePairs) release(item int32, out *eventBuffer) (ev codec.Event, ok bool) {
	if !h.waits || h.event.Item != item {
		return ev, false
	}
	h.waits = false
	from := len(out.bytes)
	out.bytes = append(out.bytes, h.escape[:]...)
	ev = h.event
	ev.Raw = out.since(from)
	return ev, true
}
