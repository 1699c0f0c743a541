package responses

import "github.com/mnemeproxy/mneme/codec"

// Status words of answers and items.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
)

// AppendAnswer implements [codec.ClientCodec]. It replays the answer to a stream encoder, whose terminal event contains
// the same object, so the two cannot diverge.
func (c client) AppendAnswer(dst []byte, a *codec.Answer, o *codec.AnswerOptions) []byte {
	e := newEncoder(o)
	events := replay(e, a)
	status, failure := statusFailed, a.Err
	if failure == nil {
		status, failure = e.outcome(max(a.End, codec.EndTerminal))
	}
	if failure == nil {
		e.finishAll(events, status)
	}
	return e.response(dst, status, failure)
}

// replay passes to the encoder the events that the answer was folded from. It returns the encoder's output, which is
// not used.
func replay(e *streamEncoder, a *codec.Answer) []byte {
	var dst []byte
	give := func(ev codec.Event) { dst = e.Append(dst[:0], &ev) }
	give(codec.Event{Kind: codec.EventStart, ID: a.ID, Model: a.Model, Created: a.Created})
	for i := range a.Items {
		it, item := &a.Items[i], int32(i)
		give(codec.Event{
			Kind: codec.EventItemOpen, Type: it.Type, Item: item, ID: it.ID, CallID: it.CallID, Name: it.Name,
			Namespace: it.Namespace,
		})
		if kind, ok := bodyEvent(it.Type); ok {
			give(codec.Event{Kind: kind, Item: item, Raw: it.Text})
		}
		for j, s := range it.Summaries {
			give(codec.Event{Kind: codec.EventReasoning, Item: item, Sub: int32(j), Raw: s.Text, Summary: s.Summary})
		}
		give(codec.Event{Kind: codec.EventSignature, Item: item, Raw: it.Signature, Family: it.Family})
		for _, note := range it.Notes {
			give(codec.Event{Kind: codec.EventAnnotation, Item: item, Raw: note.Raw, Origin: note.Origin})
		}
		if it.Closed {
			give(codec.Event{Kind: codec.EventItemClose, Type: it.Type, Item: item, Raw: it.Raw, Origin: it.Origin})
		}
	}
	give(codec.Event{Kind: codec.EventFinish, Finish: a.Finish, Raw: a.Stop})
	if a.HasUse {
		give(codec.Event{Kind: codec.EventUsage, Usage: a.Usage})
	}
	return dst
}

func bodyEvent(t codec.ItemType) (codec.EventKind, bool) {
	switch t {
	case codec.ItemText:
		return codec.EventText, true
	case codec.ItemRefusal:
		return codec.EventRefusal, true
	case codec.ItemToolCall:
		return codec.EventArguments, true
	case codec.ItemCustomCall:
		return codec.EventCustomInput, true
	}
	return codec.EventNone, false
}

// terminal ends the answer. If it failed, open items get no done event, which would make them look finished to clients;
// the terminal event contains them, marked as incomplete. An answer that fails before it has begun is only the terminal
// event, which can also follow a stream that another encoder began.
func (e *streamEncoder) terminal(dst []byte, status string, failure *codec.Error) []byte {
	if failure == nil && status == statusFailed {
		failure = codec.Errorf(codec.KindUpstream, "The provider reported an error without details.")
	}
	if failure == nil {
		dst = e.start(dst)
		dst = e.finishAll(dst, status)
	}
	e.ended = true
	dst = append(e.event(dst, terminalEvent(status)), `,"response":`...)
	return finish(e.response(dst, status, failure))
}

func terminalEvent(status string) string {
	switch status {
	case statusIncomplete:
		return "response.incomplete"
	case statusFailed:
		return "response.failed"
	}
	return "response.completed"
}

// finishAll ends all open items, including held calls.
func (e *streamEncoder) finishAll(dst []byte, status string) []byte {
	for i := range e.slots {
		if e.slots[i].held != nil {
			dst = e.releaseCall(dst, &e.slots[i])
		}
	}
	return e.outputList.finishAll(dst, status)
}
