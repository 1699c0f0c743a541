package codec

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// maxContinuity is the longest chat key or external session id, in bytes.
const maxContinuity = 256

// Names of our own members: they are read, kept with the capture, and never sent to a provider.
const (
	memberChatKey         = "service_chat_key"
	memberExternalSession = "service_external_session_id"
)

// Span is a byte range of a body: body[Start:End].
type Span struct{ Start, End int }

// Of returns the bytes of the range.
func (s Span) Of(body []byte) []byte { return body[s.Start:s.End:s.End] }

// Envelope is the top level of a request: all that is needed to place it, to pass it through and to record it. It is
// read in one pass and holds positions, not copies.
type Envelope struct {
	Model            string
	OtherModels      string // the member by which some hosts ask models other than Model; "": none
	Stream           bool
	ChatKey          string // member service_chat_key
	ExternalSession  string // member service_external_session_id
	PreviousResponse string // responses: previous_response_id
	Conversation     string // responses: conversation, or its id
	PromptCacheKey   string // prompt_cache_key
	StoreOff         bool   // "store": false
	Background       bool   // responses: "background": true, which this side carries out and no provider is asked for
	MaxTokens        int64  // limit on the length of the answer, under any of the surface's names for it; 0: none given
	Choices          int64  // n, how many answers are wanted; 0: not given
	Metadata         Span   // metadata; empty if there is none
	ClientMetadata   Span   // client_metadata, which Codex sends

	Opening []Span // system text outside the messages: one per block, or one for a string
	Items   []Span // messages or input items, one each; one for an input that is a string
	Tools   []Span // tools, one each

	addressed bool // the path names the model, so the body need not

	blocks []Span // all of Opening, Items and Tools, ascending
	model  Span   // value of the member model
	cuts   []Span // left out by Splice, ascending, commas included

	usage    Span // where usage of a stream can be asked for; empty at 0 if it already was
	askUsage bool
}

// Reset empties the envelope for reuse and keeps its memory.
func (e *Envelope) Reset() {
	*e = Envelope{Opening: e.Opening[:0], Items: e.Items[:0], Tools: e.Tools[:0], blocks: e.blocks[:0], cuts: e.cuts[:0]}
}

// Detach keeps the texts of the envelope without the body that they may be views of. Its spans are lost.
func (e *Envelope) Detach() {
	for _, text := range []*string{&e.Model, &e.ChatKey, &e.ExternalSession, &e.PreviousResponse, &e.Conversation, &e.PromptCacheKey} {
		*text = strings.Clone(*text)
	}
	e.Metadata, e.ClientMetadata, e.Opening, e.Items, e.Tools, e.blocks, e.cuts = Span{}, Span{}, nil, nil, nil, nil, nil
	e.model, e.usage = Span{}, Span{}
}

// Read reads the top level of a request body of any surface. The error is an *[Error] for the client.
//
// A body with duplicate model, stream or continuity members is refused: readers disagree on which one counts, and a
// request must not be placed by one and answered by the other.
func (e *Envelope) Read(body []byte) error {
	if !scan.WellFormed(body) {
		return malformed(body)
	}
	return e.members(body, nil)
}

// Address sets what the path says of a request, before the body is read: the model, and whether the answer is a stream.
func (e *Envelope) Address(model string, stream bool) {
	e.Model, e.Stream, e.addressed = model, stream, true
}

// RequireModel returns an error unless the request names a model.
func (e *Envelope) RequireModel() error {
	if e.Model == "" {
		return Invalid("model", "the request names no model")
	}
	return nil
}

// ReadPieces is [Envelope.Read] for a large body of an account, and returns the fingerprints of its [Envelope.Blocks].
// Blocks that came before in the same order are not checked again.
func (e *Envelope) ReadPieces(body []byte, account string, known *Succession) ([]Fingerprint, error) {
	p := newPieceReader(body, account, known)
	defer p.release()
	err := e.members(body, p) // safe on malformed input, too, but then useless
	if !p.wellFormed() {
		return nil, malformed(body)
	}
	return p.prints, err
}

func malformed(body []byte) error {
	if len(body) == 0 {
		return Invalid("", "the body is empty; it must be a JSON object")
	}
	return Invalid("", "the body cannot be read: it %s", scan.Explain(body))
}

// members reads the top level. pieces collects the blocks on the way, unless it is nil.
func (e *Envelope) members(body []byte, pieces *pieceReader) error {
	if !scan.IsObject(body) {
		return Invalid("", "the body must be a JSON object")
	}
	var (
		seen    memberSet
		cut     cutter
		members = scan.Object(body)
	)
	for members.NextName() {
		if !e.readList(&members, pieces) && !members.Skip() {
			break
		}
		ours, err := e.readMember(&members, &seen)
		if err != nil {
			return err
		}
		e.cuts = cut.pass(e.cuts, &members, ours)
	}
	e.cuts = cut.end(e.cuts)
	return nil
}

// memberSet records which single members have been seen.
type memberSet uint8

const (
	seenModel memberSet = 1 << iota
	seenStream
	seenChatKey
	seenExternalSession
	seenStreamOptions
)

func (s *memberSet) once(member memberSet, name string) error {
	if *s&member != 0 {
		return Invalid(name, "the member %q occurs twice", name)
	}
	*s |= member
	return nil
}

// readList records the positions of a list that agents resend, without scanning it twice. It reports whether the member
// is one.
func (e *Envelope) readList(m *scan.Members, pieces *pieceReader) bool {
	var list *[]Span
	switch string(m.Key) {
	case "messages", "input", "contents":
		list = &e.Items
	case "system", "instructions", "systemInstruction", "system_instruction":
		list = &e.Opening
	case "tools":
		list = &e.Tools
	default:
		return false
	}
	from := len(e.blocks)
	if pieces == nil {
		if !m.Elements(func(start, end int) { e.blocks = append(e.blocks, Span{Start: start, End: end}) }) {
			e.readOne(m)
		}
	} else {
		pieces.list(m.Key)
		isList := m.Walk(func(start int) int {
			end := pieces.end(start)
			if end > start {
				e.blocks = append(e.blocks, Span{Start: start, End: end})
			}
			return end
		})
		if !isList && e.readOne(m) {
			pieces.whole(e.blocks[from].Start, e.blocks[from].End)
		}
	}
	if read := e.blocks[from:len(e.blocks):len(e.blocks)]; len(*list) == 0 {
		*list = read
	} else {
		*list = append(*list, read...) // a duplicate member
	}
	return true
}

// readOne records the position of a string or an object in the place of a list.
func (e *Envelope) readOne(m *scan.Members) bool {
	if !m.Skip() || !scan.IsString(m.Value) && !scan.IsObject(m.Value) {
		return false
	}
	e.blocks = append(e.blocks, Span{Start: m.End - len(m.Value), End: m.End})
	return true
}

// gatewayModels reports whether provider options name models for a gateway. A duplicate member counts both times, since
// hosts differ in which one they read.
func gatewayModels(options []byte) bool {
	for provider := scan.Object(options); provider.Next(); {
		if string(provider.Key) != "gateway" {
			continue
		}
		for option := scan.Object(provider.Value); option.Next(); {
			if string(option.Key) == "models" && !scan.IsNull(option.Value) {
				return true
			}
		}
	}
	return false
}

// readMember reads one member; ours reports whether it must not go upstream.
func (e *Envelope) readMember(m *scan.Members, seen *memberSet) (ours bool, err error) {
	switch string(m.Key) {
	case "models", "fallbacks", "context_window_fallbacks", "content_policy_fallbacks", "context_window_fallback_dict", "route", "preset":
		if !scan.IsNull(m.Value) {
			e.OtherModels = string(m.Key)
		}
	case "providerOptions":
		if gatewayModels(m.Value) {
			e.OtherModels = "providerOptions.gateway.models"
		}
	case "model":
		if err = seen.once(seenModel, "model"); err != nil {
			return false, err
		}
		if !scan.IsString(m.Value) {
			return false, Invalid("model", "model must be a string")
		}
		name := scan.String(m.Value)
		if e.addressed {
			return true, e.sameModel("model", name) // the path says it, also when another model is asked for
		}
		e.Model, e.model = name, Span{Start: m.End - len(m.Value), End: m.End}
	case "stream":
		if e.addressed {
			return false, nil
		}
		if err = seen.once(seenStream, "stream"); err != nil {
			return false, err
		}
		e.Stream = scan.IsTrue(m.Value)
		if e.usage == (Span{}) && *seen&seenStreamOptions == 0 {
			e.usage = Span{Start: m.End, End: m.End}
		}
		if !e.Stream && !scan.IsFalse(m.Value) && !scan.IsNull(m.Value) {
			return false, Invalid("stream", "stream must be true or false")
		}
	case memberChatKey:
		if err = seen.once(seenChatKey, memberChatKey); err == nil {
			e.ChatKey, err = continuityMember(memberChatKey, m.Value)
		}
		return true, err
	case memberExternalSession:
		if err = seen.once(seenExternalSession, memberExternalSession); err == nil {
			e.ExternalSession, err = continuityMember(memberExternalSession, m.Value)
		}
		return true, err
	case "stream_options":
		*seen |= seenStreamOptions
		e.usage = Span{}
		if !scan.IsTrue(scan.Get(m.Value, "include_usage")) {
			e.usage = Span{Start: m.End - len(m.Value), End: m.End}
		}
	case "previous_response_id":
		e.PreviousResponse = scan.String(m.Value)
	case "conversation":
		if e.Conversation = scan.String(m.Value); e.Conversation == "" {
			e.Conversation = scan.String(scan.Get(m.Value, "id"))
		}
	case "prompt_cache_key":
		e.PromptCacheKey = scan.String(m.Value)
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		if n, ok := scan.Int(m.Value); ok {
			e.MaxTokens = max(e.MaxTokens, n)
		}
	case "generateContentRequest", "generate_content_request":
		return false, e.readInner(m)
	case "generationConfig", "generation_config":
		e.readGeneration(m.Value)
	case "n":
		if n, ok := scan.Int(m.Value); ok {
			e.Choices = max(e.Choices, n)
		}
	case "background":
		e.Background = scan.IsTrue(m.Value)
		return e.Background, nil
	case "store":
		e.StoreOff = scan.IsFalse(m.Value)
	case "metadata":
		e.Metadata = Span{Start: m.End - len(m.Value), End: m.End}
	case "client_metadata":
		e.ClientMetadata = Span{Start: m.End - len(m.Value), End: m.End}
	}
	return false, nil
}

// sameModel refuses a body that names another model than the path.
func (e *Envelope) sameModel(member, name string) error {
	if strings.TrimPrefix(name, "models/") != e.Model {
		return Invalid(member, "the body names another model than the path")
	}
	return nil
}

// readInner reads the model of a request within a request to count its tokens. It has to be that of the path there too.
func (e *Envelope) readInner(outer *scan.Members) error {
	from := outer.End - len(outer.Value)
	for m := scan.Object(outer.Value); e.addressed && m.Next(); {
		if string(m.Key) == "model" && scan.IsString(m.Value) {
			e.model = Span{Start: from + m.End - len(m.Value), End: from + m.End}
			return e.sameModel("generateContentRequest.model", scan.String(m.Value))
		}
	}
	return nil
}

// readGeneration reads the limits on an answer that some surfaces keep in an object of their own.
func (e *Envelope) readGeneration(config []byte) {
	for m := scan.Object(config); m.Next(); {
		n, _ := scan.Int(m.Value)
		switch string(m.Key) {
		case "maxOutputTokens", "max_output_tokens":
			e.MaxTokens = max(e.MaxTokens, n)
		case "candidateCount", "candidate_count":
			e.Choices = max(e.Choices, n)
		}
	}
}

func continuityMember(name string, value []byte) (string, error) {
	if scan.IsNull(value) {
		return "", nil
	}
	if !scan.IsString(value) {
		return "", Invalid(name, "%s must be a string", name)
	}
	text := scan.String(value)
	return text, CheckContinuity(name, text)
}

// CheckContinuity returns an error unless a chat key or external session id may be kept; name is that of the member or
// header.
func CheckContinuity(name, text string) error {
	if len(text) > maxContinuity {
		return Invalid(name, "%s has %d bytes; at most %d are kept", name, len(text), maxContinuity)
	}
	for i := 0; i < len(text); i++ {
		if text[i] < 0x20 || text[i] == 0x7f {
			return Invalid(name, "%s holds a control character", name)
		}
	}
	return nil
}

// cutter computes which bytes to leave out so that the object stays well-formed: a member goes with the comma before
// it, or, if nothing is kept yet, with everything up to the next member.
type cutter struct {
	kept    bool
	open    bool // a cut waits for the start of the next member
	start   int
	lastEnd int
}

func (c *cutter) pass(cuts []Span, m *scan.Members, ours bool) []Span {
	switch {
	case ours && c.kept:
		cuts = append(cuts, Span{Start: c.lastEnd, End: m.End})
	case ours && !c.open:
		c.open, c.start = true, m.Start
	case !ours:
		if c.open {
			cuts = append(cuts, Span{Start: c.start, End: m.Start})
			c.open = false
		}
		c.kept = true
	}
	c.lastEnd = m.End
	return cuts
}

func (c *cutter) end(cuts []Span) []Span {
	if c.open {
		cuts = append(cuts, Span{Start: c.start, End: c.lastEnd})
	}
	return cuts
}

// Untouched reports whether [Envelope.Splice] would return the body itself.
func (e *Envelope) Untouched(model string) bool {
	return len(e.cuts) == 0 && !e.renames(model) && !e.askUsage
}

// renames reports whether the body names a model that is not the one to be asked for.
func (e *Envelope) renames(model string) bool {
	return model != e.Model && e.model != (Span{})
}

// AskForUsage sets whether Splice asks a host of the chat format for token counts at the end of a stream. It reports
// whether Splice does: the client may have asked itself, or wants no stream.
func (e *Envelope) AskForUsage(ask bool) bool {
	e.askUsage = ask && e.Stream && e.usage != (Span{})
	return e.askUsage
}

// edit replaces a range in Splice.
type edit struct {
	Span
	with []byte
}

// Splice appends the body as it goes upstream in the client's own format: without our members, with model replacing the
// client's model, and asking for usage if that was wanted. Every other byte is the client's. If nothing changes, it
// returns body and leaves dst alone.
func (e *Envelope) Splice(dst, body []byte, model string) []byte {
	if e.Untouched(model) {
		return body
	}
	var edits []edit
	if e.renames(model) {
		if e.addressed {
			model = "models/" + model
		}
		edits = append(edits, edit{e.model, scan.Quote(nil, model)})
	}
	if e.askUsage {
		edits = append(edits, edit{e.usage, usageAsked(body, e.usage)})
	}
	for _, cut := range e.cuts {
		edits = append(edits, edit{Span: cut})
	}
	slices.SortStableFunc(edits, func(a, b edit) int { return cmp.Compare(a.Start, b.Start) })
	at := 0
	for _, edit := range edits {
		dst = append(append(dst, body[at:edit.Start]...), edit.with...)
		at = edit.End
	}
	return append(dst, body[at:]...)
}

// usageAsked returns the text that asks for usage in place of a range: the empty range after the member stream, or the
// value of stream_options.
func usageAsked(body []byte, at Span) []byte {
	const asked = `"include_usage":true`
	if at.Start == at.End {
		return []byte(`,"stream_options":{` + asked + `}`)
	}
	options := []byte(`{` + asked)
	for m := scan.Object(at.Of(body)); m.Next(); {
		if string(m.Key) != "include_usage" {
			options = append(append(options, ','), at.Of(body)[m.Start:m.End]...)
		}
	}
	return append(options, '}')
}

// Blocks appends the positions of everything that agents send again every turn (opening text, items, tools), in body
// order and without overlap: where a store may cut the body to keep each block once.
func (e *Envelope) Blocks(dst []Span) []Span { return append(dst, e.blocks...) }
