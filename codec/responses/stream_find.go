package responses

import (
	"bytes"
	"slices"
)

// find returns the item that a delta belongs to. Some hosts use another id in an item's deltas than when it was added
// (pitfall P24): then the output index decides, then the latest open item of the kind. known is false if the item was
// never announced; a known item that is closed is nil.
func (d *streamDecoder) find(f *frame, kind outputKind) (it *outputItem, known bool) {
	if d.last < len(d.items) {
		it = &d.items[d.last]
		if it.kind == kind && !it.closed && len(f.itemID) > 0 && bytes.Equal(it.id, f.itemID) {
			return it, true
		}
	}
	for i := len(d.items) - 1; i >= 0; i-- {
		if it = &d.items[i]; it.kind == kind && len(f.itemID) > 0 && bytes.Equal(it.id, f.itemID) {
			return d.use(i), true
		}
	}
	for i := len(d.items) - 1; i >= 0; i-- {
		if it = &d.items[i]; it.kind == kind && it.index >= 0 && it.index == f.output {
			return d.use(i), true
		}
	}
	for i := len(d.items) - 1; i >= 0; i-- {
		if it = &d.items[i]; it.kind == kind && !it.closed {
			return d.use(i), true
		}
	}
	return nil, false
}

func (d *streamDecoder) use(i int) *outputItem {
	d.last = i
	if d.items[i].closed {
		return nil
	}
	return &d.items[i]
}

// findOrAdd returns the item that a delta belongs to, and creates it if the host never announced it; nil if it is
// closed.
func (d *streamDecoder) findOrAdd(f *frame, kind outputKind) *outputItem {
	it, known := d.find(f, kind)
	if !known {
		it = d.add(kind, f.itemID, nil, f.output)
	}
	return it
}

func (d *streamDecoder) add(kind outputKind, id, callID []byte, index int64) *outputItem {
	n := len(d.items)
	d.items = slices.Grow(d.items, 1)[:n+1]
	it := &d.items[n]
	*it = outputItem{
		kind: kind, index: index, sub: -1, part: reasoningPart{index: -1},
		id: append(it.id[:0], id...), callID: append(it.callID[:0], callID...), parts: it.parts[:0],
	}
	d.last = n
	return it
}

func (d *streamDecoder) nextOrdinal() int32 {
	d.bodies = append(d.bodies, streamed{})
	d.ordinal++
	return d.ordinal - 1
}
