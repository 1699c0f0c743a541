package codec

// EventKind is what an [Event] reports.
type EventKind uint8

const (
	EventNone        EventKind = iota
	EventStart                 // the answer begins: ID, Model, Usage if already known
	EventItemOpen              // a content item begins: Item, Type, CallID, Name, Namespace; Raw and Family where a call begins with its proof
	EventText                  // Raw: text of a text item
	EventRefusal               // Raw: text of a refusal item
	EventReasoning             // Raw: visible reasoning; Sub is the ordinal of the summary or content part
	EventSignature             // Raw: opaque proof of a reasoning item; Family says who can read it
	EventArguments             // Raw: fragment of a tool call's arguments
	EventCustomInput           // Raw: fragment of a custom tool call's input
	EventAnnotation            // Raw: one citation, a whole JSON object in the shape that Origin names
	EventItemClose             // the item is complete; Raw is the whole wire item if the format sends it, else nil
	EventFinish                // Finish, and StopSequence in Raw if one matched
	EventUsage                 // Usage: cumulative, the last one wins
	EventError                 // Err: the provider reports a failure inside the stream
	EventPing                  // a keep-alive from the provider
	EventEnd                   // End: no further event follows
)

// ItemType is the type of a content item.
type ItemType uint8

const (
	ItemText       ItemType = iota + 1
	ItemRefusal             // a refusal by the model, in words
	ItemReasoning           // visible reasoning, possibly empty, possibly with a signature
	ItemRedacted            // reasoning that only its provider can read; the proof comes as EventSignature
	ItemToolCall            // call of a function; arguments are a JSON object
	ItemCustomCall          // call of a custom tool; the input is free text
	ItemServerTool          // a tool that the provider runs itself, or its result; Raw of EventItemClose is the wire item
	ItemOpaque              // a type without a name here; Raw of EventItemClose is the wire item, Name of EventItemOpen its media type, if any
	ItemImage               // an image: Name of EventItemOpen is its media type, Raw of EventItemClose its base64 as a string body
)

// FinishReason is why the model stopped (docs/wire/translation.md#3.1).
type FinishReason uint8

const (
	FinishUnknown       FinishReason = iota // the provider did not say
	FinishEnd                               // the model finished
	FinishStopSequence                      // a stop sequence matched
	FinishLength                            // the output limit was reached
	FinishContext                           // the context window is full
	FinishToolCalls                         // tools are to be called
	FinishFilter                            // a refusal, or a filter of the provider
	FinishPause                             // a server-side tool loop pauses
	FinishMalformedCall                     // the model's call is unreadable
)

// End is how a stream ended.
type End uint8

const (
	EndTerminal  End = iota + 1 // the format's own terminal event was seen
	EndEOF                      // the body ended without it
	EndBroken                   // read error, bad chunk, or a frame over the limit
	EndCancelled                // the client left
)

// Event is one step of an answer, the same for every format. It is a plain value; decoders append events to a slice
// that the caller reuses, so that a text delta costs no allocation.
//
// Text, Refusal, Reasoning, Arguments, CustomInput and Signature carry Raw as the body of a JSON string, still escaped
// and without its quotes: all formats carry these inside a JSON string, so bytes are copied, never decoded and
// re-encoded (a surrogate pair may be split over two deltas, and only copying preserves it). A fragment may end
// anywhere except inside an escape sequence or a UTF-8 sequence.
//
// Every []byte is a view that is valid until the next call of the decoder that made the event.
type Event struct {
	Kind   EventKind
	Type   ItemType     // ItemOpen, ItemClose
	Finish FinishReason // Finish
	End    End          // End
	Family Family       // Signature: who can read Raw; Start: the family of the model
	// Origin is the format of Raw if Raw is a whole JSON value: Annotation, and ItemClose of server tools and opaque
	// items. An encoder of another format converts what it knows and drops the rest.
	Origin Format
	// Whole marks an Arguments or CustomInput event that carries everything.
	Whole bool
	// Summary marks reasoning that is a summary, not the full text.
	Summary bool

	Item int32 // ordinal of the content item, dense from 0, assigned by the decoder
	Sub  int32 // part within a reasoning item, dense from 0

	Raw       []byte
	ID        []byte // Start: the provider's id of the answer; ItemOpen: the provider's id of the item
	Model     []byte // Start: the serving model, as a string body
	CallID    []byte // ItemOpen of calls
	Name      []byte // ItemOpen of calls: the tool's name as a string body
	Namespace []byte // ItemOpen of calls: the tool's namespace, nil if there is none

	Usage   Usage  // Usage, Start
	Created int64  // Start: unix seconds, 0 if the format has no such field
	Err     *Error // Error
}

var finishNames = [...]string{
	"", "end", "stop_sequence", "length", "context", "tool_calls", "filter", "pause", "malformed_call",
}

// String returns the name used in records and metrics; "" if unknown.
func (f FinishReason) String() string {
	if int(f) < len(finishNames) {
		return finishNames[f]
	}
	return ""
}
