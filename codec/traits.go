package codec

import "strings"

// Traits are the facts of a format that others have to know. A format's folder states them, and nobody else asks which
// format it is: crossing, router and server ask for the fact that matters to them. The zero value of a fact is the safe
// side of it, so that a new format states what it can do and inherits nothing.
type Traits struct {
	Format Format
	Author Family // whose format it is; formats of one author share the words for tiers, metadata and users

	AnswerPrefix string   // how ids of answers begin, "" for a format without them
	CallPrefix   string   // how ids of calls begin that are made for its clients
	CallID       IDRule   // what its clients and its providers take as the id of a call
	ToolName     NameRule // what its providers take as the name of a tool
	Vectors      bool     // an answer is vectors: it has no events and belongs to no conversation

	Members Members
	Client  ClientTraits
	Takes   Takes
	Stream  StreamTraits
	HTTP    HTTPTraits
}

// IDRule is what a format takes as the id of a call.
type IDRule struct {
	Max    int  // bytes; 0 for any length
	Slug   bool // letters, digits, _ and - only
	Strict int  // exactly so many letters and digits; 0 where the other members rule
}

// NameRule is what a format takes as the name of a tool (docs/wire/translation.md#4.1).
type NameRule struct {
	Max    int    // bytes
	Letter bool   // the first character is a letter or an underscore
	Extra  string // legal beside letters, digits, _ and -
}

// Members are the names by which clients of a format know what a request holds, for notes and errors.
type Members struct {
	Conversation string // the list of messages or items
	Parts        string // what leads from a message to its parts; "" where it is an item itself
	Content      string // what stands before the type of a content part
	Reasoning    string // reasoning in the history
	Effort       string // how much to reason
	MaxOutput    string
	Output       string // the form of the answer
	Stop         string
	Priority     string // what asks for the priority tier; "" where the tier's own member does
}

// ClientTraits are what clients of a format say, and what their answers have a place for.
type ClientTraits struct {
	Pictures        bool   // answers may hold pictures
	SignedCalls     bool   // a call in an answer can bear its proof
	SignedReasoning bool   // reasoning bears a proof of its own provider, so that what another one thought has to be marked
	PrivateUser     bool   // the user's id tells of accounts and devices: another company gets a hash of it
	TitledDocuments bool   // documents come with a title and a context
	DeferredTools   bool   // a deferred tool joins when the conversation refers to it
	StrictSchemas   bool   // every answer is held to its schema
	StoredAnswers   bool   // requests may refer to earlier answers by their ids
	TextBlock       string // the type of a block of text in requests; "": there are no conversations
	TextAsString    bool   // many hosts take no blocks: what is added to a text goes into its string
}

// SystemTurns says where a conversation may hold instructions after its beginning.
type SystemTurns uint8

const (
	SystemNowhere   SystemTurns = iota
	SystemAfterUser             // directly after a turn of the user
	SystemAnywhere
)

// Takes is what a provider of a format takes in a request. A model or a host may take less: see [Definition.Narrow].
type Takes struct {
	CallID IDRule // [Traits.CallID], unless the target has another

	SystemApart   bool // instructions stand outside the messages
	SystemTurns   SystemTurns
	Alternation   bool // speakers have to take turns, and blank text is refused
	Refusals      bool // parts of the assistant that decline
	FailedResults bool // a member that says that a tool has failed

	Audio           bool
	WebAddresses    bool     // fetches pictures and documents itself
	ImageTypes      []string // media types of pictures; nil for any
	ImagesInResults bool     // pictures inside tool results
	FileNames       bool     // documents have the names of their files

	CustomTools     bool // tools with free-text input
	AllowedTools    bool // a choice among some of the tools
	WebSearch       bool // a search that the provider runs
	ForcedSearch    bool // a choice that insists on that search
	UndeclaredCalls bool // calls in the history of tools that the request does not declare
	Breakpoints     int  // of the prompt cache, in one request

	JSONObject   bool // an answer that is any JSON object
	JSONSchema   bool // an answer that matches a schema
	StrictSwitch bool // holds the answer to the schema only on request
	SchemaByCall bool // without JSONSchema, the call of a tool gets a better answer than words do

	NeedsMaxOutput   bool // an output limit is required
	Stops            int  // stop sequences at most
	BlankStops       bool // and some that are white space only
	LogProbs         bool
	ServiceTiers     bool // the words of OpenAI's tiers
	SafetyIdentifier bool // a member beside the user's
	KeepsAnswers     bool // the provider keeps answers by default

	BudgetInOutput bool             // the reasoning budget is part of the output limit
	ForcedThinking bool             // reasons before a tool call that it is forced to make
	Budgets        map[string]int64 // tokens that stand for an effort word, where they differ from everybody else's
	ReasoningText  bool             // wants the text of earlier reasoning back
}

// AnyStops is the number of stop sequences where there is no limit.
const AnyStops = 1 << 30

// FrameKind is what a frame of a stream means to the code that passes it on.
type FrameKind uint8

const (
	FrameContent   FrameKind = iota
	FrameFacts               // content that says something of the whole answer: its id, its usage, why it ended
	FrameKeepAlive           // nothing but a sign of life
	FrameTerminal            // the format's own terminal event
	FrameError               // the provider reports a failure; nothing of use follows
)

// StreamTraits are the facts of a format's streams.
type StreamTraits struct {
	Events map[string]FrameKind // types of events that are not plain content; nil where frames have no type
	// Facts are the members of frames without a type that say something of the whole answer, and how their values begin.
	// A stream that has neither is read frame by frame.
	Facts        []Member
	Numbered     bool // events have sequence numbers, and the id tells one response from another
	SilentFinish bool // a provider may leave open why it stopped
	AnswerSeries bool // a body may be several answers, one after the other
	UsageAsked   bool // counts of tokens come only if the request asks for them, in a chunk of their own
	// Heartbeat writes something between events that keeps the timers of clients from firing. next is the number of the
	// stream's next event, 0 where none was numbered. nil: a comment does.
	Heartbeat func(dst []byte, next int64) []byte
}

// Plain reports whether every frame of the streams has to be read.
func (t *StreamTraits) Plain() bool { return t.Events == nil && t.Facts == nil }

// HTTPTraits are where and how providers of a format are asked.
type HTTPTraits struct {
	Generate    Endpoint
	Stream      Endpoint // where it differs from Generate
	CountTokens Endpoint
	Embed       Endpoint
	ListModels  Endpoint
	BatchEmbed  bool // Embed is batchEmbedContents, of a shape of its own

	// Versioned says that SDKs of the format append /v1 to the base URL themselves, where others take it as a part of it.
	Versioned bool
	Beta      bool        // beta=true in a client's query goes upstream
	KeyHeader string      // of the credential; "" leaves it to the host
	Headers   [][2]string // header and value that are added to requests that lack it
	Own       []string    // headers that go to providers of this format alone
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

// OpenAILimits are the headers of OpenAI, which most hosts send too (docs/wire/chat-completions.md#4.4).
var OpenAILimits = LimitHeaders{Limit: "X-Ratelimit-Limit-*", Remaining: "X-Ratelimit-Remaining-*", Reset: "X-Ratelimit-Reset-*"}

// AnswerID is the id that an answer written with these options has, "" for a format without one.
func (t *Traits) AnswerID(o *AnswerOptions) string {
	if o.Begun != "" || t.AnswerPrefix == "" {
		return o.Begun
	}
	return t.AnswerPrefix + o.ID
}
