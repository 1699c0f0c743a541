package digest

import (
	"bytes"
	"unsafe"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/store"
)

// Fragments begins to read a streamed answer of a surface, for what is spread over its events to be found. It is what
// [store.Options] wants to have as Fragments.
func Fragments(surface string) store.FragmentReader {
	format, err := codec.ParseFormat(surface)
	if err != nil || format == codec.Embeddings {
		format = codec.Chat // whose events are none of these
	}
	return &fragments{decoder: crossing.ProviderHalf(format).NewDecoder(), splitter: sse.NewSplitter(streamBuffer, sse.MaxFrame)}
}

const streamBuffer = 16 << 10

type fragments struct {
	decoder  codec.StreamDecoder
	splitter *sse.Splitter
	frame    sse.Frame
	events   []codec.Event
	whole    int64 // where in the stream the last whole event ends
}

// Read is that of [store.FragmentReader].
func (f *fragments) Read(p []byte, visit func(text int32, start int64, fragment []byte)) (whole int64) {
	for body := bytes.NewReader(p); body.Len() > 0; {
		if _, err := f.splitter.Read(body); err != nil {
			break // an event over the limit, which nobody reads
		}
		for f.splitter.Next(&f.frame) {
			f.whole += int64(len(f.splitter.Passed()))
			if !f.frame.Comment {
				f.visit(visit)
			}
		}
		f.whole += int64(len(f.splitter.Passed())) // blank lines
	}
	return f.whole
}

// visit visits the fragments of one event. They are views into the event, which says where they lie.
func (f *fragments) visit(visit func(text int32, start int64, fragment []byte)) {
	f.events = f.decoder.Decode(f.events[:0], f.frame.Name, f.frame.Data)
	for i := range f.events {
		e := &f.events[i]
		switch e.Kind {
		case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventArguments, codec.EventCustomInput:
		default:
			continue
		}
		if at := offsetIn(f.frame.Raw, e.Raw); at >= 0 {
			visit(e.Item<<8|e.Sub&0xff, f.whole-int64(len(f.frame.Raw)-at), e.Raw)
		}
	}
}

// offsetIn gives where in text a view of it begins; -1 if it is a view of something else, such as the joined lines of an
// event that has several.
func offsetIn(text, view []byte) int {
	if len(view) == 0 || len(text) == 0 {
		return -1
	}
	at := uintptr(unsafe.Pointer(&view[0])) - uintptr(unsafe.Pointer(&text[0]))
	if at > uintptr(len(text)) || int(at)+len(view) > len(text) {
		return -1
	}
	return int(at)
}
