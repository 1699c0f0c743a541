package crossing

import (
	"slices"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// Exchange is one crossing. It is made from a client's request and translates the answer. It belongs to one goroutine.
type Exchange struct {
	surface  codec.Format
	format   codec.Format
	client   codec.ClientCodec
	provider codec.ProviderCodec
	target   codec.Target
	request  *codec.Request
	options  codec.AnswerOptions
	restorer restorer
}

// Settings is what a crossing needs besides the two formats and the body.
type Settings struct {
	Target   codec.Target
	Strict   bool                // refuse what would otherwise be dropped
	Stream   bool                // the answer is a stream, also where the body does not say so
	Read     bool                // an envelope was read from the body, which is therefore well-formed
	Pieces   []codec.Span        // of the body, as [codec.Envelope.Blocks] returns them; nil: unknown
	Prints   []codec.Fingerprint // of Pieces
	Ledger   Ledger              // reasoning state that clients lost; nil for none
	Account  string              // owner of the ledger's entries and of carriers
	Resolved []string            // members of the body that were replaced by what they refer to, for the notes
	Answer   codec.AnswerOptions
}

func (s *Settings) memory() Memory {
	return Memory{Ledger: s.Ledger, Account: s.Account, Family: s.Target.Family}
}

var requests = sync.Pool{New: func() any { return new(codec.Request) }}

// Prepare decodes a client's body, adapts it to the target and appends the provider's body to dst. Views into body are
// kept until [Exchange.Release]. The error is a *[codec.Error] about a member in the client's own terms.
func Prepare(dst []byte, surface, format codec.Format, body []byte, s *Settings) (*Exchange, []byte, error) {
	x := &Exchange{
		surface: surface, format: format,
		client: ClientCodec(surface), provider: providerFor(format, &s.Target),
		target: s.Target, options: s.Answer,
		request: requests.Get().(*codec.Request),
	}
	x.request.Reset()
	x.request.Pieces, x.request.Prints = s.Pieces, s.Prints
	if !s.Read && !scan.WellFormed(body) || !validText.Every(body, s.Pieces, s.Prints, scan.TextIsValid) { // strings are copied into the provider's body
		x.Release()
		return nil, nil, codec.Invalid("", "the body cannot be read: it %s", scan.Explain(body))
	}
	if err := x.client.DecodeRequest(x.request, body); err != nil {
		x.Release()
		return nil, nil, err
	}
	if x.request.Stream = x.request.Stream || s.Stream; x.request.Model == "" { // the path of some formats has both
		x.request.Model = s.Answer.Model
	}
	for _, name := range s.Resolved {
		x.request.Notes.Emulate(name)
	}
	x.options.Request = x.request
	x.options.IncludeUsage = x.request.IncludeUsage
	x.options.IncludeState = x.request.IncludeState
	if err := adapt(&x.restorer, x.request, format, s); err != nil {
		x.Release()
		return nil, nil, err
	}
	// A translation is about as long as what it is made of. A buffer that grows with it allocates three times as much.
	dst = slices.Grow(dst, len(body)+len(body)/8)
	dst, err := x.provider.AppendRequest(dst, x.request, &x.target)
	x.request.Notes.Rename(x.request.Members)
	if err == nil && s.Strict && len(x.request.Notes.Dropped) > 0 {
		name := x.request.Notes.Dropped[0]
		err = codec.Invalid(name, "%s has no counterpart at %s and would be left out; X-Service-Strict asks to refuse that", name, s.Target.Provider)
	}
	if err != nil {
		x.Release()
		return nil, nil, err
	}
	return x, dst, nil
}

// validText has blocks of requests whose text is valid. Blocks are whole values, so the bytes between them hold whole
// strings too.
var validText codec.FingerprintSet

// Release frees the request. The exchange must not be used afterwards.
func (x *Exchange) Release() {
	if x.request != nil {
		requests.Put(x.request)
		x.request = nil
	}
}

// maxNotes is the longest value of the header with the notes of a translation.
const maxNotes = 1 << 10

// Notes returns the notes of the translation, as the value of the header X-Service-Translation.
func (x *Exchange) Notes() string { return NotesHeader(x.surface, x.format, &x.request.Notes) }

// RequestNotes returns the notes about the request.
func (x *Exchange) RequestNotes() codec.Notes {
	n := &x.request.Notes
	return codec.Notes{Emulated: slices.Clone(n.Emulated), Dropped: slices.Clone(n.Dropped)}
}

// NotesHeader returns that value for notes between two formats, which may be the same.
func NotesHeader(surface, format codec.Format, n *codec.Notes) string {
	notes := []byte(surface.String() + "->" + format.String())
	for _, list := range []struct {
		word  string
		names []string
	}{{"; emulated=", n.Emulated}, {"; dropped=", n.Dropped}} {
		for i, name := range list.names {
			if len(notes)+len(list.word)+len(name) > maxNotes {
				notes = append(notes, ";..."...)
				break
			}
			if i == 0 {
				notes = append(notes, list.word...)
			} else {
				notes = append(notes, ',')
			}
			notes = appendToken(notes, name)
		}
	}
	return string(notes)
}

// appendToken writes a name so that it is valid in a header: names may contain client-defined types.
func appendToken(dst []byte, name string) []byte {
	for i := range len(name) {
		switch c := name[i]; {
		case c <= ' ' || c >= 0x7f || c == ',' || c == ';' || c == '=':
			dst = append(dst, '?')
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// NoteNames lists the same for the record: "emulated:stop", "dropped:top_k".
func (x *Exchange) NoteNames() []string {
	return append([]string{x.surface.String() + "->" + x.format.String()}, NoteList(&x.request.Notes)...)
}

// NoteList returns each note as a string.
func NoteList(n *codec.Notes) []string {
	names := make([]string, 0, len(n.Emulated)+len(n.Dropped))
	for _, name := range n.Emulated {
		names = append(names, "emulated:"+name)
	}
	for _, name := range n.Dropped {
		names = append(names, "dropped:"+name)
	}
	return names
}

// Stream translates one answer, frame by frame. Everything it returns is valid until the next call.
type Stream struct {
	x       *Exchange
	decoder codec.StreamDecoder
	encoder codec.StreamEncoder
	events  []codec.Event
	seen    Seen
	ended   bool
	failed  bool
	whole   *gathered // nil if the client gets a stream
}

// Stream starts translating the provider's stream.
func (x *Exchange) Stream() *Stream {
	return &Stream{x: x, decoder: x.provider.NewDecoder(), encoder: x.client.NewEncoder(&x.options)}
}

// Seen returns what the record needs, so far.
func (s *Stream) Seen() *Seen { return &s.seen }

// Frame appends the translation of one frame.
func (s *Stream) Frame(dst []byte, f *sse.Frame) ([]byte, codec.FrameKind) {
	if s.ended {
		return dst, codec.FrameKeepAlive
	}
	if f.Comment {
		return dst, codec.FrameKeepAlive
	}
	s.events = s.decoder.Decode(s.events[:0], f.Name, f.Data)
	return s.encode(dst)
}

// encode restores the events of one frame and encodes them for the client.
func (s *Stream) encode(dst []byte) ([]byte, codec.FrameKind) {
	s.seen.note(s.events)
	sign := codec.FrameKeepAlive
	restored := s.x.restorer.restore(s.events)
	s.seen.infer(restored)
	for i := range restored {
		ev := &restored[i]
		switch ev.Kind {
		case codec.EventPing:
		case codec.EventError:
			sign, s.ended, s.failed = codec.FrameError, true, true
		case codec.EventEnd:
			if !s.failed {
				sign, s.ended = codec.FrameTerminal, true
			}
		default:
			if sign == codec.FrameKeepAlive {
				sign = codec.FrameContent
			}
		}
		dst = s.encoder.Append(dst, ev)
	}
	return dst, sign
}

// End appends the translation of the body's end, and reports whether the answer is complete. If it is not,
// [Stream.Fail] writes the error.
func (s *Stream) End(dst []byte, end codec.End, residue []byte) ([]byte, bool) {
	if s.ended {
		return dst, !s.failed
	}
	s.events = s.decoder.Finish(s.events[:0], end, residue)
	for i := range s.events {
		if ev := &s.events[i]; ev.Kind == codec.EventError || ev.Kind == codec.EventEnd && ev.End != codec.EndTerminal {
			s.seen.note(s.events)
			return dst, false
		}
	}
	dst, _ = s.encode(dst)
	return dst, true
}

// Next returns the number of the surface's next event, 0 if events have none.
func (s *Stream) Next() int64 { return s.encoder.Next() }

// Fail appends the surface's own error event for a broken answer.
func (s *Stream) Fail(dst []byte, e *codec.Error) []byte {
	s.ended, s.failed = true, true
	return s.encoder.Append(dst, &codec.Event{Kind: codec.EventError, Err: e})
}

// Answer translates a complete answer. An answer that turns out to be a failure is an error.
func (x *Exchange) Answer(dst, body []byte) ([]byte, Seen, error) {
	var (
		seen   Seen
		answer codec.Answer
	)
	events := takeEvents()
	defer events.release()
	if _, err := x.readWhole(events, body, &seen, &answer); err != nil {
		return dst, seen, err
	}
	if answer.IsOneText() {
		seen.Answer = &answer
	}
	return x.client.AppendAnswer(dst, &answer, &x.options), seen, nil
}

// AnswerInFrames translates a complete answer for a client that wants a stream.
func (x *Exchange) AnswerInFrames(dst, body []byte) ([]byte, Seen, error) {
	var (
		seen   Seen
		answer codec.Answer
	)
	events := takeEvents()
	defer events.release()
	restored, err := x.readWhole(events, body, &seen, &answer)
	if err != nil {
		return dst, seen, err
	}
	encoder := x.client.NewEncoder(&x.options)
	for i := range restored {
		dst = encoder.Append(dst, &restored[i])
	}
	return dst, seen, nil
}

// readWhole reads a complete answer, and folds what the client gets of it.
func (x *Exchange) readWhole(events *eventList, body []byte, seen *Seen, answer *codec.Answer) ([]codec.Event, error) {
	events.list = x.provider.DecodeAnswer(events.list, body, x.restorer.proofs.Account)
	seen.note(events.list)
	restored := x.restorer.restore(events.list)
	seen.infer(restored)
	answer.Fold(restored)
	return restored, failureOf(answer)
}

// failureOf returns why a folded answer is none.
func failureOf(answer *codec.Answer) error {
	if answer.Err == nil && answer.Finish == codec.FinishMalformedCall {
		answer.Err = codec.Errorf(codec.KindUpstream, "The model made a tool call that cannot be read; send the request again.")
		answer.Err.Code = "malformed_tool_call"
	}
	if answer.Err != nil { // a nil *codec.Error is no nil error
		return answer.Err
	}
	return nil
}

// Gather starts translating the provider's stream into a complete answer, which [Stream.Whole] writes.
func (x *Exchange) Gather() *Stream {
	whole := new(gathered)
	return &Stream{x: x, decoder: x.provider.NewDecoder(), encoder: whole, whole: whole}
}

// gathered folds the events of a stream.
type gathered struct{ codec.Answer }

func (g *gathered) Append(dst []byte, ev *codec.Event) []byte {
	g.Add(ev)
	return dst
}

func (*gathered) Next() int64 { return 0 }

// Whole appends the complete answer of a stream that has ended, and that [Exchange.Gather] started. An answer that broke
// off or failed is an error.
func (s *Stream) Whole(dst []byte) ([]byte, error) {
	answer := &s.whole.Answer
	if answer.Err == nil {
		answer.Err = s.seen.Err
	}
	if err := failureOf(answer); err != nil {
		return dst, err
	}
	if answer.End != codec.EndTerminal {
		return dst, codec.Errorf(codec.KindUpstream, "The provider ended its answer in the middle.")
	}
	return s.x.client.AppendAnswer(dst, answer, &s.x.options), nil
}

// Fold reads a complete answer of a format.
func Fold(format codec.Format, body []byte) *codec.Answer {
	answer, events := new(codec.Answer), takeEvents()
	defer events.release()
	events.list = ProviderCodec(format).DecodeAnswer(events.list, body, "")
	answer.Fold(events.list)
	return answer
}

// Choice returns a decoder of the n-th of several answers that a client asked for at once; nil if the format has none.
func Choice(format codec.Format, n int64) codec.StreamDecoder {
	if choice := definition(format).Choice; choice != nil {
		return choice(n)
	}
	return nil
}

// Error reads a provider's error answer. It drops the blamed member, which is one of the provider's format and would
// mislead the client.
func (x *Exchange) Error(status int, retryAfter time.Duration, body []byte) *codec.Error {
	e := x.provider.DecodeError(status, retryAfter, body)
	e.Param = ""
	return e
}

// eventList holds the events of a complete answer, or of a frame that an [Observer] decodes. Lists are pooled: a short answer has half a dozen events, and an
// event is a large value, so growing a list from nothing costs more than reading the answer.
type eventList struct{ list []codec.Event }

var eventLists = sync.Pool{New: func() any { return new(eventList) }}

// maxEvents is the longest list that is kept, about 64 KB.
const maxEvents = 256

func takeEvents() *eventList { return eventLists.Get().(*eventList) }

// release returns the list to the pool. Its events are views and must not be used any more.
func (l *eventList) release() {
	if cap(l.list) > maxEvents {
		return
	}
	clear(l.list)
	l.list = l.list[:0]
	eventLists.Put(l)
}
