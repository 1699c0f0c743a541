package codec

import "time"

// A Definition is a wire format: what is known of it, and the codecs that read and write it. A format's folder exports
// one, and codec/crossing has the table of them.
type Definition struct {
	Traits   Traits
	Client   ClientCodec   // nil where no surface speaks the format
	Provider ProviderCodec // nil where no provider answers in events
	// ProviderOf is the codec for a target, where that is another than Provider for some; nil where it never is.
	ProviderOf func(t *Target) ProviderCodec
	// Narrow takes out of what the format's providers take what a target does not, or adds what only some do; nil for
	// formats that are the same everywhere.
	Narrow func(takes *Takes, t *Target)
	// Clean leaves out of a request's body, in this very format, what another provider's answers have put into the
	// conversation and this one would refuse. It says so to c, and else may return anything. nil: there is nothing to clean.
	Clean func(c *Cleaner, body []byte) []byte
	// Marks are what Clean searches for before anything is read: a part of a body without any of them needs no cleaning.
	Marks [][]byte
}

// Cleaner is what [Definition.Clean] works with.
type Cleaner struct {
	Target  *Target
	Recall  func(callID []byte) []byte // the reasoning text that led to a call, a string body; nil when it is not known
	Changed bool
	Dropped []string // what was left out, in the client's own terms
}

// Drop notes that the body is changed and what went.
func (c *Cleaner) Drop(name string) {
	c.Changed = true
	c.Dropped = appendOnce(c.Dropped, name)
}

// A ClientCodec reads what clients of one format send and writes what they expect.
type ClientCodec interface {
	// DecodeRequest fills r, which has been Reset, from a body that is valid JSON. Views in r point into body.
	// A request that cannot be read is an *[Error] whose Param is a path in this format. Unknown members, roles' extras
	// and part types never fail: they become opaque parts or notes.
	DecodeRequest(r *Request, body []byte) error
	// NewEncoder starts the stream of one answer.
	NewEncoder(o *AnswerOptions) StreamEncoder
	// AppendAnswer writes a complete answer.
	AppendAnswer(dst []byte, a *Answer, o *AnswerOptions) []byte
	// AppendError writes the body of an HTTP error.
	AppendError(dst []byte, e *Error, o *AnswerOptions) []byte
	// Status is the HTTP status for e.
	Status(e *Error) int
}

// A ProviderCodec writes what providers of one format expect and reads what they send.
type ProviderCodec interface {
	// AppendRequest writes r for the target. It may add to r.Notes. What cannot be said in this format and must not be
	// left out is an *[Error] whose Param is the path in the client's format.
	AppendRequest(dst []byte, r *Request, t *Target) ([]byte, error)
	// NewDecoder starts reading one stream.
	NewDecoder() StreamDecoder
	// DecodeAnswer reads a complete answer by walking it through the stream decoder, so that the two cannot drift
	// apart. It appends all events, from EventStart to EventEnd.
	DecodeAnswer(dst []Event, body []byte) []Event
	// DecodeError reads an error answer of any shape: this format's, another's, or not JSON at all.
	DecodeError(status int, retryAfter time.Duration, body []byte) *Error
}

// A StreamDecoder turns frames into events. It belongs to one stream.
type StreamDecoder interface {
	// Decode appends the events of one frame: name is its event field (a hint only), data its data field. Views in the
	// events are valid until the next call. It never fails: what cannot be read becomes an EventError.
	Decode(dst []Event, name, data []byte) []Event
	// Repeats reports whether frames that differ from the newest in the text of its only event, and beside it in what says
	// nothing, would each give that event with its own text and leave the decoder as it is. A reader may then leave
	// them out.
	Repeats() bool
	// Finish appends what the end of input means, last an EventEnd. residue is what was left without a frame end.
	Finish(dst []Event, end End, residue []byte) []Event
	// Reset makes the decoder ready for another stream.
	Reset()
}

// A StreamEncoder turns events into the bytes of one stream and owns that format's protocol: it opens, closes, orders
// and numbers. It accepts events in any order and after any other, and keeps its output well-formed whatever comes.
type StreamEncoder interface {
	// Append writes what the event means to the client; often nothing.
	Append(dst []byte, ev *Event) []byte
	// Next is the number of the format's next event, 0 where events have none.
	Next() int64
}

// AnswerOptions is what an encoder has to know beyond the events. It is constant during an answer.
type AnswerOptions struct {
	ID             string    // unique part of ids made for the client, [0-9a-z]+, from the exchange's id
	Model          string    // the model name as the client asked for it
	Previous       string    // responses: the answer that the request went on from, in whose place its conversation was put; "": none
	Created        time.Time // when the request came in
	IncludeUsage   bool      // chat: send the usage chunk
	IncludeState   bool      // responses: send reasoning state
	ShowReasoning  bool      // the client may see reasoning text
	RefusalAsText  bool      // responses: write refusals as plain text, for clients that drop refusal parts
	EstimatedInput int64     // tokens of the prompt, for formats that must say before they can know
	Request        *Request  // for what an answer echoes; nil on errors before it was read
	Begun          string    // the answer's id where the provider has begun it itself; "": one is made of ID
	Next           int64     // number of the first event; not 0 where the provider has begun the answer itself
}
