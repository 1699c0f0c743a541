package codec

import "time"

// A Definition is a wire format: its facts, and the codecs that read and write it. A format's folder exports one, and
// codec/crossing has the table of them.
type Definition struct {
	Traits   Traits
	Client   ClientCodec   // nil if no surface speaks the format
	Provider ProviderCodec // nil if no provider answers in events
	// ProviderOf returns the codec for a target, if some need a codec other than Provider; nil if none do.
	ProviderOf func(t *Target) ProviderCodec
	// Choice returns a decoder of the n-th of several answers that a client asked for at once, of a stream or of a complete
	// body as its only frame; other decoders read the first. nil for formats whose answers are never several.
	Choice func(n int64) StreamDecoder
	// AppendTokenCount writes the answer to a client that asks for the size of a prompt; nil: clients do not ask.
	AppendTokenCount func(dst []byte, tokens int64) []byte
	// Narrow adapts what the format's providers accept to a target; nil for formats that are the same everywhere.
	Narrow func(takes *Takes, t *Target)
	// Clean removes from a request's body, in the format itself, what another provider's answers have added to the
	// conversation and this one would refuse. It reports that to c; if there is nothing to remove, its result is
	// ignored. nil: there is never anything to clean.
	Clean func(c *Cleaner, body []byte) []byte
	// Marks are searched for before anything is read: a part of a body without any of them needs no cleaning. Each begins
	// with a quote.
	Marks [][]byte
}

// Cleaner is the context of [Definition.Clean].
type Cleaner struct {
	Target  *Target
	Recall  func(callID []byte) []byte // returns the reasoning text that led to a call, a string body; nil if it is unknown
	Changed bool
	Dropped []string // what was removed, in the client's own terms
}

// Drop notes that the body is changed and what was removed.
func (c *Cleaner) Drop(name string) {
	c.Changed = true
	c.Dropped = appendOnce(c.Dropped, name)
}

// A ClientCodec reads clients' requests in one format and writes their answers.
type ClientCodec interface {
	// DecodeRequest fills r, which has been Reset, from a body of valid JSON. Views in r point into body. The error for
	// an unreadable request is an *[Error] whose Param is a path in this format. Unknown members, extra members of
	// roles and unknown part types never fail: they become opaque parts or notes.
	DecodeRequest(r *Request, body []byte) error
	// NewEncoder starts the stream of one answer.
	NewEncoder(o *AnswerOptions) StreamEncoder
	// AppendAnswer writes a complete answer.
	AppendAnswer(dst []byte, a *Answer, o *AnswerOptions) []byte
	// AppendError writes the body of an HTTP error.
	AppendError(dst []byte, e *Error, o *AnswerOptions) []byte
	// Status returns the HTTP status for e.
	Status(e *Error) int
}

// A ProviderCodec writes requests to providers in one format and reads their answers.
type ProviderCodec interface {
	// AppendRequest writes r for the target. It may add to r.Notes. What this format cannot express and must not be
	// left out is an *[Error] whose Param is the path in the client's format.
	AppendRequest(dst []byte, r *Request, t *Target) ([]byte, error)
	// NewDecoder starts to read one stream.
	NewDecoder() StreamDecoder
	// DecodeAnswer reads a complete answer by walking it through the stream decoder, so that the two cannot drift
	// apart. It appends all events, from EventStart to EventEnd. What earlier answers of the account had as well need
	// not be validated again.
	DecodeAnswer(dst []Event, body []byte, account string) []Event
	// DecodeError reads an error answer of any shape: this format's, another's, or not JSON at all.
	DecodeError(status int, retryAfter time.Duration, body []byte) *Error
}

// A StreamDecoder turns frames into events. It belongs to one stream.
type StreamDecoder interface {
	// Decode appends the events of one frame: name is its event field (only a hint), data its data field. Views in the
	// events are valid until the next call. It never fails: unreadable data becomes an EventError.
	Decode(dst []Event, name, data []byte) []Event
	// Repeats reports whether frames that differ from the newest only in the text of its single event, and in parts
	// without meaning, would each produce that event with their own text. A reader may then skip them, if it calls
	// Skipped with the event of each.
	Repeats() bool
	Skipped(ev *Event)
	// Finish appends the events for the end of input, the last one an EventEnd. residue is what was left after the last
	// frame.
	Finish(dst []Event, end End, residue []byte) []Event
	// Reset prepares the decoder for another stream.
	Reset()
}

// A StreamEncoder turns events into the bytes of one stream and implements that format's protocol: it opens, closes,
// orders and numbers. It accepts events in any order, and its output is always well-formed.
type StreamEncoder interface {
	// Append writes the bytes of the event for the client; often none.
	Append(dst []byte, ev *Event) []byte
	// Next returns the number of the format's next event, 0 if events have none.
	Next() int64
}

// AnswerOptions is what an encoder needs besides the events. It is constant during an answer.
type AnswerOptions struct {
	ID             string           // unique part of generated ids, [0-9a-z]+, from the exchange's id
	Model          string           // the client's name for the model
	Previous       string           // responses: the answer that the request continued, replaced by its conversation; "": none
	Created        time.Time        // when the request came in
	Clock          func() time.Time // for when it is complete; nil: Created
	IncludeUsage   bool             // chat: send the usage chunk
	IncludeState   bool             // responses: send reasoning state
	ShowReasoning  bool             // the client may see reasoning text
	RefusalAsText  bool             // responses: write refusals as plain text, for clients that drop refusal parts
	EstimatedInput int64            // estimated prompt tokens, for formats that must report them before they are known
	Request        *Request         // for what an answer echoes; nil on errors before it was read
	Begun          string           // the answer's id if the provider has begun it; "": one is made from ID
	Next           int64            // number of the first event; not 0 if the provider has begun the answer
}
