package digest

import (
	"slices"
	"unsafe"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/record"
)

// Stream starts to read a streamed answer of a surface. It is meant as the Stream of [store.Options].
func Stream(surface string) record.StreamReader {
	format, err := codec.ParseFormat(surface)
	if err != nil || !format.Converses() {
		format = codec.Chat // no events match it
	}
	return newStream(format)
}

// stream reads a streamed answer: it folds the events, and reports where the pieces of the texts are.
type stream struct {
	decoder codec.StreamDecoder
	events  []codec.Event
	whole   int64         // offset in the answer of the end of the last whole event
	torn    bool          // what follows is the rest of an event whose front was skipped
	answer  *codec.Answer // nil if something was skipped, or there is more than foldMost
}

// foldMost is how many bytes of a stream are folded while it is stored: as many as are handed over to the digest.
const foldMost = 256 << 10

func newStream(format codec.Format) *stream {
	return &stream{decoder: crossing.ProviderCodec(format).NewDecoder(), answer: new(codec.Answer)}
}

// visitor receives fragments of texts, see [record.StreamReader].
type visitor = func(text int32, start int64, fragment []byte)

// Read implements [record.StreamReader].
func (s *stream) Read(p []byte, at int64, frames *template.Frames, visit visitor) (whole int64) {
	if at > s.whole {
		s.whole, s.torn = at, true
	}
	if s.torn || at+int64(len(p)) > foldMost {
		s.answer = nil
	}
	for i := range frames.Runs {
		r := &frames.Runs[i]
		s.read(p[:r.Start], at, visit)
		s.readRun(p, at, frames, r, visit)
	}
	s.read(p, at, visit)
	return s.whole
}

// read reads the whole events of p after what has been read, and returns their number.
func (s *stream) read(p []byte, at int64, visit visitor) (count int) {
	if s.whole >= at+int64(len(p)) {
		return 0
	}
	frames := sse.Split(p[s.whole-at:])
	for frame := (sse.Frame{}); frames.Next(&frame); count++ {
		s.whole += int64(len(frames.Passed()))
		s.events = s.events[:0]
		if s.torn || frame.Comment {
			s.torn = false
			continue
		}
		s.events = s.decoder.Decode(s.events, frame.Name, frame.Data)
		if s.answer != nil {
			s.answer.Fold(s.events)
		}
		s.visit(&frame, visit)
	}
	s.whole += int64(len(frames.Passed())) // blank lines
	return count
}

// readRun reads frames of one template. If the first continues a text, only its pieces are read in the others.
func (s *stream) readRun(p []byte, at int64, frames *template.Frames, r *template.Run, visit visitor) {
	if s.whole == at+int64(r.Start) && !s.torn && s.read(p[:frames.Frame(r, 0).End], at, visit) == 1 && len(s.events) == 1 && s.decoder.Repeats() {
		e := s.events[0]
		s.growText(&e, r)
		read := frames.Pieces(p, r, e.Raw, func(piece codec.Span) {
			e.Raw = piece.Of(p)
			s.decoder.Skipped(&e)
			if s.answer != nil {
				s.answer.Add(&e)
			}
			visit(textOfEvent(&e), at+int64(piece.Start), e.Raw)
		})
		s.whole = at + int64(frames.Frame(r, read).End)
	}
	s.read(p[:r.End], at, visit)
}

// growText makes room for the pieces of a run, assuming that they are about as long as the first.
func (s *stream) growText(first *codec.Event, r *template.Run) {
	if s.answer == nil {
		return
	}
	if it := s.answer.Item(first.Item); it != nil && first.Kind != codec.EventReasoning {
		it.Text = slices.Grow(it.Text, min(r.Count*len(first.Raw), r.End-r.Start))
	}
}

// textOfEvent returns the number of an event's text in the answer.
func textOfEvent(e *codec.Event) int32 { return e.Item<<8 | e.Sub&0xff }

// visit visits the fragments of one event. They are views into the event, from which their offsets follow.
func (s *stream) visit(frame *sse.Frame, visit visitor) {
	for i := range s.events {
		e := &s.events[i]
		switch e.Kind {
		case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventArguments, codec.EventCustomInput:
		default:
			continue
		}
		if at := offsetIn(frame.Raw, e.Raw); at >= 0 {
			visit(textOfEvent(e), s.whole-int64(len(frame.Raw)-at), e.Raw)
		}
	}
}

// offsetIn returns the offset of a view in text; -1 if it is a view of something else, such as the joined lines of an
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

// readStream folds a stream as the client got it.
func readStream(format codec.Format, body []byte) *codec.Answer {
	answer := new(codec.Answer)
	frames := sse.Split(body)
	foldFrames(answer, crossing.ProviderCodec(format).NewDecoder(), &frames)
	return answer
}

func foldFrames(answer *codec.Answer, decoder codec.StreamDecoder, frames *sse.Splitter) {
	var events []codec.Event
	for frame := (sse.Frame{}); frames.Next(&frame); {
		if !frame.Comment {
			events = decoder.Decode(events[:0], frame.Name, frame.Data)
			answer.Fold(events)
		}
	}
	endStream(answer, decoder, frames)
}

// finished returns the answer that was folded while it was stored as body; nil if it has to be read again.
func (s *stream) finished(body []byte) *codec.Answer {
	if s.answer == nil || s.whole > int64(len(body)) {
		return nil
	}
	rest := sse.Split(body[s.whole:])
	endStream(s.answer, s.decoder, &rest)
	return s.answer
}

// endStream reads what follows the last event.
func endStream(answer *codec.Answer, decoder codec.StreamDecoder, frames *sse.Splitter) {
	var residue []byte
	if frame := (sse.Frame{}); frames.Residue(&frame) {
		residue = frame.Data
	}
	answer.Fold(decoder.Finish(nil, codec.EndEOF, residue))
}
