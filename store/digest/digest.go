// Package digest derives turns, as the store keeps them, from captured exchanges of any surface.
package digest

import (
	"cmp"
	"iter"
	"strings"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/record"
)

// Exchange returns the history and the answer of a captured exchange as messages independent of their format. It is
// meant as the Digest of [store.Options].
//
// A message becomes the same bytes in the answer that first said it and in every later request that repeats it: so the
// store finds what an exchange added. Reminders that clients insert into a message are left out, because they come and
// go.
func Exchange(x *record.Exchange) (record.Digest, error) {
	surface, err := codec.ParseFormat(x.Surface)
	if err != nil || !surface.Converses() {
		return record.Digest{}, err
	}
	keys, err := derivedKeys(surface, x)
	if err != nil {
		return record.Digest{}, err
	}
	request := requests.Get().(*codec.Request)
	defer requests.Put(request)
	request.Reset()
	body := x.RawRequest
	if x.Items != nil && x.Items.From > 0 {
		body = unread(surface, x)
		defer buffer.Put(body) // what is derived from it is a copy
	}
	if err := crossing.ClientCodec(surface).DecodeRequest(request, body); err != nil {
		return record.Digest{}, err
	}
	from := 0
	if x.Items != nil {
		from = x.Items.From
	}
	var d record.Digest
	d.Messages, d.Starts = history(request, from)
	answer := readAnswer(surface, x)
	m := answered(answer)
	if others := alternatives(surface, x, &m); len(m.Parts) > 0 {
		d.Answer = append([]record.Message{m}, others...)
	} else {
		d.Answer = others
	}
	if d.Reply = keys.Reply; d.Reply == "" && x.Outcome == record.OutcomeComplete {
		d.Reply = chatkey.Reply(keys.Opening, answer)
	}
	return d, nil
}

// derivedKeys returns the keys of the request, which is well-formed if there is no error.
func derivedKeys(surface codec.Format, x *record.Exchange) (chatkey.Keys, error) {
	if x.Derived != nil {
		return *x.Derived, nil
	}
	var envelope codec.Envelope
	if err := envelope.Read(x.RawRequest); err != nil {
		return chatkey.Keys{}, err
	}
	return chatkey.Derive(surface, x.RawRequest, &envelope), nil
}

// unread returns a request with only the unknown items of one whose first items need not be read, from the buffer pool.
func unread(surface codec.Format, x *record.Exchange) []byte {
	name := crossing.Traits(surface).Members.Conversation
	body := append(append(append(buffer.Get(len(x.RawRequest)+32), `{"`...), name...), `":[`...)
	return append(append(body, x.RawRequest...), `]}`...)
}

var requests = sync.Pool{New: func() any { return new(codec.Request) }}

// readAnswer folds the answer that the client got, a stream or a complete body. Nothing of an error is kept.
func readAnswer(surface codec.Format, x *record.Exchange) *codec.Answer {
	if x.Status >= 300 {
		return new(codec.Answer)
	}
	if scan.IsObject(x.RawResponse) && !strings.HasPrefix(x.ResponseType, "text/event-stream") {
		if x.Answer != nil {
			return x.Answer
		}
		return crossing.Fold(surface, x.RawResponse)
	}
	if s, ok := x.Reader.(*stream); ok {
		if answer := s.finished(x.RawResponse); answer != nil {
			return answer
		}
	}
	return readStream(surface, x.RawResponse)
}

// history returns a request's messages without the opening instructions, and the item with which each begins. The first
// message of r belongs to the item from; only the request's first message can be an opening instruction.
func history(r *codec.Request, from int) (messages []record.Message, starts []int) {
	messages = make([]record.Message, 0, len(r.Messages))
	starts = make([]int, 0, len(r.Messages))
	for _, m := range spoken(r, from) {
		list := partsOf(m.Role == codec.RoleAssistant)
		for j := range m.Parts {
			list.add(&m.Parts[j], m.Role == codec.RoleAssistant)
		}
		if len(list.parts) > 0 {
			messages = append(messages, record.Message{Role: roleNames[m.Role], Parts: list.parts})
			starts = append(starts, from+m.Index)
		}
	}
	if r.NumberedCalls {
		starts = nil
	}
	return messages, starts
}

// spoken returns a request's messages without the opening instructions.
func spoken(r *codec.Request, from int) iter.Seq2[int, *codec.Message] {
	return func(yield func(int, *codec.Message) bool) {
		opening := from == 0
		for i := range r.Messages {
			m := &r.Messages[i]
			if opening = opening && (m.Role == codec.RoleSystem || m.Role == codec.RoleDeveloper); !opening && !yield(i, m) {
				return
			}
		}
	}
}

var roleNames = map[codec.Role]string{
	codec.RoleSystem: "system", codec.RoleDeveloper: "system", codec.RoleUser: "user",
	codec.RoleAssistant: "assistant", codec.RoleTool: "tool",
}

// Kinds of parts.
const (
	partText      = "text"
	partReasoning = "reasoning"
	partCall      = "call"
	partResult    = "result"
	partMedia     = "media"
)

// summaryName is the name of a text that is a client's summary of earlier messages, so that it is not joined with a person's.
const summaryName = "summary"

// partList collects the parts of a message. Adjacent texts are joined, because formats cut them in different places: a
// model's anywhere, all others between lines.
type partList struct {
	parts  []record.Part
	joint  string          // between texts
	joined strings.Builder // the text of the last part, if it was joined: each is copied once, however many there are
}

func partsOf(assistant bool) *partList {
	if assistant {
		return &partList{}
	}
	return &partList{joint: "\n"}
}

func (l *partList) append(p record.Part) {
	l.parts = append(l.parts, p)
	l.joined.Reset()
}

func (l *partList) text(kind, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	if n := len(l.parts) - 1; n >= 0 && l.parts[n].Kind == kind && kind == partText && l.parts[n].Name == "" {
		if l.joined.Len() == 0 {
			l.joined.WriteString(l.parts[n].Text)
		}
		l.joined.WriteString(l.joint)
		l.joined.WriteString(text)
		l.parts[n].Text = l.joined.String()
		return
	}
	l.append(record.Part{Kind: kind, Text: text})
}

// add adds a part of a message. An assistant's text is kept unchanged.
func (l *partList) add(p *codec.Part, assistant bool) {
	switch p.Kind {
	case codec.PartText, codec.PartRefusal:
		if assistant {
			l.text(partText, scan.Text(p.Text))
		} else if text := said(p.Text); chatkey.IsSummary(text) {
			l.append(record.Part{Kind: partText, Name: summaryName, Text: text})
		} else {
			l.text(partText, text)
		}
	case codec.PartReasoning:
		l.text(partReasoning, textOf(p))
	case codec.PartImage, codec.PartAudio, codec.PartDocument:
		l.media(p)
	case codec.PartToolCall:
		arguments := string(p.Arguments)
		if p.ArgumentsEscaped {
			arguments = scan.Text(p.Arguments)
		}
		l.append(functionCall(p.CallID, p.Namespace, p.Name, arguments))
	case codec.PartCustomCall:
		l.append(customCall(p.CallID, p.Namespace, p.Name, p.Text))
	case codec.PartToolResult:
		l.result(p)
	case codec.PartServerTool:
		l.append(record.Part{Kind: partCall, Name: scan.String(scan.Get(p.Raw, "type"))})
	}
}

// said returns a text without what clients insert on their own.
func said(body []byte) string {
	plain := scan.Unescape(buffer.Get(len(body)), body)
	defer buffer.Put(plain)
	return string(chatkey.AppendSaid(plain[:0], plain))
}

func functionCall(id, namespace, name []byte, arguments string) record.Part {
	if arguments == "" {
		arguments = "{}" // a call without arguments, in streams that write nothing for them
	}
	return record.Part{Kind: partCall, CallID: scan.Text(id), Name: qualified(namespace, name), Arguments: arguments}
}

func customCall(id, namespace, name, input []byte) record.Part {
	return record.Part{Kind: partCall, CallID: scan.Text(id), Name: qualified(namespace, name), Text: scan.Text(input)}
}

func qualified(namespace, name []byte) string {
	if len(namespace) == 0 {
		return scan.Text(name)
	}
	return scan.Text(namespace) + "." + scan.Text(name)
}

// textOf joins the texts of a part that may have several.
func textOf(p *codec.Part) string {
	var texts []string
	if len(p.Text) > 0 {
		texts = append(texts, scan.Text(p.Text))
	}
	for i := range p.Parts {
		if len(p.Parts[i].Text) > 0 {
			texts = append(texts, scan.Text(p.Parts[i].Text))
		}
	}
	return strings.Join(texts, "\n")
}

func (l *partList) media(p *codec.Part) {
	if len(p.Text) > 0 { // a plain-text document
		l.append(record.Part{Kind: partText, Name: scan.Text(p.Filename), Text: scan.Text(p.Text)})
		return
	}
	medium := record.Part{
		Kind: partMedia, MediaType: scan.Text(p.MediaType), Name: scan.Text(p.Filename),
		Bytes: int64(len(p.Data)) * 3 / 4,
	}
	if len(p.URL) <= maxURL && !codec.IsDataURL(p.URL) {
		medium.URL = scan.Text(p.URL)
	}
	l.append(medium)
}

// maxURL is the longest kept URL of a medium, in bytes; longer ones are left out.
const maxURL = 2048

// result adds the result of a call: its text in one part, images after it.
func (l *partList) result(p *codec.Part) {
	result := record.Part{Kind: partResult, CallID: scan.Text(p.CallID), Name: scan.Text(p.Name), Failed: p.Failed}
	inside := partsOf(false)
	for i := range p.Parts {
		inside.add(&p.Parts[i], false)
	}
	var behind []record.Part
	for _, part := range inside.parts {
		if part.Kind == partText && result.Text == "" {
			result.Text = part.Text
			continue
		}
		behind = append(behind, part)
	}
	l.append(result)
	l.parts = append(l.parts, behind...)
}

// answered returns an answer in the form it has in the history of the next request.
func answered(a *codec.Answer) record.Message {
	list := partsOf(true)
	for i := range a.Items {
		switch it := &a.Items[i]; it.Type {
		case codec.ItemText, codec.ItemRefusal:
			list.text(partText, scan.Text(it.Text))
		case codec.ItemReasoning:
			for j := range it.Summaries {
				list.text(partReasoning, scan.Text(it.Summaries[j].Text))
			}
		case codec.ItemToolCall:
			list.append(functionCall(it.CallID, it.Namespace, it.Name, scan.Text(it.Text)))
		case codec.ItemCustomCall:
			list.append(customCall(it.CallID, it.Namespace, it.Name, it.Text))
		case codec.ItemServerTool:
			list.append(record.Part{Kind: partCall, Name: scan.String(scan.Get(it.Raw, "type"))})
			if picture := drawn(it); len(picture) > 0 {
				format := scan.String(scan.Get(it.Raw, "output_format"))
				list.append(record.Part{Kind: partMedia, MediaType: "image/" + cmp.Or(format, "png"), Bytes: int64(len(picture)) * 3 / 4})
			}
		}
	}
	return record.Message{Role: roleNames[codec.RoleAssistant], Parts: list.parts}
}
