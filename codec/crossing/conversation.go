package crossing

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// billingMark begins Claude Code's first system block, whose text changes with every request: it would keep another
// provider's prompt cache from ever hitting (docs/wire/translation.md#p62).
const billingMark = "x-anthropic-billing-header:"

// conversationStep shapes the messages.
type conversationStep struct{ *adaptation }

// clear removes what no target reads and moves the opening instructions where the target expects them
// (docs/wire/translation.md#2.3).
func (a conversationStep) clear() error {
	a.r.Instructions = a.keepParts(a.r.Instructions, false)
	for i := range a.r.Messages {
		m := &a.r.Messages[i]
		m.Parts = a.keepParts(m.Parts, m.Role == codec.RoleAssistant)
		if len(m.Name) > 0 && !a.takes.SpeakerNames {
			a.r.Notes.Drop(a.from.Members.Conversation + ".name")
		}
	}
	if a.takes.SystemApart {
		a.hoistInstructions()
	}
	if err := a.prefill(); err != nil {
		return err
	}
	return a.needUser()
}

// keepParts drops empty text and the billing block, and puts into words what only another format can express.
func (a conversationStep) keepParts(parts []codec.Part, assistant bool) []codec.Part {
	kept := 0
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case codec.PartText:
			if len(p.Text) == 0 || bytes.HasPrefix(p.Text, []byte(billingMark)) {
				continue
			}
		case codec.PartRefusal:
			if !a.takes.Refusals {
				p.Kind = codec.PartText
			}
		case codec.PartServerTool, codec.PartOpaque:
			if path := a.contentPath(p.WireType); p.Text != nil && p.Kind == codec.PartOpaque {
				a.r.Notes.Emulate(path)
			} else {
				a.r.Notes.Drop(path)
			}
			if p.Text == nil {
				continue
			}
			*p = codec.Part{Kind: codec.PartText, Text: p.Text}
		case codec.PartToolRef:
			if assistant {
				continue
			}
			text := append(a.r.Alloc(len(p.Name)+24), "Tool "...)
			*p = codec.Part{Kind: codec.PartText, Text: append(append(text, p.Name...), " is now available."...)}
		case codec.PartToolResult:
			p.Parts = a.keepParts(p.Parts, false)
			if p.Failed {
				a.tellFailure(p)
			}
		}
		if p.Citations != nil {
			p.Citations = nil // not shown to models
		}
		if kept < i { // a part is large, and mostly all are kept
			parts[kept] = *p
		}
		kept++
	}
	return parts[:kept]
}

// tellFailure says in words that a tool has failed, if the target has no member for that and the result says nothing.
func (a conversationStep) tellFailure(result *codec.Part) {
	if a.takes.FailedResults {
		return
	}
	a.r.Notes.Drop("is_error")
	if isBlank(result.Parts) {
		result.Parts = append(a.r.NewParts(1), codec.Part{Kind: codec.PartText, Text: []byte("error")})
	}
}

func (a *adaptation) contentPath(wireType []byte) string {
	return a.from.Members.Content + string(wireType)
}

// hoistInstructions moves the opening system and developer messages to the instructions, one block each: joining them
// would change the bytes that caches compare.
func (a conversationStep) hoistInstructions() {
	n := 0
	for n < len(a.r.Messages) && isInstruction(a.r.Messages[n].Role) {
		a.r.Instructions = append(a.r.Instructions, a.r.Messages[n].Parts...)
		n++
	}
	a.r.Messages = append(a.r.Messages[:0], a.r.Messages[n:]...)
}

func isInstruction(role codec.Role) bool {
	return role == codec.RoleSystem || role == codec.RoleDeveloper
}

// prefill handles a conversation that ends with the beginning of the answer. Models that cannot continue it would take
// it for a finished turn.
func (a conversationStep) prefill() error {
	n := len(a.r.Messages) - 1
	if n < 0 || a.r.Messages[n].Role != codec.RoleAssistant || hasCalls(a.r.Messages[n].Parts) {
		return nil
	}
	last := &a.r.Messages[n]
	if isBlank(last.Parts) {
		a.r.Messages = a.r.Messages[:n]
		return nil
	}
	if !a.target.Prefill {
		e := codec.Invalid(a.r.Path(last.Index), "the conversation ends with a message of the assistant, and %s cannot continue one: end it with a message of the user", a.target.Model)
		e.Code = "prefill_not_supported"
		return e
	}
	if p := &last.Parts[len(last.Parts)-1]; p.Kind == codec.PartText {
		p.Text = trimRight(p.Text) // trailing space is refused
	}
	return nil
}

// trimRight returns a string body without trailing white space.
func trimRight(body []byte) []byte {
	for {
		n := len(body)
		switch {
		case n > 0 && body[n-1] == ' ':
			body = body[:n-1]
		case n > 1 && (body[n-1] == 'n' || body[n-1] == 't' || body[n-1] == 'r') && endsInBackslash(body[:n-1]):
			body = body[:n-2]
		default:
			return body
		}
	}
}

func isBlank(parts []codec.Part) bool {
	for i := range parts {
		if parts[i].Kind != codec.PartText || !scan.Blank(parts[i].Text) {
			return false
		}
	}
	return true
}

func hasCalls(parts []codec.Part) bool {
	for i := range parts {
		if k := parts[i].Kind; k == codec.PartToolCall || k == codec.PartCustomCall {
			return true
		}
	}
	return false
}

// needUser makes sure that there is a message to answer.
func (a conversationStep) needUser() error {
	for i := range a.r.Messages {
		if r := a.r.Messages[i].Role; r != codec.RoleSystem && r != codec.RoleDeveloper && len(a.r.Messages[i].Parts) > 0 {
			return nil
		}
	}
	if n := len(a.r.Messages) - 1; n >= 0 && len(a.r.Messages[n].Parts) > 0 {
		a.r.Messages[n].Role = codec.RoleUser
		a.r.Notes.Emulate(a.r.Path(a.r.Messages[n].Index) + ".role")
		return nil
	}
	if n := len(a.r.Instructions) - 1; n >= 0 {
		a.r.Messages = append(a.r.Messages, codec.Message{Role: codec.RoleUser, Parts: append(a.r.NewParts(1), a.r.Instructions[n])})
		a.r.Instructions = a.r.Instructions[:n]
		a.r.Notes.Emulate("messages")
		return nil
	}
	return codec.Invalid(a.from.Members.Conversation, "the conversation has no message to answer")
}

// order brings the messages into the order and the alternation that the target expects. It never moves instructions to
// the top: that would change the beginning of the request with every turn.
func (a conversationStep) order() error {
	a.placeInstructions()
	kept := a.r.Messages[:0]
	joined := 0 // number of results, while the last message has parts in separate memory
	for _, m := range a.r.Messages {
		m.Parts = a.presentable(m.Parts)
		if len(m.Parts) == 0 {
			continue
		}
		if n := len(kept); n > 0 && a.takes.Alternation && kept[n-1].Role == m.Role && m.Role != codec.RoleTool {
			last := &kept[n-1]
			if joined != n { // the next message's parts may follow its own
				last.Parts, joined = last.Parts[:len(last.Parts):len(last.Parts)], n
			}
			last.Parts = append(last.Parts, m.Parts...)
			continue
		}
		kept = append(kept, m)
	}
	a.r.Messages = kept
	if a.takes.SystemApart && len(kept) > 0 && kept[0].Role == codec.RoleAssistant {
		opening := codec.Message{Role: codec.RoleUser, Parts: append(a.r.NewParts(1), codec.Part{Kind: codec.PartText, Text: []byte("(continued)")})}
		a.r.Messages = append([]codec.Message{opening}, kept...)
		a.r.Notes.Emulate(a.r.Path(0))
	}
	return nil
}

// presentable drops blank text beside other text: Messages refuses a block of white space.
func (a conversationStep) presentable(parts []codec.Part) []codec.Part {
	if !a.takes.Alternation {
		return parts
	}
	kept := parts[:0]
	for _, p := range parts {
		if p.Kind == codec.PartText && scan.Blank(p.Text) {
			continue
		}
		kept = append(kept, p)
	}
	return kept
}

// placeInstructions places system and developer messages in the middle of the conversation: unchanged if the target
// accepts them, directly after a user turn if it accepts them only there, else as user text.
func (a conversationStep) placeInstructions() {
	messages := a.r.Messages
	for i := 1; i < len(messages); i++ {
		if isInstruction(messages[i].Role) && awaitsResults(messages[i-1]) {
			j := i
			for j+1 < len(messages) && (isInstruction(messages[j+1].Role) || messages[j+1].Role == codec.RoleTool) {
				j++
			}
			resultsFirst(messages[i : j+1])
			i = j
		}
	}
	if a.takes.SystemTurns == codec.SystemAnywhere {
		return
	}
	for i := range messages {
		if !isInstruction(messages[i].Role) {
			continue
		}
		// It joins an instruction directly before it that has been placed.
		afterUser := i > 0 && (messages[i-1].Role == codec.RoleUser || messages[i-1].Role == codec.RoleTool || messages[i-1].Role == codec.RoleSystem)
		if a.takes.SystemTurns == codec.SystemAfterUser && afterUser {
			messages[i].Role = codec.RoleSystem
			continue
		}
		messages[i].Role = codec.RoleUser
		a.r.Notes.Emulate(a.r.Path(messages[i].Index) + ".role")
	}
}

func awaitsResults(m codec.Message) bool { return m.Role == codec.RoleAssistant && hasCalls(m.Parts) }

// resultsFirst moves the results of a run to its front, keeping the order otherwise.
func resultsFirst(run []codec.Message) {
	ordered := make([]codec.Message, 0, len(run))
	for _, tool := range []bool{true, false} {
		for _, m := range run {
			if (m.Role == codec.RoleTool) == tool {
				ordered = append(ordered, m)
			}
		}
	}
	copy(run, ordered)
}
