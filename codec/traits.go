package codec

import (
	"cmp"
	"strings"
)

// Traits are the facts of a format that other packages need. A format's folder states them, and no other code asks
// which format it is: crossing, router and server ask for the fact that matters. The zero value of a fact is its safe
// side, so a new format states what it can do and inherits nothing.
type Traits struct {
	Format Format
	Author Family // the format's author; formats of one author share the words for tiers, metadata and users

	AnswerPrefix string   // prefix of answer ids, "" for a format without one
	CallPrefix   string   // prefix of call ids generated for its clients
	CallID       IDRule   // the rule for call ids of its clients and its providers
	ToolName     NameRule // the rule for tool names of its providers
	Vectors      bool     // an answer is vectors: it has no events and belongs to no conversation

	References [][]byte // of these, a body that names something at its provider has at least one; none: no body does

	Members Members
	Past    PastTraits
	Client  ClientTraits
	Takes   Takes
	Stream  StreamTraits
	HTTP    HTTPTraits
}

// IDRule is a format's rule for call ids.
type IDRule struct {
	Max    int  // bytes; 0 for any length
	Slug   bool // letters, digits, _ and - only
	Strict int  // exactly that many letters and digits; 0 if the other members apply
}

// NameRule is a format's rule for tool names (docs/wire/translation.md#4.1).
type NameRule struct {
	Max    int    // bytes
	Letter bool   // the first character is a letter or an underscore
	Extra  string // legal besides letters, digits, _ and -
}

// Members are a format's names for the contents of a request, for notes and errors.
type Members struct {
	Conversation string // the list of messages or items
	Parts        string // the member of a message with its parts; "" if a message is an item itself
	Content      string // the prefix of a content part's type
	Reasoning    string // reasoning in the history
	Effort       string // how much to reason
	MaxOutput    string
	Output       string // the form of the answer
	Stop         string
	Priority     string            // the member that requests the priority tier; "" if the tier's own member does
	Notes        map[string]string // of what encoders name as Chat does, the client's names
}

// Named returns the client's name of a member that an encoder names as Chat does.
func (m *Members) Named(name string) string { return cmp.Or(m.Notes[name], name) }

// PastTraits identify calls and their results in the bytes of a request. A text cannot contain them, because its quotation
// marks are escaped.
type PastTraits struct {
	Arguments []byte // the member of a call with its arguments: `"input":`
	Result    []byte // what the result of a call has, and no other item
}

// ClientTraits are what clients of a format send, and what their answers can hold.
type ClientTraits struct {
	Pictures        bool   // answers may hold images
	SignedCalls     bool   // a call in an answer can carry its proof
	SignedReasoning bool   // reasoning carries a proof of its own provider, so that another one's reasoning has to be marked
	PrivateUser     bool   // the user's id reveals accounts and devices: another company gets a hash of it
	TitledDocuments bool   // documents come with a title and a context
	DeferredTools   bool   // a deferred tool joins when the conversation refers to it
	StrictSchemas   bool   // every answer is held to its schema
	StoredAnswers   bool   // requests may refer to earlier answers by their ids
	TextBlock       string // the type of a text block in requests; "": there are no conversations
	BareBlocks      bool   // blocks have no type: a member says what they are
	Flat            bool   // a turn is reasoning, then text, then calls, whatever their order was
	TextAsString    bool   // many hosts accept no blocks: text is added to the string
}

// SystemTurns says where a conversation may hold instructions after its beginning.
type SystemTurns uint8

const (
	SystemNowhere   SystemTurns = iota
	SystemAfterUser             // directly after a turn of the user
	SystemAnywhere
)

// Takes is what a provider of a format accepts in a request. A model or a host may accept less: see
// [Definition.Narrow].
type Takes struct {
	CallID IDRule // [Traits.CallID], unless the target has another

	SystemApart   bool // instructions are outside the messages
	SystemTurns   SystemTurns
	Alternation   bool // speakers must alternate, and blank text is refused
	Refusals      bool // refusal parts of the assistant
	FailedResults bool // a member for the failure of a tool

	Audio           bool
	ImageTypes      []string // media types of images; nil for any
	ImagesInResults bool     // images inside tool results
	ImageFiles      bool     // images by the id of a file, besides documents
	FileNames       bool     // documents have file names
	ImageDetail     bool     // images say how closely they are looked at
	SpeakerNames    bool     // messages say who speaks besides the role

	CustomTools     bool // tools with free-text input
	AllowedTools    bool // a choice among some of the tools
	WebSearch       bool // a hosted web search
	ForcedSearch    bool // a choice that forces that search
	UndeclaredCalls bool // calls in the history of undeclared tools
	Breakpoints     int  // of the prompt cache, per request

	JSONObject   bool // an answer that is any JSON object
	JSONSchema   bool // an answer that matches a schema
	StrictSwitch bool // holds the answer to the schema only on request
	SchemaByCall bool // without JSONSchema, a tool call gets a better answer than words do

	NeedsMaxOutput   bool // an output limit is required
	Stops            int  // stop sequences at most
	BlankStops       bool // and some that are white space only
	LogProbs         bool
	ServiceTiers     bool // the words of OpenAI's tiers
	SafetyIdentifier bool // a member beside the user's
	KeepsAnswers     bool // the provider keeps answers by default

	BudgetInOutput bool             // the reasoning budget is part of the output limit
	ForcedThinking bool             // reasons before a forced tool call
	Budgets        map[string]int64 // tokens for an effort word, if they differ from the default
	ReasoningText  bool             // wants the text of earlier reasoning back
	Details        bool             // has a member for state as hosts pass it on: see [FamilyDetails]
}

// AnyStops is the number of stop sequences if there is no limit.
const AnyStops = 1 << 30

// FrameKind is what a frame of a stream means for relaying it.
type FrameKind uint8

const (
	FrameContent   FrameKind = iota
	FrameFacts               // content with facts about the whole answer: its id, its usage, why it ended
	FrameKeepAlive           // only a keep-alive
	FrameTerminal            // the format's own terminal event
	FrameError               // the provider reports a failure; nothing of use follows
)

// StreamTraits are the facts of a format's streams.
type StreamTraits struct {
	Events map[string]FrameKind // types of events that are not plain content; nil if frames have no type
	// Facts are the members of frames without a type that state facts about the whole answer, and how their values
	// begin. A stream that has neither is read frame by frame.
	Facts        []Member
	Numbered     bool // events have sequence numbers, and the id tells one response from another
	SilentFinish bool // a provider may leave open why it stopped
	AnswerSeries bool // a body may be several answers, one after the other
	UsageAsked   bool // token counts come only on request, in a chunk of their own
	// Heartbeat writes something between events that resets the timers of clients. next is the number of the stream's
	// next event, 0 if none was numbered. nil: a comment does.
	Heartbeat func(dst []byte, next int64) []byte
}

// Plain reports whether every frame of the streams has to be read.
func (t *StreamTraits) Plain() bool { return t.Events == nil && t.Facts == nil }

// HTTPTraits are the endpoints and headers of providers of a format.
type HTTPTraits struct {
	Generate    Endpoint
	Stream      Endpoint // if it differs from Generate
	CountTokens Endpoint
	Compact     Endpoint
	Embed       Endpoint
	ListModels  Endpoint
	BatchEmbed  bool // Embed is batchEmbedContents, with its own shape

	// Versioned says that SDKs of the format append /v1 to the base URL themselves; others expect it in the base URL.
	Versioned bool
	Beta      bool        // beta=true in a client's query goes upstream
	KeyHeader string      // of the credential; "": the host decides
	Headers   [][2]string // added to requests that lack them: header and value
	Own       []string    // headers that go only to providers of this format
	Limits    LimitHeaders

	Rank     int // the provider's format with the highest one is crossed to, if it does not speak the client's; 0 is none
	ListRank int // that with the highest one is asked for its models
	// KeepsReasoning says that models which reason keep their state from turn to turn in this format, which puts it first
	// for them. Some models of the author answer in no other of its formats.
	KeepsReasoning bool
	SearchModels   bool // models that search for every answer answer in no other format of the author
}

// Endpoint is where an operation is, below the base URL; {model} stands for the model's name. The zero value says that
// the format has no such operation.
type Endpoint struct{ Path, Query string }

// LimitHeaders names the headers that tell how near a limit is, in canonical form; * stands for what is limited, Requests
// or Tokens. The zero value is for formats that have none.
type LimitHeaders struct {
	Limit, Remaining, Reset string
	ResetAt                 bool // Reset is a moment (RFC 3339), not a duration
}

// Name is one of the names for what is limited.
func (h *LimitHeaders) Name(pattern, of string) string {
	before, after, _ := strings.Cut(pattern, "*")
	return before + of + after
}

// Is reports whether name is what [LimitHeaders.Name] returns. It is asked of each header of an answer, and allocates nothing.
func (h *LimitHeaders) Is(name, pattern, of string) bool {
	before, after, _ := strings.Cut(pattern, "*")
	rest, begins := strings.CutPrefix(name, before)
	middle, ends := strings.CutSuffix(rest, after)
	return begins && ends && middle == of
}

// OpenAILimits are the headers of OpenAI, which most hosts send too (docs/wire/chat-completions.md#4.4).
var OpenAILimits = LimitHeaders{Limit: "X-Ratelimit-Limit-*", Remaining: "X-Ratelimit-Remaining-*", Reset: "X-Ratelimit-Reset-*"}

// AnswerID is the id that an answer written with these options has, "" for a format without one.
func (t *Traits) AnswerID(o *AnswerOptions) string {
	if o.Begun != "" || t.AnswerPrefix == "" {
		return o.Begun
	}
	return t.AnswerPrefix + o.ID
}
