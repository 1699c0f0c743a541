package gemini

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// Bounds on what an encoder keeps of an answer: bytes of calls that are not complete, items, and bytes of sources. They are far above
// what a model can produce; a provider that exceeds them is broken.
const (
	maxWaiting = 32 << 20
	maxItems   = 1 << 16
	maxSources = 1 << 20
)

func (c *client) NewEncoder(o *codec.AnswerOptions) codec.StreamEncoder {
	e := &encoder{answer: answer{o: o}}
	e.tail = append(appendNames(e.tail, o), "}\n\n"...)
	return e
}

// encoder writes one stream: a frame for each piece of text, one for each call when its arguments are complete, and a last
// one that says why the model stopped and what it used. Frames have no names, and no event ends the stream.
type encoder struct {
	answer
	tail  []byte // of every frame but the last
	items []streamed
	head  int32 // of the items: those before it are written
	waits int   // bytes of arguments
	done  bool
}

// streamed is one item of the answer. Only calls are kept: clients get them whole.
type streamed struct {
	kind      codec.ItemType
	closed    bool
	sub       int32
	spoke     bool // reasoning: it has text, so that the next part needs a separator
	callID    []byte
	name      []byte
	arguments []byte
	depth     codec.ArgumentDepth
	signature []byte // of a call
}

// Next implements [codec.StreamEncoder]: these frames have no numbers.
func (e *encoder) Next() int64 { return 0 }

func (e *encoder) Append(dst []byte, ev *codec.Event) []byte {
	if e.done {
		return dst
	}
	switch ev.Kind {
	case codec.EventStart:
		if !ev.Usage.IsZero() {
			e.usage, e.counted = ev.Usage, true
		}
	case codec.EventItemOpen:
		return e.open(dst, ev)
	case codec.EventText, codec.EventRefusal, codec.EventReasoning:
		return e.text(dst, ev)
	case codec.EventArguments, codec.EventCustomInput:
		return e.argument(dst, ev)
	case codec.EventSignature:
		return e.signed(dst, ev)
	case codec.EventAnnotation:
		e.cite(ev.Raw)
	case codec.EventItemClose:
		return e.close(dst, ev)
	case codec.EventFinish:
		e.finish = ev.Finish
	case codec.EventUsage:
		e.usage, e.counted = ev.Usage, true
	case codec.EventError:
		return e.fail(dst, ev.Err)
	case codec.EventEnd:
		return e.end(dst, ev.End)
	}
	return dst
}

func (e *encoder) item(ordinal int32) *streamed {
	if ordinal < 0 || int(ordinal) >= len(e.items) || e.items[ordinal].closed {
		return nil
	}
	return &e.items[ordinal]
}

func (e *encoder) open(dst []byte, ev *codec.Event) []byte {
	switch {
	case int(ev.Item) != len(e.items):
		return dst
	case len(e.items) == maxItems:
		return e.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer has more than %d parts", maxItems))
	}
	it := streamed{kind: ev.Type}
	if isCall(ev.Type) {
		it.callID, it.name = append(it.callID, ev.CallID...), append(it.name, ev.Name...)
		it.signature = append(it.signature, ev.Raw...)
	} else if ev.Type == codec.ItemImage {
		it.name = append(it.name, ev.Name...)
	}
	e.items = append(e.items, it)
	return dst
}

func isCall(t codec.ItemType) bool { return t == codec.ItemToolCall || t == codec.ItemCustomCall }

const (
	frameStart   = `data: {"candidates":[{"content":{"parts":[`
	contentEnd   = `],"role":"model"}`
	candidateEnd = contentEnd + `,"index":0}]`
)

// text writes a piece of text or of a thought.
func (e *encoder) text(dst []byte, ev *codec.Event) []byte {
	it := e.item(ev.Item)
	if it == nil || len(ev.Raw) == 0 || isCall(it.kind) {
		return dst
	}
	e.written += int64(len(ev.Raw))
	e.refused = e.refused || it.kind == codec.ItemRefusal
	if it.kind != codec.ItemReasoning {
		dst = append(append(append(dst, frameStart+`{"text":"`...), ev.Raw...), '"')
		return e.endFrame(append(e.appendPending(dst), '}'))
	}
	if !e.o.ShowReasoning {
		return dst
	}
	dst = append(dst, frameStart+`{"text":"`...)
	if it.spoke && ev.Sub != it.sub {
		dst = append(dst, `\n\n`...)
	}
	it.spoke, it.sub = true, ev.Sub
	return e.endFrame(append(append(dst, ev.Raw...), `","thought":true}`...))
}

func (e *encoder) endFrame(dst []byte) []byte {
	return append(append(dst, candidateEnd...), e.tail...)
}

func (e *encoder) argument(dst []byte, ev *codec.Event) []byte {
	it := e.item(ev.Item)
	if it == nil || !isCall(it.kind) {
		return dst
	}
	e.written += int64(len(ev.Raw))
	it.arguments = append(it.arguments, ev.Raw...)
	if it.kind == codec.ItemToolCall {
		it.depth.Feed(ev.Raw)
	}
	if e.waits += len(ev.Raw); e.waits > maxWaiting {
		return e.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's calls of tools have more than %d bytes", maxWaiting))
	}
	return dst
}

// signed keeps the proof of reasoning for the part that follows it, and that of a call with the call.
func (e *encoder) signed(dst []byte, ev *codec.Event) []byte {
	it := e.item(ev.Item)
	switch {
	case it == nil:
	case isCall(it.kind):
		it.signature = append(it.signature[:0], ev.Raw...)
	case len(e.pending) > 0: // another one comes before anything that can carry the first
		dst = e.appendThought(append(dst, frameStart...))
		dst = e.endFrame(dst)
		fallthrough
	default:
		e.pending = append(e.pending[:0], ev.Raw...)
	}
	return dst
}

func (e *encoder) close(dst []byte, ev *codec.Event) []byte {
	it := e.item(ev.Item)
	if it == nil {
		return dst
	}
	it.closed = true
	switch it.kind {
	case codec.ItemImage:
		dst = e.endFrame(appendPicture(append(dst, frameStart...), it.name, ev.Raw))
	case codec.ItemServerTool, codec.ItemOpaque:
		if ev.Origin == codec.Gemini && scan.IsObject(ev.Raw) {
			dst = e.endFrame(append(append(dst, frameStart...), ev.Raw...))
		}
	}
	return e.flush(dst)
}

// flush writes the calls that are complete, up to the first that is not: clients take their order for that of the results.
// Whether a call was cut off is known at the end.
func (e *encoder) flush(dst []byte) []byte {
	for ; int(e.head) < len(e.items); e.head++ {
		it := &e.items[e.head]
		switch {
		case !isCall(it.kind):
		case !it.closed, it.depth.Broken() && !e.done:
			return dst
		case it.depth.Broken() && e.stoppedShort():
		default:
			dst = e.endFrame(e.appendCall(append(dst, frameStart...), &codec.Item{
				Type: it.kind, CallID: it.callID, Name: it.name, Text: it.arguments, Signature: it.signature, Family: codec.FamilyGoogle,
			}, int(e.head)))
			e.waits -= len(it.arguments)
			it.arguments = nil
		}
	}
	return dst
}

// end writes the last frame. An end that is not the provider's own becomes an error, because an answer that broke off must
// not look finished.
func (e *encoder) end(dst []byte, how codec.End) []byte {
	if how != codec.EndTerminal {
		return e.fail(dst, codec.Errorf(codec.KindUpstream, "the provider's answer broke off before its end"))
	}
	for i := range e.items {
		e.items[i].closed = true
	}
	e.done = true
	dst = e.flush(dst)
	dst = append(e.appendPending(append(dst, frameStart+`{"text":""`...)), '}')
	dst = e.appendFinish(append(dst, contentEnd...))
	return append(appendNames(dst, e.o), "}\n\n"...)
}

// fail ends the stream with an error in a frame, as the API does.
func (e *encoder) fail(dst []byte, err *codec.Error) []byte {
	if err == nil {
		err = codec.Errorf(codec.KindUpstream, "the provider reported an error without details")
	}
	e.done = true
	return append(appendError(append(dst, "data: "...), err), "\n\n"...)
}

// answer is what a stream and a complete answer have in common.
type answer struct {
	o       *codec.AnswerOptions
	pending []byte // the proof of reasoning that waits for the next text or call
	called  bool   // a call has been written
	refused bool   // the model refused in words
	sources []byte // elements of groundingChunks

	finish  codec.FinishReason
	usage   codec.Usage
	counted bool  // the provider reported usage
	written int64 // bytes of the answer
}

// appendNames writes the members that every answer ends with. The id is the exchange's, without its prefix.
func appendNames(dst []byte, o *codec.AnswerOptions) []byte {
	dst = scan.Quote(append(dst, `,"modelVersion":`...), o.Model)
	if o.ID != "" {
		dst = scan.Quote(append(dst, `,"responseId":`...), o.ID)
	}
	return dst
}

// appendPending adds the proof that waits, as the signature of the part that is being written.
func (a *answer) appendPending(dst []byte) []byte {
	if len(a.pending) == 0 {
		return dst
	}
	dst = appendSignature(dst, a.pending)
	a.pending = a.pending[:0]
	return dst
}

func appendSignature(dst, signature []byte) []byte {
	dst = append(dst, `,"thoughtSignature":"`...)
	if statetoken.Is(signature) {
		dst = appendToken(dst, signature)
	} else {
		dst = append(dst, signature...)
	}
	return append(dst, '"')
}

// stoppedShort reports whether the answer may end inside a call. Such a call is not written, because clients run every
// call that they get (docs/wire/translation.md#p96).
func (a *answer) stoppedShort() bool {
	return a.finish == codec.FinishLength || a.finish == codec.FinishContext || a.finish == codec.FinishFilter
}

// appendThought writes an empty thought that has only a proof.
func (a *answer) appendThought(dst []byte) []byte {
	return append(a.appendPending(append(dst, `{"text":"","thought":true`...)), '}')
}

// appendCall writes a whole call. The first call of an answer always has a signature: where there is none, a mark that makes the
// call known as another provider's, because Google refuses calls without one.
func (a *answer) appendCall(dst []byte, it *codec.Item, ordinal int) []byte {
	dst = append(dst, `{"functionCall":{"id":"`...)
	if len(it.CallID) > 0 {
		dst = append(dst, it.CallID...)
	} else {
		dst = strconv.AppendInt(append(append(append(dst, callPrefix...), a.o.ID...), '_'), int64(ordinal), 10)
	}
	dst = append(scan.QuoteBody(append(dst, `","name":`...), it.Name), `,"args":`...)
	if it.Type == codec.ItemCustomCall {
		dst = append(append(append(dst, `{"input":"`...), it.Text...), `"}`...)
	} else {
		dst, _ = codec.AppendArguments(dst, &codec.Part{Arguments: it.Text, ArgumentsEscaped: true})
	}
	dst = append(dst, '}')
	switch {
	case len(a.pending) > 0:
		dst = a.appendPending(dst)
	case len(it.Signature) > 0:
		dst = appendSignature(dst, it.Signature)
	case !a.called:
		dst = appendSignature(dst, foreignCall)
	}
	a.called = true
	return append(dst, '}')
}

// foreignCall is recognized as a state token, and cannot be opened.
var foreignCall = []byte(statetoken.Foreign + "call")

func appendPicture(dst, mediaType, data []byte) []byte {
	dst = append(append(append(dst, `{"inlineData":{"mimeType":"`...), mediaType...), `","data":"`...)
	return append(append(dst, data...), `"}}`...)
}

// cite keeps a source that an answer names.
func (a *answer) cite(raw []byte) {
	var url, title []byte
	if flat := scan.Get(raw, "url_citation"); scan.IsObject(flat) {
		raw = flat
	}
	for m := scan.Object(raw); m.Next(); {
		switch string(m.Key) {
		case "url", "source", "uri":
			url = scan.Body(m.Value)
		case "title":
			title = scan.Body(m.Value)
		}
	}
	if len(url) == 0 || len(a.sources) > maxSources {
		return
	}
	if len(a.sources) > 0 {
		a.sources = append(a.sources, ',')
	}
	a.sources = append(append(append(a.sources, `{"web":{"uri":"`...), url...), `","title":`...)
	a.sources = append(scan.QuoteBody(a.sources, title), `}}`...)
}

// appendFinish ends the candidate, whose content has been written, and adds the counts.
func (a *answer) appendFinish(dst []byte) []byte {
	dst = append(append(append(dst, `,"finishReason":"`...), a.finishName()...), `","index":0`...)
	if len(a.sources) > 0 {
		dst = append(append(append(dst, `,"groundingMetadata":{"groundingChunks":[`...), a.sources...), `]}`...)
	}
	return a.appendUsage(append(dst, `}]`...))
}

// finishName is the API's word. A turn that calls tools ends like any other.
func (a *answer) finishName() string {
	switch a.finish {
	case codec.FinishLength, codec.FinishContext:
		return "MAX_TOKENS"
	case codec.FinishFilter:
		return "SAFETY"
	case codec.FinishMalformedCall:
		return "MALFORMED_FUNCTION_CALL"
	}
	if a.refused && !a.called {
		return "SAFETY"
	}
	return "STOP"
}

// bytesPerToken is the usual rule of thumb.
const bytesPerToken = 4

// appendUsage writes the counts: cached tokens are part of the prompt, thoughts are not part of the candidates.
func (a *answer) appendUsage(dst []byte) []byte {
	u := a.usage
	if !a.counted {
		u = codec.Usage{InputUncached: a.o.EstimatedInput, Output: a.written/bytesPerToken + 1}
	}
	u.Reasoning = min(u.Reasoning, u.Output) // some count it apart, or before the rest
	dst = append(dst, `,"usageMetadata":{"promptTokenCount":`...)
	dst = strconv.AppendInt(dst, u.TotalInput(), 10)
	if u.CacheRead > 0 {
		dst = strconv.AppendInt(append(dst, `,"cachedContentTokenCount":`...), u.CacheRead, 10)
	}
	dst = strconv.AppendInt(append(dst, `,"candidatesTokenCount":`...), u.Output-u.Reasoning, 10)
	if u.Reasoning > 0 {
		dst = strconv.AppendInt(append(dst, `,"thoughtsTokenCount":`...), u.Reasoning, 10)
	}
	dst = strconv.AppendInt(append(dst, `,"totalTokenCount":`...), u.Total(), 10)
	return append(dst, '}')
}
