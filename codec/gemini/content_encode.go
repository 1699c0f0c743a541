package gemini

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// turn is the speaker of the open content. Tool results also have the user's role, but stand alone: models from the
// third generation on refuse other parts next to them (docs/wire/translation.md#2.3).
type turn uint8

const (
	turnNone turn = iota
	turnUser
	turnModel
	turnResults
)

// anySignature is Google's documented value for another model's call: it is accepted instead of a signature.
const anySignature = "skip_thought_signature_validator"

// contents writes the conversation from that message on. Neighbors of one role become one content, because roles must
// alternate. A content is begun by its first part, so none is empty.
func (w *writer) contents(from int) error {
	w.name("contents")
	w.write(`[`)
	empty := len(w.dst)
	for i := from; i < len(w.r.Messages); i++ {
		m := &w.r.Messages[i]
		if m.Name != nil {
			w.r.Notes.Drop("messages.name")
		}
		var err error
		switch m.Role {
		case codec.RoleAssistant:
			err = w.modelParts(m)
		case codec.RoleTool:
			err = w.results(m)
		default: // a system message between turns is user text
			err = w.userParts(m)
		}
		if err != nil {
			return err
		}
	}
	if len(w.dst) == empty {
		return codec.Invalid(w.r.Conversation(), "the conversation holds nothing that can be sent: at least one message with text or media is needed")
	}
	w.endTurn()
	w.write(`]`)
	return nil
}

// part begins a part in a content of that turn.
func (w *writer) part(t turn) {
	if w.turn == t {
		w.write(`,`)
		return
	}
	if w.turn == turnNone && t == turnModel {
		// A conversation whose beginning was trimmed. Whether the API accepts a model's turn first is unknown.
		w.begin(turnUser)
		w.write(`{"text":"(continued)"}`)
		w.r.Notes.Emulate(w.r.Conversation())
	}
	w.endTurn()
	w.begin(t)
}

func (w *writer) begin(t turn) {
	w.comma()
	if t == turnModel {
		w.write(`{"role":"model","parts":[`)
	} else {
		w.write(`{"role":"user","parts":[`)
	}
	w.turn, w.called = t, false
}

func (w *writer) endTurn() {
	if w.turn != turnNone {
		w.write(`]}`)
	}
}

func (w *writer) userParts(m *codec.Message) error {
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Kind {
		case codec.PartText, codec.PartRefusal:
			w.text(turnUser, p)
		case codec.PartImage, codec.PartDocument, codec.PartAudio:
			if err := w.media(turnUser, p, m); err != nil {
				return err
			}
		default:
			w.r.Notes.Drop(w.r.Conversation() + "." + partName(p))
		}
	}
	return nil
}

func (w *writer) modelParts(m *codec.Message) error {
	for i := range m.Parts {
		p := &m.Parts[i]
		switch p.Kind {
		case codec.PartText, codec.PartRefusal:
			w.text(turnModel, p)
		case codec.PartReasoning:
			w.thought(p)
		case codec.PartToolCall:
			w.call(p)
		case codec.PartImage, codec.PartDocument, codec.PartAudio:
			if err := w.media(turnModel, p, m); err != nil {
				return err
			}
		case codec.PartRedacted: // another vendor's; crossing has noted it
		default:
			if p.Origin == codec.Gemini && scan.IsObject(p.Raw) {
				w.part(turnModel)
				w.dst = append(w.dst, p.Raw...)
				continue
			}
			w.r.Notes.Drop(w.r.Conversation() + "." + partName(p))
		}
	}
	return nil
}

// text writes no part for an empty text, unless it has a signature.
func (w *writer) text(t turn, p *codec.Part) {
	signature := googleSignature(p)
	if len(p.Text) == 0 && signature == nil {
		return
	}
	w.part(t)
	w.write(`{"text":`)
	w.dst = scan.QuoteBody(w.dst, p.Text)
	w.string("thoughtSignature", signature)
	w.write(`}`)
}

// thought returns a signed thought to its own model. Thoughts without a signature are not needed, and other vendors'
// mean nothing here.
func (w *writer) thought(p *codec.Part) {
	signature := googleSignature(p)
	if signature == nil {
		return
	}
	w.part(turnModel)
	w.write(`{"text":"`)
	w.dst = append(w.dst, p.Text...)
	for i := range p.Parts {
		if i > 0 || len(p.Text) > 0 {
			w.write(`\n\n`)
		}
		w.dst = append(w.dst, p.Parts[i].Text...)
	}
	w.write(`","thought":true`)
	w.string("thoughtSignature", signature)
	w.write(`}`)
}

// call writes a call with its signature. If the model requires one, the first call of a step without one gets the
// documented substitute; the others of a parallel group never had one.
func (w *writer) call(p *codec.Part) {
	w.part(turnModel)
	w.write(`{"functionCall":{`)
	w.id(p)
	w.string("name", p.Name)
	w.name("args")
	var object bool
	if w.dst, object = codec.AppendArguments(w.dst, p); !object {
		w.r.Notes.Emulate(w.r.Conversation() + ".arguments")
	}
	w.write(`}`)
	switch signature := googleSignature(p); {
	case signature != nil:
		w.string("thoughtSignature", signature)
	case w.t.NeedsSignature && !w.called:
		w.write(`,"thoughtSignature":"` + anySignature + `"`)
		w.r.Notes.Emulate("thought_signature")
	}
	w.called = true
	w.write(`}`)
}

func (w *writer) id(p *codec.Part) {
	if w.t.CallIDs && len(p.CallID) > 0 {
		w.string("id", p.CallID)
	}
}

func googleSignature(p *codec.Part) []byte {
	if p.Family != codec.FamilyGoogle || len(p.Signature) == 0 {
		return nil
	}
	return p.Signature
}

// results writes the results of one turn into one content, in the order of the message, which is the order of the
// calls.
func (w *writer) results(m *codec.Message) error {
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != codec.PartToolResult {
			w.r.Notes.Drop(w.r.Conversation() + "." + partName(p))
			continue
		}
		if err := w.result(p, m); err != nil {
			return err
		}
	}
	return nil
}

// result wraps text into an object under the two names that the models know: output and error.
func (w *writer) result(p *codec.Part, m *codec.Message) error {
	w.part(turnResults)
	w.write(`{"functionResponse":{`)
	w.id(p)
	w.string("name", p.Name)
	if p.Failed {
		w.fixed("response", `{"error":"`)
	} else {
		w.fixed("response", `{"output":"`)
	}
	w.resultText(p.Parts)
	w.write(`"}`)
	if err := w.resultMedia(p.Parts, m); err != nil {
		return err
	}
	w.write(`}}`)
	return nil
}

// resultText joins the texts of a result with line feeds, as one string body.
func (w *writer) resultText(parts []codec.Part) {
	written := false
	for i := range parts {
		p := &parts[i]
		if !isText(p) && p.Kind != codec.PartOpaque {
			continue
		}
		if written {
			w.write(`\n`)
		}
		written = true
		if isText(p) {
			w.dst = append(w.dst, p.Text...)
		} else {
			w.dst = scan.Escape(w.dst, p.Raw) // the model reads the client's original
		}
	}
}

// isText reports whether a part is text, as some documents are.
func isText(p *codec.Part) bool {
	return p.Kind == codec.PartText || p.Kind == codec.PartDocument && len(p.Text) > 0
}

func (w *writer) resultMedia(parts []codec.Part, m *codec.Message) error {
	before := len(w.dst)
	w.name("parts")
	w.write(`[`)
	empty := len(w.dst)
	for i := range parts {
		p := &parts[i]
		switch {
		case isText(p), p.Kind == codec.PartOpaque:
		case p.Kind == codec.PartImage, p.Kind == codec.PartDocument, p.Kind == codec.PartAudio:
			if !w.t.ImagesInResults {
				w.r.Notes.Drop("tool_result." + partName(p))
				continue
			}
			w.comma()
			if err := w.mediaPart(p, m); err != nil {
				return err
			}
		default:
			w.r.Notes.Drop("tool_result." + partName(p))
		}
	}
	if len(w.dst) == empty {
		w.dst = w.dst[:before]
		return nil
	}
	w.write(`]`)
	return nil
}

var partNames = [...]string{
	codec.PartText: "text", codec.PartRefusal: "refusal", codec.PartReasoning: "reasoning", codec.PartRedacted: "redacted_thinking",
	codec.PartImage: "image", codec.PartDocument: "document", codec.PartAudio: "audio", codec.PartToolCall: "tool_call",
	codec.PartCustomCall: "custom_call", codec.PartToolResult: "tool_result", codec.PartToolRef: "tool_reference",
	codec.PartServerTool: "server_tool", codec.PartOpaque: "content",
}

// partName returns the name of a part for notes: the wire's own word if there is one.
func partName(p *codec.Part) string {
	if int(p.Kind) < len(partNames) {
		return wireName(p.WireType, partNames[p.Kind])
	}
	return wireName(p.WireType, "content")
}
