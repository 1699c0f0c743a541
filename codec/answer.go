package codec

import "slices"

// Answer is a whole answer, folded from the events of a stream or of a complete body. It owns its memory.
type Answer struct {
	ID      []byte
	Model   []byte // string body
	Created int64
	Items   []Item
	Finish  FinishReason
	Stop    []byte // the stop sequence that matched, string body
	Usage   Usage
	HasUse  bool // usage was reported
	End     End
	Err     *Error
}

// Item is one content item of an [Answer].
type Item struct {
	Type      ItemType
	ID        []byte
	CallID    []byte
	Name      []byte
	Namespace []byte
	Text      []byte // string body: text, refusal, arguments or custom input, by Type
	Summaries []Summary
	Signature []byte
	Family    Family
	Notes     []Annotation
	Raw       []byte // server tools and opaque items: the wire item, in the shape of Origin
	Origin    Format
	Closed    bool
}

// Summary is one part of a reasoning item.
type Summary struct {
	Text    []byte // string body
	Summary bool   // a summary rather than the full text
}

// Annotation is one citation: a raw object in the shape of Origin.
type Annotation struct {
	Raw    []byte
	Origin Format
}

// Reset empties the answer for reuse and keeps the memory of its items.
func (a *Answer) Reset() { *a = Answer{Items: a.Items[:0]} }

// Fold adds events to the answer.
func (a *Answer) Fold(events []Event) {
	for i := range events {
		a.Add(&events[i])
	}
}

// Add folds one event into the answer. Events of an item that was never opened are ignored.
func (a *Answer) Add(ev *Event) {
	switch ev.Kind {
	case EventStart:
		a.ID = append(a.ID[:0], ev.ID...)
		a.Model = append(a.Model[:0], ev.Model...)
		a.Created = ev.Created
		if !ev.Usage.IsZero() {
			a.Usage, a.HasUse = ev.Usage, true
		}
	case EventItemOpen:
		a.open(ev)
	case EventText, EventRefusal, EventArguments, EventCustomInput:
		if it := a.Item(ev.Item); it != nil {
			it.Text = append(it.Text, ev.Raw...)
		}
	case EventReasoning:
		if it := a.Item(ev.Item); it != nil {
			it.addReasoning(ev)
		}
	case EventSignature:
		if it := a.Item(ev.Item); it != nil {
			it.Signature = append(it.Signature, ev.Raw...)
			it.Family = ev.Family
		}
	case EventAnnotation:
		if it := a.Item(ev.Item); it != nil {
			it.Notes = append(it.Notes, Annotation{Raw: append([]byte(nil), ev.Raw...), Origin: ev.Origin})
		}
	case EventItemClose:
		if it := a.Item(ev.Item); it != nil {
			it.Closed = true
			it.Raw = append(it.Raw[:0], ev.Raw...)
			it.Origin = ev.Origin
		}
	case EventFinish:
		a.Finish = ev.Finish
		a.Stop = append(a.Stop[:0], ev.Raw...)
	case EventUsage:
		a.Usage, a.HasUse = ev.Usage, true
	case EventError:
		a.Err = ev.Err
	case EventEnd:
		a.End = ev.End
	}
}

// IsOneText reports whether the answer consists of one plain text, which all formats write as it is.
func (a *Answer) IsOneText() bool {
	return len(a.Items) == 1 && a.Items[0].Type == ItemText && len(a.Items[0].Notes) == 0
}

// Item returns the item with that ordinal, or nil.
func (a *Answer) Item(ordinal int32) *Item {
	if ordinal < 0 || int(ordinal) >= len(a.Items) {
		return nil
	}
	return &a.Items[ordinal]
}

// HasCalls reports whether a tool call was opened, which decides the finish word of every format
// (docs/wire/translation.md#3.1, rule a).
func (a *Answer) HasCalls() bool {
	for i := range a.Items {
		if t := a.Items[i].Type; t == ItemToolCall || t == ItemCustomCall {
			return true
		}
	}
	return false
}

func (a *Answer) open(ev *Event) {
	if int(ev.Item) != len(a.Items) {
		return
	}
	n := len(a.Items)
	a.Items = slices.Grow(a.Items, 1)[:n+1]
	it := &a.Items[n]
	*it = Item{
		Type:      ev.Type,
		ID:        append(it.ID[:0], ev.ID...),
		CallID:    append(it.CallID[:0], ev.CallID...),
		Name:      append(it.Name[:0], ev.Name...),
		Text:      it.Text[:0],
		Signature: it.Signature[:0],
		Raw:       it.Raw[:0],
	}
	if len(ev.Raw) > 0 {
		it.Signature, it.Family = append(it.Signature, ev.Raw...), ev.Family
	}
	if ev.Namespace != nil {
		it.Namespace = append([]byte{}, ev.Namespace...)
	}
}

// addReasoning appends to the summary that the event names; a part that skips ordinals is ignored.
func (it *Item) addReasoning(ev *Event) {
	if ev.Sub < 0 || int(ev.Sub) > len(it.Summaries) {
		return
	}
	if int(ev.Sub) == len(it.Summaries) {
		it.Summaries = append(it.Summaries, Summary{})
	}
	part := &it.Summaries[ev.Sub]
	part.Text = append(part.Text, ev.Raw...)
	part.Summary = ev.Summary
}
