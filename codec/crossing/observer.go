package crossing

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/failure"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/codec/template"
)

// Seen is what a record needs to know about an answer.
type Seen struct {
	ID     string // the answer's id from the provider
	Model  string // the model that served
	Usage  codec.Usage
	Finish codec.FinishReason
	Err    *codec.Error // a failure that the provider reported inside the answer

	// Written estimates the tokens of text, reasoning and calls in the answer, for answers without Usage: four bytes
	// per token, and at least one token per streamed piece.
	Written int64

	// Answer is what [Fold] reads from the client's bytes of a complete answer, as far as messages of it are concerned;
	// nil: read those.
	Answer *codec.Answer
}

// bytesPerToken is the usual rule of thumb.
const bytesPerToken = 4

// note reads the events that matter to a record.
func (s *Seen) note(events []codec.Event) {
	for i := range events {
		switch ev := &events[i]; ev.Kind {
		case codec.EventStart:
			s.ID, s.Model = scan.Text(ev.ID), scan.Text(ev.Model)
			if !ev.Usage.IsZero() {
				s.Usage = ev.Usage
			}
		case codec.EventUsage:
			s.Usage = ev.Usage
		case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventArguments, codec.EventCustomInput:
			s.Written += int64((len(ev.Raw) + bytesPerToken - 1) / bytesPerToken)
		case codec.EventFinish:
			s.Finish = ev.Finish
		case codec.EventError:
			if s.Err == nil {
				s.Err = ev.Err
			}
		}
	}
}

// infer sets the reason the answer ended, from the client's events, if the provider left it open.
func (s *Seen) infer(restored []codec.Event) {
	for i := range restored {
		if ev := &restored[i]; ev.Kind == codec.EventFinish && s.Finish == codec.FinishUnknown {
			s.Finish = ev.Finish
		}
	}
}

// Observe reads a complete answer, and keeps its reasoning as [NewObserver] does. fold asks for [Seen].Answer. sound
// reports whether the answer was found to be JSON on the way; false means not checked.
func Observe(format codec.Format, body []byte, memory Memory, fold bool) (seen Seen, sound bool) {
	if Traits(format).Vectors {
		return observeVectors(body), false
	}
	events := takeEvents()
	defer events.release()
	events.list = ProviderCodec(format).DecodeAnswer(events.list, body, memory.Account)
	seen.note(events.list)
	if fold {
		seen.Answer = new(codec.Answer)
		seen.Answer.Fold(events.list)
	}
	if memory.Ledger != nil {
		kept := thoughts{Memory: memory}
		kept.note(events.list)
	}
	// Decoders report invalid JSON as a failure, except those that also read series of answers.
	return seen, seen.Err == nil && (!Traits(format).Stream.AnswerSeries || scan.Valid(body))
}

func observeVectors(body []byte) (seen Seen) {
	for m := scan.Object(body); m.Next(); {
		switch string(m.Key) {
		case "model":
			seen.Model = scan.String(m.Value)
		case "usage":
			if seen.Usage.InputUncached, _ = codec.ReadTokens(scan.Get(m.Value, "prompt_tokens")); seen.Usage.InputUncached == 0 {
				seen.Usage.InputUncached, _ = codec.ReadTokens(scan.Get(m.Value, "total_tokens"))
			}
		}
	}
	return seen
}

// Observer watches a stream that passes through and notes what a record needs. It decodes only the few frames that
// carry it; any other frame costs a search for a handful of member names.
type Observer struct {
	Seen    Seen
	format  *row
	decoder codec.StreamDecoder
	matcher template.Matcher
	name    []byte // of the frames that matcher learns from: the event field
	kind    []byte // and their kinds
	slots   []codec.Span
	started bool
	ended   bool

	thoughts thoughts // kept if the host wants them back

	// Of a Responses stream:
	created int64
	store   codec.Tristate // whether the response is kept, if it says so
	next    int64          // the number after that of the newest event read
	newest  []byte         // a later event, whose number has not been read
}

// NewObserver starts watching a stream of that format. Release it when done. Reasoning text that led to calls is kept
// in memory, for hosts that want it back from clients that drop it; pass the zero value for other hosts.
func NewObserver(format codec.Format, memory Memory) *Observer {
	d := definition(format)
	o, ok := d.observers.Get().(*Observer)
	if !ok {
		o = &Observer{format: d, decoder: ProviderCodec(format).NewDecoder()}
	}
	o.thoughts.Memory = memory
	return o
}

// Release returns the observer, which must not be used afterwards.
func (o *Observer) Release() {
	o.decoder.Reset()
	*o = Observer{
		format: o.format, decoder: o.decoder, matcher: o.matcher.Emptied(), name: o.name[:0], kind: o.kind[:0], slots: o.slots[:0],
		thoughts: o.thoughts.emptied(),
	}
	o.format.observers.Put(o)
}

// Routine returns the length in bytes of the frame at the start of stream if it is a routine one, which is content and
// has nothing for the record. It returns 0 if the frame has to be examined.
func (o *Observer) Routine(stream []byte) int {
	slots, n, ok := o.matcher.Match(o.slots[:0], stream)
	o.slots = slots
	if !ok {
		return 0
	}
	o.matcher.Used()
	o.Seen.Written++
	if o.format.Traits.Stream.Numbered {
		o.newest = stream[:n]
	}
	return n
}

// Next returns the number of the next event, or 0 if events have none. Call it before the memory of the newest event is
// reused.
func (o *Observer) Next() int64 {
	if at := bytes.IndexByte(o.newest, '{'); at >= 0 {
		o.readType(o.newest[at:])
	}
	o.newest = nil
	return o.next
}

// readType returns the type of an event, a string body, and reads its number if the format has them.
func (o *Observer) readType(data []byte) (kind []byte) {
	if !o.format.Traits.Stream.Numbered {
		return scan.Body(scan.Get(data, "type"))
	}
	numbered := false
	for m := scan.Object(data); (kind == nil || !numbered) && m.Next(); {
		switch string(m.Key) {
		case "type":
			if kind == nil {
				kind = scan.Body(m.Value)
			}
		case "sequence_number":
			var n int64
			if n, numbered = scan.Int(m.Value); numbered && n >= 0 && n < maxNumber {
				o.next = n + 1
			}
		}
	}
	return kind
}

// maxNumber is beyond what a client can count: numbers in JavaScript are exact up to it.
const maxNumber = 1 << 53

// Frame examines one frame.
func (o *Observer) Frame(f *sse.Frame) codec.FrameKind {
	if f.Comment {
		return codec.FrameKeepAlive
	}
	sign, matters := o.judge(f)
	switch {
	case matters:
		sign = o.read(f, sign)
	case sign == codec.FrameContent:
		o.Seen.Written++
	}
	if sign == codec.FrameTerminal || sign == codec.FrameError {
		o.ended = true
	}
	return sign
}

// read decodes a frame of that kind, and returns its kind if only its events show it. It borrows the list of events: few
// frames need one, and a stream may be silent for long.
func (o *Observer) read(f *sse.Frame, kind codec.FrameKind) codec.FrameKind {
	events := takeEvents()
	defer events.release()
	events.list = o.decoder.Decode(events.list, f.Name, f.Data)
	o.note(events.list)
	if o.format.Traits.Stream.Plain() {
		return kindOf(events.list)
	}
	o.begin(events.list, f.Data)
	return kind
}

// kindOf returns the kind of a frame with these events. An answer that ends with a call that cannot be read has its end: its own
// clients know the word for it, and only those of other formats need an error.
func kindOf(events []codec.Event) codec.FrameKind {
	kind := codec.FrameContent
	for i := range events {
		switch ev := &events[i]; {
		case ev.Kind == codec.EventError && i > 0 && events[i-1].Finish == codec.FinishMalformedCall:
			return codec.FrameTerminal
		case ev.Kind == codec.EventError:
			return codec.FrameError
		case ev.Kind == codec.EventEnd && ev.End == codec.EndTerminal:
			kind = codec.FrameTerminal
		}
	}
	return kind
}

func (o *Observer) note(events []codec.Event) {
	o.Seen.note(events)
	o.thoughts.note(events)
}

// begin keeps what the first event of a Responses stream says beyond the record's needs.
func (o *Observer) begin(events []codec.Event, data []byte) {
	if !o.format.Traits.Stream.Numbered {
		return
	}
	for i := range events {
		if ev := &events[i]; ev.Kind == codec.EventStart {
			o.created = ev.Created
			o.store = codec.ParseTristate(scan.Path(data, "response", "store"))
		}
	}
}

// Fail appends the format's own error event for a broken answer, as a part of the answer that the provider has begun.
// next is the number of this event, and body is the request.
func (o *Observer) Fail(dst []byte, e *codec.Error, next int64, body []byte, options *codec.AnswerOptions) []byte {
	client, own := ClientCodec(o.format.Traits.Format), *options
	if o.format.Traits.Stream.Numbered {
		own.Begun, own.Next = o.Seen.ID, next
		if o.created != 0 {
			own.Created = time.Unix(o.created, 0)
		}
		if o.Seen.Model != "" {
			own.Model = o.Seen.Model
		}
		own.Request = requests.Get().(*codec.Request)
		defer requests.Put(own.Request)
		own.Request.Reset()
		_ = client.DecodeRequest(own.Request, body) // repeats what has been read by then
		if o.store != codec.Unset {
			own.Request.Echo = append([]codec.Member{{Name: []byte("store"), Value: strconv.AppendBool(nil, o.store == codec.True)}}, own.Request.Echo...)
		}
	}
	return client.NewEncoder(&own).Append(dst, &codec.Event{Kind: codec.EventError, Err: e})
}

// judge returns the kind of a frame and whether it has something for the record.
func (o *Observer) judge(f *sse.Frame) (sign codec.FrameKind, matters bool) {
	switch traits := &o.format.Traits.Stream; {
	case traits.Plain():
		return codec.FrameContent, true
	case traits.Events == nil:
		if sign, matters = o.judgeChunk(f.Data); sign == codec.FrameContent && !matters {
			o.learn(f, nil)
		}
		return sign, matters
	}
	o.newest = nil
	kind := o.readType(f.Data)
	if kind == nil { // the event's name is a hint: relays change it, to "message" for instance
		kind = f.Name
	}
	switch what := o.format.Traits.Stream.Events[string(kind)]; what {
	case codec.FrameContent:
		o.learn(f, kind)
		return codec.FrameContent, false
	case codec.FrameFacts:
		return codec.FrameContent, true
	default:
		return what, what != codec.FrameKeepAlive
	}
}

// learn adds a frame that has nothing for the record to the templates. Frames of one template have the same type, so
// their other differences do not matter. The frame has to end where every reader sees it end.
func (o *Observer) learn(f *sse.Frame, kind []byte) {
	if !bytes.Equal(f.Name, o.name) || !bytes.Equal(kind, o.kind) {
		o.matcher = o.matcher.Emptied()
		o.name, o.kind = append(o.name[:0], f.Name...), append(o.kind[:0], kind...)
	}
	if bytes.HasSuffix(f.Raw, []byte("\n\n")) {
		o.matcher.Learn(f.Raw)
	}
}

// judgeChunk is judge for chunks, which have no types.
func (o *Observer) judgeChunk(data []byte) (sign codec.FrameKind, matters bool) {
	if string(data) == "[DONE]" {
		return codec.FrameTerminal, true
	}
	// The member may also be elsewhere: in a filter's results, or in arguments that a host sends as an object.
	if holds(data, errorMember, '{') && scan.IsObject(scan.Get(failure.Element(data), "error")) {
		return codec.FrameError, true
	}
	matters = !o.started || slices.ContainsFunc(o.format.Traits.Stream.Facts, func(m codec.Member) bool { return holds(data, m.Name, m.Value[0]) })
	matters = matters || o.thoughts.Ledger != nil &&
		(holds(data, []byte(`"reasoning_content"`), '"') || holds(data, []byte(`"reasoning"`), '"') || holds(data, []byte(`"tool_calls"`), '['))
	o.started = true
	return codec.FrameContent, matters
}

var errorMember = []byte(`"error"`)

// holds reports whether data has a member of that quoted name whose value begins with first. In text, the quotes of the
// name would be escaped, so a plain search is enough.
func holds(data, name []byte, first byte) bool {
	for {
		i := bytes.Index(data, name)
		if i < 0 {
			return false
		}
		data = data[i+len(name):]
		j := scan.Space(data, 0)
		if j < len(data) && data[j] == ':' {
			j = scan.Space(data, j+1)
			if j < len(data) && data[j] == first {
				return true
			}
		}
	}
}

// End is called at the end of the body, with the bytes after the last frame. It reports whether the answer is complete:
// whether the terminal event, or its equivalent in the format, was seen.
func (o *Observer) End(end codec.End, residue []byte) bool {
	if o.ended {
		return true
	}
	events := takeEvents()
	defer events.release()
	events.list = o.decoder.Finish(events.list, end, residue)
	o.note(events.list)
	for i := range events.list {
		if ev := &events.list[i]; ev.Kind == codec.EventEnd {
			return ev.End == codec.EndTerminal
		}
	}
	return false
}
