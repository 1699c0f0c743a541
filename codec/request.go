package codec

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// Request is a client's request, independent of its format. Decoders fill it from a client's body; encoders write it in
// a provider's format. Byte slices are views into the body that was decoded, or into memory of the request itself (see
// [Request.CopyBytes]); they are valid until [Request.Reset].
//
// "String body" means the inside of a JSON string, still escaped, without quotes. Numbers that are only passed on keep
// the client's bytes; nil means absent, which is not the same as zero.
type Request struct {
	Format  Format   // the client's
	Members *Members // the client's names for the content; nil for a request that no client sent
	Model   string   // the client's name for it
	Stream  bool

	Instructions []Part // opening text outside the messages: messages' system, responses' instructions
	Messages     []Message
	Tools        []Tool
	ToolChoice   ToolChoice

	MaxOutput        int64 // -1 if absent
	Temperature      []byte
	TopP             []byte
	TopK             []byte
	Seed             []byte
	PresencePenalty  []byte
	FrequencyPenalty []byte
	LogitBias        []byte // raw object
	N                int64  // 0 if absent
	Logprobs         Tristate
	TopLogprobs      []byte
	Stop             [][]byte // string bodies

	Output    OutputFormat
	Reasoning Reasoning
	Verbosity []byte // string body

	ParallelTools    Tristate
	Store            Tristate
	IncludeUsage     bool   // chat: the client wants a usage chunk
	IncludeState     bool   // responses: the client wants reasoning state back (reasoning.encrypted_content, or store false)
	User             []byte // string bodies from here on
	SafetyIdentifier []byte
	PromptCacheKey   []byte
	ServiceTier      []byte
	Metadata         []byte   // raw object
	CacheControl     []byte   // raw object: messages' top-level cache_control
	PreviousResponse []byte   // responses: the id this request continues
	Shared           []Member // of the formats of one author, which no other has: written by the other one as they are
	AudioOutput      bool     // chat: the client wants audio back
	NumberedCalls    bool     // chat: calls in the history had no ids, and were numbered
	// Stateful names members that refer to state only the provider holds, or that must not be ignored (conversation,
	// prompt): another provider must refuse them.
	Stateful []string

	// Echo holds raw values that a format's answer repeats (responses: temperature, tools, metadata and so on), by
	// member name in the order of the body.
	Echo []Member

	Notes Notes // what could not be carried over unchanged

	partArena  []Part
	byteArena  []byte
	partsTaken int // since the last Reset

	// Pieces are blocks of the decoded body, ascending, and Prints their fingerprints; nil if unknown.
	Pieces []Span
	Prints []Fingerprint
}

// Conversation returns the client's name for the list of messages.
func (r *Request) Conversation() string {
	if r.Members == nil {
		return "messages"
	}
	return r.Members.Conversation
}

// Path returns the client's path of a message.
func (r *Request) Path(index int) string { return r.Conversation() + "[" + strconv.Itoa(index) + "]" }

// PartsPath returns the client's path of a message's parts.
func (r *Request) PartsPath(index int) string {
	if r.Members == nil {
		return r.Path(index) + ".content"
	}
	return r.Path(index) + r.Members.Parts
}

// Member is one member of a JSON object: its name and its raw value.
type Member struct {
	Name  []byte
	Value []byte
}

// Tristate is a boolean that may be absent.
type Tristate uint8

const (
	Unset Tristate = iota
	False
	True
)

// TristateOf returns True or False.
func TristateOf(b bool) Tristate {
	if b {
		return True
	}
	return False
}

// ParseTristate reads a JSON value: anything except true and false is Unset.
func ParseTristate(v []byte) Tristate {
	switch {
	case scan.IsTrue(v):
		return True
	case scan.IsFalse(v):
		return False
	}
	return Unset
}

// Role is the author of a message.
type Role uint8

const (
	RoleSystem Role = iota + 1
	RoleDeveloper
	RoleUser
	RoleAssistant
	RoleTool // holds ToolResult parts only
)

// Message is one step of the conversation. A decoder collects one assistant turn (text, reasoning, parallel calls) in
// one message, and the results of one turn in one message of [RoleTool]; a client's user turn with results and other
// content becomes a tool message followed by a user message.
type Message struct {
	Role  Role
	Name  []byte // string body; nil if the format has none
	ID    []byte // the item's id in the client's format, nil if it has none
	Phase []byte // responses: phase of an assistant message
	Parts []Part
	Index int // position in the client's own list of messages or items, for error paths
}

// PartKind is the kind of a [Part].
type PartKind uint8

const (
	PartText       PartKind = iota + 1 // Text
	PartRefusal                        // Text
	PartReasoning                      // Text or Parts (one text part each for several summaries), Signature, Family
	PartRedacted                       // Signature, Family
	PartImage                          // MediaType and Data, or URL, or FileID; Detail
	PartDocument                       // as PartImage, or Text if it is plain text; Filename, Context
	PartAudio                          // MediaType (or the format word) and Data
	PartToolCall                       // CallID, Name, Namespace, Arguments; Signature if the call has one
	PartCustomCall                     // CallID, Name, Namespace, Text: the input
	PartToolResult                     // CallID, Name if known, Parts, Failed
	PartToolRef                        // Name: a deferred tool that has become available
	PartServerTool                     // Raw: a tool the provider ran, or its result; Text: the same in words, if there are any
	PartOpaque                         // Raw, WireType: a type without a name here; Text: the same in words, if there are any
)

// Part is a piece of a message.
type Part struct {
	Kind   PartKind
	Family Family // whose Signature
	Failed bool   // tool result: the tool reported an error
	// ArgumentsEscaped says that Arguments is a string body holding JSON text (chat, responses) rather than the JSON
	// object itself (messages, gemini).
	ArgumentsEscaped bool
	Summary          bool // reasoning: a summary, not the full text

	Text         []byte // string body
	Signature    []byte // string body
	ID           []byte // the item's or block's own id
	CallID       []byte // string body
	Name         []byte // string body
	Namespace    []byte // string body
	Arguments    []byte
	MediaType    []byte // string body
	Data         []byte // base64 as the body of a string
	URL          []byte // string body
	FileID       []byte // string body
	Filename     []byte // string body
	Context      []byte // string body: the client's context for a document
	Detail       []byte // string body
	CacheControl []byte // raw object
	Breakpoint   []byte // raw object: OpenAI's prompt_cache_breakpoint, which CacheControl says too
	Citations    []byte // raw array
	Raw          []byte // the whole wire value, in the shape of Origin
	WireType     []byte // the wire's name for the type
	Origin       Format // format of Raw

	Parts []Part // tool result content; reasoning summaries. At most one level deep.
}

// ToolKind is the kind of a [Tool].
type ToolKind uint8

const (
	ToolFunction   ToolKind = iota + 1
	ToolCustom              // free-text input, possibly under a grammar
	ToolWebSearch           // run by the provider
	ToolSearch              // finds deferred tools
	ToolClientSide          // a tool with a documented shape that the client runs (shell, editor, computer, memory)
	ToolHosted              // any other tool that the provider runs
)

// Tool is one tool that the model may call. Tools of a namespace are listed one by one with Namespace set.
type Tool struct {
	Kind        ToolKind
	Name        []byte // string body
	Namespace   []byte // string body, nil if there is none
	Description []byte // string body
	// NamespaceDescription describes the namespace as a whole; a string body, the same on each of its tools.
	NamespaceDescription []byte
	Schema               []byte // raw JSON Schema of the arguments; nil if absent
	Grammar              []byte // custom tools: the raw format object
	Strict               Tristate
	Deferred             bool   // not to be offered until a tool reference names it
	AllowedCallers       []byte // raw array; a restriction that must be preserved
	CacheControl         []byte // raw object
	WireType             []byte // the wire's name for the type, e.g. web_search_20250305
	Raw                  []byte // the whole wire value, in the shape of Origin
	Origin               Format
	Index                int // position in the client's own list, for error paths; -1 for a member of its own
}

// Member returns the member of the client's request that declares the tool: a list, or with Index -1 the tool itself.
func (t *Tool) Member() string {
	if t.Index < 0 {
		return string(t.WireType)
	}
	return "tools"
}

// ChoiceMode is how free the model is to call tools.
type ChoiceMode uint8

const (
	ChoiceUnset ChoiceMode = iota
	ChoiceAuto
	ChoiceNone
	ChoiceRequired // some tool
	ChoiceTool     // the named tool
	ChoiceAllowed  // only the tools in Allowed; AllowedRequired says whether one must be called
	ChoiceHosted   // a hosted tool by type; Raw
)

// ToolChoice is the client's tool_choice.
type ToolChoice struct {
	Mode            ChoiceMode
	Name            []byte
	Namespace       []byte
	Allowed         []Tool // Name and Namespace only
	AllowedRequired bool
	Raw             []byte
}

// OutputKind is the form of answer that the client wants.
type OutputKind uint8

const (
	OutputText OutputKind = iota
	OutputJSON            // any JSON object
	OutputSchema
)

// OutputFormat is the client's response_format, text.format or output_config.format.
type OutputFormat struct {
	Kind        OutputKind
	Name        []byte // string body
	Description []byte // string body
	Schema      []byte // raw
	Strict      Tristate
}

// ReasoningMode is the client's switch for reasoning, if the format has one.
type ReasoningMode uint8

const (
	ReasoningUnset ReasoningMode = iota
	ReasoningOff
	ReasoningBudget   // Budget tokens
	ReasoningAdaptive // the model decides, within Effort
)

// Reasoning is the client's request for reasoning.
type Reasoning struct {
	Mode    ReasoningMode
	Effort  []byte // string body: none, minimal, low, medium, high, xhigh, max; nil if absent
	Budget  int64  // with ReasoningBudget
	Visible Tristate
	Summary []byte // responses: the word for summary; nil if absent
	Display []byte // messages: the word for display; nil if absent
}

// Notes lists what a translation changed. Names are member paths in the client's own format.
type Notes struct {
	Emulated []string
	Dropped  []string
}

// Emulate notes that the member is emulated. Each name is kept once.
func (n *Notes) Emulate(name string) { n.Emulated = appendOnce(n.Emulated, name) }

// Drop notes that the member has no counterpart and is left out. Each name is kept once.
func (n *Notes) Drop(name string) { n.Dropped = appendOnce(n.Dropped, name) }

// Rename gives the members names that their client knows.
func (n *Notes) Rename(members *Members) {
	for _, list := range [...]*[]string{&n.Emulated, &n.Dropped} {
		renamed := (*list)[:0]
		for _, name := range *list {
			renamed = appendOnce(renamed, members.Named(name))
		}
		*list = renamed
	}
}

// Share keeps a member for formats that have it too.
func (r *Request) Share(name, value []byte) {
	r.Shared = append(r.Shared, Member{Name: name, Value: value})
}

// DropShared notes the members that were kept so, for an encoder whose format has none of them.
func (r *Request) DropShared() {
	for _, m := range r.Shared {
		r.Notes.Drop(string(m.Name))
	}
}

// maxNotes is how many names a list of notes keeps: requests may have any number of untranslatable members.
const maxNotes = 256

func appendOnce(names []string, name string) []string {
	if len(names) == maxNotes {
		return names
	}
	for _, known := range names {
		if known == name {
			return names
		}
	}
	return append(names, name)
}

// Piece returns the block of the body that begins at an offset, and its fingerprint, 0 if it has none.
func (r *Request) Piece(start int) (Span, Fingerprint) {
	i, found := slices.BinarySearchFunc(r.Pieces, start, func(s Span, start int) int { return s.Start - start })
	if !found || i >= len(r.Prints) {
		return Span{}, 0
	}
	return r.Pieces[i], r.Prints[i]
}

// Reset empties the request for reuse and keeps its memory.
func (r *Request) Reset() {
	clear(r.partArena)
	if most := min(r.partsTaken, partsKept); most > cap(r.partArena) { // the next request may be similar
		r.partArena = make([]Part, 0, most)
	}
	*r = Request{
		MaxOutput:    -1,
		Instructions: r.Instructions[:0],
		Messages:     r.Messages[:0],
		Tools:        r.Tools[:0],
		Stop:         r.Stop[:0],
		Echo:         r.Echo[:0],
		Shared:       r.Shared[:0],
		Stateful:     r.Stateful[:0],
		Notes:        Notes{Emulated: r.Notes.Emulated[:0], Dropped: r.Notes.Dropped[:0]},
		partArena:    r.partArena[:0],
		byteArena:    r.byteArena[:0],
	}
}

// partBlock and byteBlock are the sizes in which a request allocates: large enough that an agent's history of some
// hundred parts takes a handful of allocations, small enough that a chat of two messages wastes little.
const (
	partBlock = 64
	byteBlock = 8 << 10
	partsKept = 1 << 10 // of a long history, kept for reuse; about half a megabyte
)

// NewParts returns an empty slice with room for n parts, owned by the request. Appending beyond n moves to the heap.
func (r *Request) NewParts(n int) []Part {
	r.partsTaken += n
	if cap(r.partArena)-len(r.partArena) < n {
		r.partArena = make([]Part, 0, max(n, partBlock))
	}
	at := len(r.partArena)
	r.partArena = r.partArena[:at+n]
	return r.partArena[at : at : at+n]
}

// CopyBytes copies b into memory of the request and returns the copy, valid until [Request.Reset].
func (r *Request) CopyBytes(b []byte) []byte {
	dst := r.Alloc(len(b))
	return append(dst, b...)
}

// Alloc returns an empty slice with room for n bytes, owned by the request and valid until [Request.Reset].
func (r *Request) Alloc(n int) []byte {
	if cap(r.byteArena)-len(r.byteArena) < n {
		r.byteArena = make([]byte, 0, max(n, byteBlock))
	}
	at := len(r.byteArena)
	r.byteArena = r.byteArena[:at+n]
	return r.byteArena[at : at : at+n]
}

// CutDataURL splits a base64 data URL (RFC 2397) into its media type without parameters, in lower case, "" if it has
// none, and its data. ok is false for any other URL. data is a view into url, which is a string body as returned by
// [Request.Plain]. Schemes, media types and the word base64 have no case.
func CutDataURL(url []byte) (mediaType, data []byte, ok bool) {
	head, data, whole := bytes.Cut(url, []byte(","))
	if !whole || !IsDataURL(head) {
		return nil, nil, false
	}
	head = head[len(dataScheme):]
	last := bytes.LastIndexByte(head, ';')
	if last < 0 || !bytes.EqualFold(bytes.TrimSpace(head[last+1:]), []byte("base64")) {
		return nil, nil, false
	}
	mediaType, _, _ = bytes.Cut(head[:last], []byte(";"))
	return MediaType(bytes.TrimSpace(mediaType)), data, true
}

// MarkBreakpoint stores OpenAI's prompt_cache_breakpoint, and as cache_control what other formats know of it. Its lifetimes
// are 30 minutes and 12 hours; the nearest of cache_control are 5 minutes and an hour.
func (p *Part) MarkBreakpoint(v []byte) {
	switch {
	case !scan.IsObject(v):
		return
	case string(scan.Body(scan.Get(v, "ttl"))) == "12h":
		p.CacheControl = []byte(`{"type":"ephemeral","ttl":"1h"}`)
	default:
		p.CacheControl = []byte(`{"type":"ephemeral"}`)
	}
	p.Breakpoint = v
}

const dataScheme = "data:"

// IsDataURL reports whether a URL has its data in itself.
func IsDataURL(url []byte) bool {
	return len(url) >= len(dataScheme) && bytes.EqualFold(url[:len(dataScheme)], []byte(dataScheme))
}

// MediaType returns a media type in lower case: t itself if it is.
func MediaType(t []byte) []byte {
	for _, c := range t {
		if c >= 'A' && c <= 'Z' {
			return bytes.ToLower(t)
		}
	}
	return t
}

// Plain returns a string body without needless escapes: some clients write the slashes of URLs and of base64 as \/. The
// result is body itself if it has no escapes, and otherwise valid until the request is Reset.
func (r *Request) Plain(body []byte) []byte {
	if bytes.IndexByte(body, '\\') < 0 {
		return body
	}
	text := scan.Unescape(r.Alloc(len(body)), body)
	return scan.Escape(r.Alloc(len(text)), text)
}
