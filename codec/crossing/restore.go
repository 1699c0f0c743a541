package crossing

import (
	"crypto/sha256"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// restorer undoes in the answer what the adaptation did to the request. Its parts handle names and ids of calls, proofs
// of reasoning, stop sequences that the provider does not support, and characters split over two deltas.
type restorer struct {
	surface *codec.Traits
	notes   *codec.Notes // what was done to the request and the answer
	infers  bool         // the provider may leave open why it stopped, which is then inferred

	back    wayBack
	calls   callRestorer
	proofs  proofs
	order   order
	stops   stopScanner
	pairs   surrogatePairs
	stopped bool // a stop sequence has matched

	items []item // by the provider's ordinal
	next  int32  // ordinal for the client's next item
	out   eventBuffer
}

// item is the state of one content item of the answer.
type item struct {
	ordinal   int32 // for the client
	kind      codec.ItemType
	json      bool   // a call that is the answer
	omitted   string // the class of media that the client's format cannot carry, such as image; "" for none
	proved    bool   // a call that began with its proof
	arguments codec.ArgumentDepth
	said      textHash // of a text under which the ledger keeps its proof
	unwrap    *unwrapper
	callID    []byte // as the client saw it
	signature []byte
	family    codec.Family
}

// eventBuffer has the events of one frame, and the bytes that they point to.
type eventBuffer struct {
	events []codec.Event
	bytes  []byte
}

func (b *eventBuffer) reset() { b.events, b.bytes = b.events[:0], b.bytes[:0] }

func (b *eventBuffer) add(events ...codec.Event) { b.events = append(b.events, events...) }

// since returns the bytes written after from, for an event: later writes do not reach into them.
func (b *eventBuffer) since(from int) []byte { return b.bytes[from:len(b.bytes):len(b.bytes)] }

// addSince adds a delta of the bytes written after from, if there are any.
func (b *eventBuffer) addSince(from int, kind codec.EventKind, ordinal int32) {
	if given := b.since(from); len(given) > 0 {
		b.add(codec.Event{Kind: kind, Item: ordinal, Raw: given})
	}
}

// prepare prepares r for one exchange.
func (r *restorer) prepare(a *adaptation) {
	*r = restorer{
		surface: a.from,
		notes:   &a.r.Notes,
		infers:  a.to.Stream.SilentFinish,
		back:    wayBack{names: nameMap{qualified: make(map[string]original)}, wrapped: make(map[string]bool)},
		calls:   callRestorer{surface: a.from, back: &r.back, seed: conversationHash(a.r, a.memory.Account), past: callIDs(a.r)},
		proofs:  proofs{thoughts: thoughts{Memory: a.memory}, surface: a.from, model: statetoken.Hash(a.target.Model), host: hostHash(a.target)},
	}
}

// conversationHash identifies a conversation at its present point: a repeated request gets the same ids, the next turn
// gets others.
func conversationHash(r *codec.Request, account string) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte(account))
	h.Write([]byte(r.Model))
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			p := &r.Messages[i].Parts[j]
			h.Write([]byte{byte(p.Kind)})
			h.Write(p.CallID)
			if i == len(r.Messages)-1 || p.Kind == codec.PartToolCall {
				h.Write(p.Text)
				h.Write(p.Arguments)
			}
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// restore rewrites the events of one frame, which it may change. The result is valid until the next call.
func (r *restorer) restore(events []codec.Event) []codec.Event {
	if r.stopped {
		return nil
	}
	if len(events) == 1 && r.passes(&events[0]) {
		return events
	}
	r.out.reset()
	for i := range events {
		ev := &events[i]
		switch ev.Kind {
		case codec.EventItemOpen:
			r.open(ev, events[i+1:])
		case codec.EventText, codec.EventReasoning, codec.EventRefusal, codec.EventArguments, codec.EventCustomInput:
			if r.pairs.join(ev, &r.out) {
				r.delta(ev)
			}
		case codec.EventAnnotation:
			r.pass(ev)
		case codec.EventSignature:
			r.signature(ev)
		case codec.EventItemClose:
			r.close(ev)
		case codec.EventFinish:
			r.finish(ev)
		case codec.EventEnd:
			r.releaseAll()
			r.out.add(*ev)
		default:
			r.out.add(*ev)
		}
		if r.stopped {
			r.endEarly(events[i+1:])
			break
		}
	}
	return r.out.events
}

// passes reports whether the only event of a frame is a piece of text in which nothing is searched for, as most are. Such
// an event is renumbered in place.
func (r *restorer) passes(ev *codec.Event) bool {
	it := r.item(ev.Item)
	if ev.Kind != codec.EventText || it == nil || len(r.back.stops) > 0 || r.pairs.waits || endsInHalf(ev.Raw) {
		return false
	}
	r.proofs.hear(it, ev.Raw)
	ev.Item = it.ordinal
	return true
}

// delta passes on a piece of an item.
func (r *restorer) delta(ev *codec.Event) {
	switch ev.Kind {
	case codec.EventText:
		r.text(ev)
	case codec.EventReasoning:
		r.reasoning(ev)
	case codec.EventArguments:
		r.arguments(ev)
	default:
		r.pass(ev)
	}
}

// pass renumbers an event of an item.
func (r *restorer) pass(ev *codec.Event) {
	if it := r.item(ev.Item); it != nil {
		r.out.events = append(r.out.events, *ev)
		r.out.events[len(r.out.events)-1].Item = it.ordinal
	}
}

func (r *restorer) item(ordinal int32) *item {
	if ordinal < 0 || int(ordinal) >= len(r.items) {
		return nil
	}
	return &r.items[ordinal]
}

// number assigns the client's next ordinal.
func (r *restorer) number() int32 {
	r.next++
	return r.next - 1
}

func (r *restorer) open(ev *codec.Event, rest []codec.Event) {
	if int(ev.Item) != len(r.items) {
		return // not dense: ignored
	}
	opened := *ev
	it := item{kind: ev.Type}
	switch {
	case ev.Type == codec.ItemImage && r.surface.Client.Pictures:
		r.notes.Emulate("answer.image")
	case ev.Type == codec.ItemImage, ev.Type == codec.ItemOpaque && len(ev.Name) > 0:
		r.omit(&opened, &it)
	case ev.Type == codec.ItemOpaque:
		r.notes.Drop("answer.content")
	}
	if ev.Type == codec.ItemToolCall || ev.Type == codec.ItemCustomCall {
		r.calls.open(&opened, &it)
		r.proveAhead(&opened, &it, ev.Item, rest)
	}
	if r.surface.Client.Flat {
		r.order.open(&it, &r.proofs.Memory)
	}
	it.ordinal = r.number()
	opened.Item = it.ordinal
	r.items = append(r.items, it)
	r.out.add(opened)
}

// omit writes words in place of media that the client's format cannot carry, so that paid output does not vanish
// silently.
func (r *restorer) omit(opened *codec.Event, it *item) {
	class, _, _ := strings.Cut(string(opened.Name), "/")
	r.notes.Drop("answer." + class)
	it.omitted = class
	opened.Type, opened.Name, opened.Origin = codec.ItemText, nil, codec.FormatUnknown
}

// proveAhead gives the client the proof of a call before the call begins: with it in chat, which has a member for it
// that clients read only there, else in a reasoning item before it. The proof arrives with the call: providers that
// have such proofs send calls whole.
func (r *restorer) proveAhead(opened *codec.Event, it *item, ordinal int32, rest []codec.Event) {
	for i := range rest {
		ev := &rest[i]
		if ev.Kind == codec.EventSignature && ev.Item == ordinal {
			if r.surface.Client.SignedCalls {
				if !it.json {
					opened.Raw, opened.Family, it.proved = ev.Raw, ev.Family, true
				}
				return
			}
			r.carry(&statetoken.Token{Family: ev.Family, Kind: statetoken.Call, Model: r.proofs.source(ev.Family), Raw: ev.Raw})
			return
		}
		if ev.Kind == codec.EventItemOpen {
			return
		}
	}
}

// carry emits an empty reasoning item that holds only state.
func (r *restorer) carry(c *statetoken.Token) {
	ordinal := r.number()
	r.out.add(
		codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemReasoning, Item: ordinal},
		codec.Event{Kind: codec.EventSignature, Item: ordinal, Family: c.Family, Raw: r.proofs.seal(c, &r.out)},
		codec.Event{Kind: codec.EventItemClose, Type: codec.ItemReasoning, Item: ordinal},
	)
}

func (r *restorer) text(ev *codec.Event) {
	it := r.item(ev.Item)
	if it == nil {
		return
	}
	r.proofs.hear(it, ev.Raw)
	if len(r.back.stops) == 0 {
		r.pass(ev)
		return
	}
	r.stops.stops, r.stops.item = r.back.stops, ev.Item
	from := len(r.out.bytes)
	var matched []byte
	r.out.bytes, matched = r.stops.pass(r.out.bytes, ev.Raw)
	r.out.addSince(from, codec.EventText, it.ordinal)
	if matched == nil {
		return
	}
	r.stopped = true
	r.out.add(
		codec.Event{Kind: codec.EventItemClose, Type: it.kind, Item: it.ordinal},
		codec.Event{Kind: codec.EventFinish, Finish: codec.FinishStopSequence, Raw: matched},
	)
}

// endEarly ends an answer whose stop sequence has matched. What the model continues to say was not requested; its usage
// is used if it is already known, else estimated.
func (r *restorer) endEarly(rest []codec.Event) {
	for i := range rest {
		if rest[i].Kind == codec.EventUsage {
			r.out.add(rest[i])
		}
	}
	r.out.add(codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
}

// release emits text that was held back for a stop sequence that did not come.
func (r *restorer) release(it *item) {
	if it.kind != codec.ItemText {
		return
	}
	from := len(r.out.bytes)
	r.out.bytes = append(r.out.bytes, r.stops.held...)
	r.stops.held = r.stops.held[:0]
	r.out.addSince(from, codec.EventText, it.ordinal)
}

// releaseAll emits what is held for items that were never closed.
func (r *restorer) releaseAll() {
	r.releaseHalf(r.pairs.event.Item)
	if it := r.item(r.stops.item); it != nil {
		r.release(it)
	}
}

func (r *restorer) reasoning(ev *codec.Event) {
	r.proofs.addThought(ev.Raw)
	r.pass(ev)
}

func (r *restorer) arguments(ev *codec.Event) {
	it := r.item(ev.Item)
	if it == nil {
		return
	}
	if r.infers {
		it.arguments.Feed(ev.Raw)
	}
	switch {
	case it.json:
		// Arguments are JSON text inside a string body, and so is text that is JSON: the bytes are the same.
		r.out.add(codec.Event{Kind: codec.EventText, Item: it.ordinal, Raw: ev.Raw})
	case it.unwrap != nil:
		from := len(r.out.bytes)
		r.out.bytes = it.unwrap.pass(r.out.bytes, ev.Raw)
		r.out.addSince(from, codec.EventCustomInput, it.ordinal)
	default:
		r.pass(ev)
	}
}

// signature keeps the proof of an item until the item is complete. A call's proof has already been sent; a text's proof
// goes only to the ledger, because a reasoning item after the text makes Claude Code print nothing (observed with
// 2.1.197).
func (r *restorer) signature(ev *codec.Event) {
	it := r.item(ev.Item)
	if it == nil {
		return
	}
	if isCallItem(it.kind) {
		r.proofs.keep(ledgerCall, it.callID, ev.Raw)
		if r.surface.Client.SignedCalls && !it.proved {
			r.pass(ev)
		}
		return
	}
	it.signature = append(it.signature, ev.Raw...)
	it.family = ev.Family
}

func isCallItem(kind codec.ItemType) bool {
	return kind == codec.ItemToolCall || kind == codec.ItemCustomCall
}

func (r *restorer) close(ev *codec.Event) {
	it := r.item(ev.Item)
	if it == nil {
		return
	}
	r.releaseHalf(ev.Item)
	r.release(it)
	if it.unwrap != nil {
		r.closeWrapped(it)
	}
	if token, ok := r.proofs.of(it); ok {
		r.out.add(codec.Event{Kind: codec.EventSignature, Item: it.ordinal, Family: it.family, Raw: r.proofs.seal(&token, &r.out)})
	}
	r.proofs.remember(it)
	r.order.close(it)
	closed := *ev
	closed.Item = it.ordinal
	if it.omitted != "" {
		from := len(r.out.bytes)
		r.out.bytes = append(append(append(r.out.bytes, '['), it.omitted...), " omitted]"...)
		r.out.addSince(from, codec.EventText, it.ordinal)
		closed.Type, closed.Raw = codec.ItemText, nil
	}
	if it.json {
		closed.Type = codec.ItemText
	}
	if it.unwrap != nil {
		closed.Type, closed.Raw = codec.ItemCustomCall, nil
	}
	r.out.add(closed)
}

// releaseHalf emits half a character of an item whose other half did not come.
func (r *restorer) releaseHalf(item int32) {
	if ev, ok := r.pairs.release(item, &r.out); ok {
		r.delta(&ev)
	}
}

// closeWrapped emits what the unwrapping still holds.
func (r *restorer) closeWrapped(it *item) {
	from := len(r.out.bytes)
	r.out.bytes = it.unwrap.end(r.out.bytes)
	r.out.addSince(from, codec.EventCustomInput, it.ordinal)
}

// finish corrects the reason: an answer that was requested as a call is not a call, and neither is a call that the
// client cannot see.
func (r *restorer) finish(ev *codec.Event) {
	r.releaseAll()
	finished := *ev
	if finished.Finish == codec.FinishUnknown {
		finished.Finish = r.inferredFinish()
	}
	if finished.Finish == codec.FinishFilter && r.infers && r.showsCalls() && !r.cutOff() {
		finished.Finish = codec.FinishToolCalls
	}
	if finished.Finish == codec.FinishToolCalls && !r.showsCalls() {
		finished.Finish = codec.FinishEnd
	}
	r.out.add(finished)
}

// inferredFinish returns why a provider stopped that did not say so.
func (r *restorer) inferredFinish() codec.FinishReason {
	if r.cutOff() {
		return codec.FinishLength
	}
	return codec.FinishToolCalls
}

// cutOff reports whether a call may be incomplete: its arguments are (P96), or its input is free text, which does not
// tell.
func (r *restorer) cutOff() bool {
	for i := range r.items {
		if it := &r.items[i]; it.arguments.Broken() || it.kind == codec.ItemCustomCall {
			return true
		}
	}
	return false
}

func (r *restorer) showsCalls() bool {
	for i := range r.items {
		if isCallItem(r.items[i].kind) && !r.items[i].json {
			return true
		}
	}
	return false
}

// callRestorer gives calls the client's names and ids that the client accepts.
type callRestorer struct {
	surface *codec.Traits
	back    *wayBack
	seed    [sha256.Size]byte // of generated ids: the conversation so far
	calls   int
	past    [][]byte        // ids of the calls in the request
	taken   map[string]bool // those ids and the ones of this answer; nil before its first call
}

// callIDs returns the ids of the calls in the history, as the client sent them.
func callIDs(r *codec.Request) (ids [][]byte) {
	for i := range r.Messages {
		for j := range r.Messages[i].Parts {
			if p := &r.Messages[i].Parts[j]; isCall(p) {
				ids = append(ids, p.CallID)
			}
		}
	}
	return ids
}

// unnamed replaces the tool name of a call whose name never came. The client has no such tool, says so in the result,
// and the model can call again; an empty name would be refused when the history is sent back.
const unnamed = "unnamed"

// open gives a call the client's name for the tool, and an id that the client accepts.
func (c *callRestorer) open(ev *codec.Event, it *item) {
	c.calls++
	if len(ev.Name) == 0 {
		ev.Name = []byte(unnamed)
	}
	name := string(ev.Name)
	switch back, known := c.back.names.original[name]; {
	case c.back.jsonTool != "" && name == c.back.jsonTool:
		it.json = true
		*ev = codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemText}
		return
	case known:
		if back.namespace != nil {
			ev.Namespace = back.namespace
		}
		ev.Name = back.name
		if c.back.wrapped[string(back.flat)] {
			ev.Type = codec.ItemCustomCall
			it.unwrap = new(unwrapper)
		}
	}
	if c.repeats(ev.CallID) || !legalID(c.surface.CallID, ev.CallID) {
		ev.CallID = c.makeID(ev.CallID)
	}
	it.callID = clone(ev.CallID)
	c.taken[view(it.callID)] = true
}

// repeats reports whether the conversation already has a call with that id: some hosts number the calls of each answer
// from 0, or give parallel calls one id.
func (c *callRestorer) repeats(id []byte) bool {
	if c.taken == nil {
		c.taken = make(map[string]bool, len(c.past)+1)
		for _, past := range c.past {
			c.taken[view(past)] = true
		}
	}
	return c.taken[string(id)]
}

// makeID returns an id in the client's style: the same one if the same request is sent again.
func (c *callRestorer) makeID(id []byte) []byte {
	h := sha256.New()
	h.Write(c.seed[:])
	h.Write([]byte(itoa(c.calls)))
	h.Write(id)
	return []byte(c.surface.CallPrefix + base62([sha256.Size]byte(h.Sum(nil)), 24))
}

// proofs keeps proofs of reasoning: in tokens that the client carries, and in the ledger.
type proofs struct {
	thoughts
	surface *codec.Traits
	model   [4]byte // hash of the target's
	host    [4]byte // hash of the provider and the target's model
	plain   []byte  // a piece of text without its escapes
}

// hostHash identifies a provider with one of its models.
func hostHash(t *codec.Target) [4]byte { return statetoken.Hash(t.Provider + "/" + t.Model) }

// source returns the hash of the model, or the host and the model, that a family's state is bound to.
func (p *proofs) source(family codec.Family) [4]byte {
	if family == codec.FamilyDetails {
		return p.host
	}
	return p.model
}

// seal writes a token into the buffer.
func (p *proofs) seal(token *statetoken.Token, out *eventBuffer) []byte {
	from := len(out.bytes)
	out.bytes = token.Append(out.bytes, p.Account)
	return out.since(from)
}

// of returns the token that signs a reasoning item. Text without a proof gets an empty one if the client's format has a
// slot for it, to distinguish it from text of the slot's own provider, which would refuse it (see [CleanHistory]).
func (p *proofs) of(it *item) (token statetoken.Token, ok bool) {
	token = statetoken.Token{Family: it.family, Kind: statetoken.Reasoning, Model: p.source(it.family), Raw: it.signature}
	if len(it.signature) == 0 {
		token.Family = p.Family
	}
	switch {
	case it.kind == codec.ItemRedacted:
		token.Kind = statetoken.Redacted
	case it.kind != codec.ItemReasoning, len(it.signature) == 0 && !p.surface.Client.SignedReasoning:
		return token, false
	}
	return token, true
}

// hear hashes a text whose proof is kept under its hash.
func (p *proofs) hear(it *item, text []byte) {
	if p.Ledger != nil && p.Family == codec.FamilyGoogle {
		p.plain = it.said.write(p.plain, text)
	}
}

// remember keeps for a complete item what its client would lose.
func (p *proofs) remember(it *item) {
	if it.kind == codec.ItemText && len(it.signature) > 0 {
		p.keep(ledgerText, it.said.id(), it.signature)
	}
	if isCallItem(it.kind) {
		p.keepThought(it.callID)
	}
}
