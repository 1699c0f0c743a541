package crossing

import (
	"crypto/sha256"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// undo takes back in the answer what the requestAdapter did to the request: names, free-text tools, ids that a client cannot
// take, emulated stop sequences and schemas. It also puts foreign reasoning state into tokens, because the client's
// format has a slot for its own family's state only.
type undo struct {
	thoughts
	surface *codec.Traits
	model   string       // of the target
	notes   *codec.Notes // what was done to the request, and what is done to the answer
	infers  bool         // the provider may leave open why it stopped: what it said tells

	names    nameMap
	wrapped  map[string]bool // names of free-text tools that were sent as functions, before they were made legal
	stops    [][]byte
	jsonTool string            // name of the tool that stands for a schema; "" for none
	seed     [sha256.Size]byte // of ids made here: the conversation so far

	items   []item // by the provider's ordinal
	next    int32  // ordinal for the client's next item
	calls   int
	scanner stopScanner
	scanned int32 // the item whose text was scanned last
	half    halfPair
	stopped bool   // a stop sequence has matched
	plain   []byte // a piece of text without its escapes
	out     []codec.Event
	bytes   []byte // what the events of one call point to
}

// item is what has to be remembered of one content item of the answer.
type item struct {
	ordinal   int32 // for the client
	kind      codec.ItemType
	json      bool // a call that is the answer
	omitted   bool // a picture that the client cannot be given
	proved    bool // a call that began with its proof
	arguments codec.ArgumentDepth
	said      textHash // by a text, where the ledger keeps its proof
	unwrap    *unwrapper
	callID    []byte // as the client saw it
	signature []byte
	family    codec.Family
}

// prepare readies u for one exchange.
func (u *undo) prepare(a *requestAdapter) {
	*u = undo{
		thoughts: thoughts{Memory: a.setting.memory()},
		surface:  a.from, model: a.target.Model,
		notes:   &a.r.Notes,
		infers:  a.to.Stream.SilentFinish,
		names:   nameMap{qualified: make(map[string]original)},
		wrapped: make(map[string]bool),
	}
	u.seed = conversationHash(a.r, u.Account)
}

// conversationHash tells conversations apart at the point they have reached: a repeated request makes the same ids, the
// next turn makes others.
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

// restore rewrites the events of one frame. The result is valid until the next call.
func (u *undo) restore(events []codec.Event) []codec.Event {
	if u.stopped {
		return nil
	}
	u.out, u.bytes = u.out[:0], u.bytes[:0]
	for i := range events {
		ev := &events[i]
		switch ev.Kind {
		case codec.EventItemOpen:
			u.open(ev, events[i+1:])
		case codec.EventText, codec.EventReasoning, codec.EventRefusal, codec.EventArguments, codec.EventCustomInput:
			if joined := *ev; u.joinPairs(&joined) {
				u.delta(&joined)
			}
		case codec.EventAnnotation:
			u.pass(ev)
		case codec.EventSignature:
			u.signature(ev)
		case codec.EventItemClose:
			u.close(ev)
		case codec.EventFinish:
			u.finish(ev)
		case codec.EventEnd:
			u.releaseAll()
			u.out = append(u.out, *ev)
		default:
			u.out = append(u.out, *ev)
		}
		if u.stopped {
			u.endEarly(events[i+1:])
			break
		}
	}
	return u.out
}

// delta passes on a piece of an item.
func (u *undo) delta(ev *codec.Event) {
	switch ev.Kind {
	case codec.EventText:
		u.text(ev)
	case codec.EventReasoning:
		u.reasoning(ev)
	case codec.EventArguments:
		u.arguments(ev)
	default:
		u.pass(ev)
	}
}

// pass renumbers an event of an item.
func (u *undo) pass(ev *codec.Event) {
	if it := u.item(ev.Item); it != nil {
		u.out = append(u.out, *ev)
		u.out[len(u.out)-1].Item = it.ordinal
	}
}

func (u *undo) item(ordinal int32) *item {
	if ordinal < 0 || int(ordinal) >= len(u.items) {
		return nil
	}
	return &u.items[ordinal]
}

// number gives out the client's next ordinal.
func (u *undo) number() int32 {
	u.next++
	return u.next - 1
}

func (u *undo) open(ev *codec.Event, rest []codec.Event) {
	if int(ev.Item) != len(u.items) {
		return // not dense: nothing of ours
	}
	opened := *ev
	it := item{kind: ev.Type}
	if ev.Type == codec.ItemImage {
		u.openPicture(&opened, &it)
	}
	if ev.Type == codec.ItemToolCall || ev.Type == codec.ItemCustomCall {
		u.openCall(&opened, &it)
		u.proveAhead(&opened, &it, ev.Item, rest)
	}
	it.ordinal = u.number()
	opened.Item = it.ordinal
	u.items = append(u.items, it)
	u.out = append(u.out, opened)
}

// omitted stands for a picture in an answer to a client whose format has no place for one.
var omitted = []byte("[image omitted]")

// openPicture says what becomes of a picture.
func (u *undo) openPicture(opened *codec.Event, it *item) {
	if u.surface.Client.Pictures {
		u.notes.Emulate("answer.image")
		return
	}
	u.notes.Drop("answer.image")
	it.omitted = true
	opened.Type, opened.Name = codec.ItemText, nil
}

// unnamed stands for the tool of a call whose name never came. The client has no such tool, says so in the result, and
// the model can call again; an empty name would be refused when the history is sent back.
const unnamed = "unnamed"

// openCall gives a call the client's name for the tool, and an id that the client can take.
func (u *undo) openCall(ev *codec.Event, it *item) {
	u.calls++
	if len(ev.Name) == 0 {
		ev.Name = []byte(unnamed)
	}
	name := string(ev.Name)
	switch back, known := u.names.original[name]; {
	case u.jsonTool != "" && name == u.jsonTool:
		it.json = true
		*ev = codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemText}
		return
	case known:
		if back.namespace != nil {
			ev.Namespace = back.namespace
		}
		ev.Name = back.name
		if u.wrapped[string(back.flat)] {
			ev.Type = codec.ItemCustomCall
			it.unwrap = new(unwrapper)
		}
	}
	if !legalID(u.surface.CallID, ev.CallID) {
		ev.CallID = u.makeID(ev.CallID)
	}
	it.callID = clone(ev.CallID)
}

// makeID is an id in the client's style: the same when the same request is sent again.
func (u *undo) makeID(id []byte) []byte {
	h := sha256.New()
	h.Write(u.seed[:])
	h.Write([]byte(itoa(u.calls)))
	h.Write(id)
	return []byte(u.surface.CallPrefix + base62([sha256.Size]byte(h.Sum(nil)), 24))
}

// proveAhead gives the client the proof of a call no later than the call's beginning: with it in chat, which has a member
// for it that clients read there alone, else in a reasoning item before it. The proof comes with the call: providers that
// have such proofs send calls whole.
func (u *undo) proveAhead(opened *codec.Event, it *item, ordinal int32, rest []codec.Event) {
	for i := range rest {
		ev := &rest[i]
		if ev.Kind == codec.EventSignature && ev.Item == ordinal {
			if u.surface.Client.SignedCalls {
				if !it.json {
					opened.Raw, opened.Family, it.proved = ev.Raw, ev.Family, true
				}
				return
			}
			u.carry(&statetoken.Token{Family: ev.Family, Kind: statetoken.Call, Model: statetoken.Hash(u.model), Raw: ev.Raw})
			return
		}
		if ev.Kind == codec.EventItemOpen {
			return
		}
	}
}

// carry emits an empty reasoning item that holds nothing but state.
func (u *undo) carry(c *statetoken.Token) {
	ordinal := u.number()
	from := len(u.bytes)
	u.bytes = c.Append(u.bytes, u.Account)
	u.out = append(u.out,
		codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemReasoning, Item: ordinal},
		codec.Event{Kind: codec.EventSignature, Item: ordinal, Family: c.Family, Raw: u.bytes[from:len(u.bytes):len(u.bytes)]},
		codec.Event{Kind: codec.EventItemClose, Type: codec.ItemReasoning, Item: ordinal},
	)
}

func (u *undo) text(ev *codec.Event) {
	it := u.item(ev.Item)
	if it == nil {
		return
	}
	if u.Ledger != nil && u.Family == codec.FamilyGoogle {
		u.plain = it.said.write(u.plain, ev.Raw)
	}
	if len(u.stops) == 0 {
		u.pass(ev)
		return
	}
	u.scanner.stops, u.scanned = u.stops, ev.Item
	from := len(u.bytes)
	var matched []byte
	u.bytes, matched = u.scanner.pass(u.bytes, ev.Raw)
	if given := u.bytes[from:len(u.bytes):len(u.bytes)]; len(given) > 0 {
		u.out = append(u.out, codec.Event{Kind: codec.EventText, Item: it.ordinal, Raw: given})
	}
	if matched == nil {
		return
	}
	u.stopped = true
	u.out = append(u.out,
		codec.Event{Kind: codec.EventItemClose, Type: it.kind, Item: it.ordinal},
		codec.Event{Kind: codec.EventFinish, Finish: codec.FinishStopSequence, Raw: matched},
	)
}

// endEarly ends an answer whose stop sequence has matched. What the model went on to say was not asked for; its usage
// is taken where it is already there, else left to be estimated.
func (u *undo) endEarly(rest []codec.Event) {
	for i := range rest {
		if rest[i].Kind == codec.EventUsage {
			u.out = append(u.out, rest[i])
		}
	}
	u.out = append(u.out, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
}

// release gives out the text that was held back for a stop sequence which did not come.
func (u *undo) release(it *item) {
	if it.kind != codec.ItemText || len(u.scanner.held) == 0 {
		return
	}
	from := len(u.bytes)
	u.bytes = append(u.bytes, u.scanner.held...)
	u.scanner.held = u.scanner.held[:0]
	u.out = append(u.out, codec.Event{Kind: codec.EventText, Item: it.ordinal, Raw: u.bytes[from:len(u.bytes):len(u.bytes)]})
}

// releaseAll gives out what is held for items that were never closed.
func (u *undo) releaseAll() {
	if u.half.waits {
		u.releaseHalf(u.half.event.Item)
	}
	if it := u.item(u.scanned); it != nil {
		u.release(it)
	}
}

func (u *undo) reasoning(ev *codec.Event) {
	u.addThought(ev.Raw)
	u.pass(ev)
}

func (u *undo) arguments(ev *codec.Event) {
	it := u.item(ev.Item)
	if it == nil {
		return
	}
	if u.infers {
		it.arguments.Feed(ev.Raw)
	}
	switch {
	case it.json:
		// Arguments are JSON text inside a string body, and so is text that is JSON: the bytes are the same.
		u.out = append(u.out, codec.Event{Kind: codec.EventText, Item: it.ordinal, Raw: ev.Raw})
	case it.unwrap != nil:
		from := len(u.bytes)
		u.bytes = it.unwrap.pass(u.bytes, ev.Raw)
		if given := u.bytes[from:len(u.bytes):len(u.bytes)]; len(given) > 0 {
			u.out = append(u.out, codec.Event{Kind: codec.EventCustomInput, Item: it.ordinal, Raw: given})
		}
	default:
		u.pass(ev)
	}
}

// signature keeps the proof of an item until the item is complete. A call's proof has been carried ahead already; a
// text's proof goes to the ledger alone, because a reasoning item behind the text makes Claude Code print nothing
// (observed with 2.1.197).
func (u *undo) signature(ev *codec.Event) {
	it := u.item(ev.Item)
	if it == nil {
		return
	}
	if isCallItem(it.kind) {
		u.keep(ledgerCall, it.callID, ev.Raw)
		if u.surface.Client.SignedCalls && !it.proved {
			u.pass(ev)
		}
		return
	}
	it.signature = append(it.signature, ev.Raw...)
	it.family = ev.Family
}

func isCallItem(kind codec.ItemType) bool {
	return kind == codec.ItemToolCall || kind == codec.ItemCustomCall
}

func (u *undo) close(ev *codec.Event) {
	it := u.item(ev.Item)
	if it == nil {
		return
	}
	u.releaseHalf(ev.Item)
	u.release(it)
	if it.unwrap != nil {
		u.closeWrapped(it)
	}
	u.sealReasoning(it)
	if it.kind == codec.ItemText && len(it.signature) > 0 {
		u.keep(ledgerText, it.said.id(), it.signature)
	}
	if isCallItem(it.kind) {
		u.keepThought(it.callID)
	}
	closed := *ev
	closed.Item = it.ordinal
	if it.omitted {
		u.out = append(u.out, codec.Event{Kind: codec.EventText, Item: it.ordinal, Raw: omitted})
		closed.Type, closed.Raw = codec.ItemText, nil
	}
	if it.json {
		closed.Type = codec.ItemText
	}
	if it.unwrap != nil {
		closed.Type, closed.Raw = codec.ItemCustomCall, nil
	}
	u.out = append(u.out, closed)
}

// sealReasoning signs a reasoning item with a state token. Text that came without a proof gets an empty one where the
// client's format has a slot for it: that tells it from the text of the provider that the slot belongs to, which would
// refuse it (see [CleanHistory]).
func (u *undo) sealReasoning(it *item) {
	c := statetoken.Token{Family: it.family, Kind: statetoken.Reasoning, Model: statetoken.Hash(u.model), Raw: it.signature}
	if len(it.signature) == 0 {
		c.Family = u.Family
	}
	switch {
	case it.kind == codec.ItemRedacted:
		c.Kind = statetoken.Redacted
	case it.kind != codec.ItemReasoning, len(it.signature) == 0 && !u.surface.Client.SignedReasoning:
		return
	}
	from := len(u.bytes)
	u.bytes = c.Append(u.bytes, u.Account)
	u.out = append(u.out, codec.Event{Kind: codec.EventSignature, Item: it.ordinal, Family: it.family, Raw: u.bytes[from:len(u.bytes):len(u.bytes)]})
}

// closeWrapped gives out what the unwrapping still holds.
func (u *undo) closeWrapped(it *item) {
	from := len(u.bytes)
	u.bytes = it.unwrap.end(u.bytes)
	if given := u.bytes[from:len(u.bytes):len(u.bytes)]; len(given) > 0 {
		u.out = append(u.out, codec.Event{Kind: codec.EventCustomInput, Item: it.ordinal, Raw: given})
	}
}

// finish corrects the reason: an answer that was asked for as a call is no call, and a call that the client cannot see
// is none either.
func (u *undo) finish(ev *codec.Event) {
	u.releaseAll()
	finished := *ev
	if finished.Finish == codec.FinishUnknown {
		finished.Finish = u.inferredFinish()
	}
	if finished.Finish == codec.FinishToolCalls && !u.showsCalls() {
		finished.Finish = codec.FinishEnd
	}
	u.out = append(u.out, finished)
}

// inferredFinish is why a provider stopped that did not say so. Arguments that stop in the middle were cut off (P96).
func (u *undo) inferredFinish() codec.FinishReason {
	for i := range u.items {
		if u.items[i].arguments.Broken() {
			return codec.FinishLength
		}
	}
	return codec.FinishToolCalls
}

func (u *undo) showsCalls() bool {
	for i := range u.items {
		if isCallItem(u.items[i].kind) && !u.items[i].json {
			return true
		}
	}
	return false
}
