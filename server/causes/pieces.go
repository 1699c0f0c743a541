package causes

import (
	"path"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/promptcache"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// Parts that are not roles of messages.
const (
	partTools           = "tools"
	partSystem          = "system"
	partCalls           = "calls"
	partResults         = "results"
	partReasoning       = "reasoning"
	partMedia           = "media"
	partWoven           = "woven"
	partAnswer          = "answer"
	partAnswerCalls     = "answer_calls"
	partAnswerReasoning = "answer_reasoning"
	partOther           = "other"
)

const (
	ageFixed   = "fixed"
	ageHistory = "history"
	ageNew     = "new"
)

// pictureBytes is what a picture or a document counts for at most: providers charge for its size in pixels or pages, not in
// bytes.
const pictureBytes = 1600 * promptcache.TokenBytes

// skillTexts begin the text with which agents give a skill to the model; its directory follows.
const skillTexts = "Base directory for this skill: "

// piece is a stretch of a prompt or an answer.
type piece struct {
	cause api.Cause
	bytes int64
}

// pieces are a prompt in its order, and an answer.
type pieces struct {
	input, output []piece
	called        []string
	subagent      string
	calls         map[string]api.Cause // by their ids
}

func (p *pieces) cause(part, age string) api.Cause {
	return api.Cause{Part: part, Age: age, Subagent: p.subagent}
}

func (p *pieces) tool(part, age, name string) api.Cause {
	c := p.cause(part, age)
	c.Tool, c.Server = name, promptcache.ToolServer(name)
	return c
}

func (p *pieces) add(cause api.Cause, bytes int) {
	if bytes > 0 {
		p.input = append(p.input, piece{cause, int64(bytes)})
	}
}

// complete adds a piece where counted tokens, or a cost, would have none.
func (p *pieces) complete(usage *codec.Usage, cost *record.Cost) {
	if len(p.input) == 0 && (usage.TotalInput() > 0 || len(p.output) == 0 && cost != nil) {
		p.input = []piece{{p.cause(partOther, ageNew), 1}}
	}
	if len(p.output) == 0 && usage.Output > 0 {
		p.output = []piece{{p.cause(partAnswer, ageNew), 1}}
	}
}

func piecesOf(x *record.Exchange) pieces {
	p := pieces{subagent: x.NativeAgent, calls: make(map[string]api.Cause)}
	promptcache.Fixed(promptcache.Prefix(x.RawRequest), func(kind string, text []byte) {
		if kind == partTools {
			p.add(p.tool(partTools, ageFixed, promptcache.ToolName(text)), len(text))
		} else {
			p.add(p.cause(partSystem, ageFixed), len(text))
		}
	})
	digest.Woven(x, func(_ string, size int) { p.add(p.cause(partWoven, ageHistory), size) })
	d, err := digest.Exchange(x)
	if err != nil {
		return p
	}
	fresh := len(d.Messages)
	for fresh > 0 && d.Messages[fresh-1].Role != "assistant" {
		fresh--
	}
	for i := range d.Messages {
		age := ageHistory
		if i >= fresh {
			age = ageNew
		}
		for j := range d.Messages[i].Parts {
			cause, bytes := p.read(d.Messages[i].Role, age, &d.Messages[i].Parts[j])
			p.add(cause, bytes)
		}
	}
	for i := range d.Answer {
		for j := range d.Answer[i].Parts {
			cause, bytes := p.read("assistant", ageNew, &d.Answer[i].Parts[j])
			switch cause.Part {
			case partCalls:
				cause.Part = partAnswerCalls
			case partReasoning:
				cause.Part = partAnswerReasoning
			default:
				cause.Part = partAnswer
			}
			p.output = append(p.output, piece{cause, int64(max(bytes, 1))})
		}
	}
	return p
}

// read returns the cause and the size of a part of a message.
func (p *pieces) read(role, age string, part *record.Part) (api.Cause, int) {
	switch part.Kind {
	case "call":
		c := p.tool(partCalls, age, part.Name)
		c.Skill = skillOf(part)
		p.called = append(p.called, part.Name)
		if part.CallID != "" {
			p.calls[part.CallID] = c
		}
		return c, len(part.Arguments) + len(part.Text) + len(part.Name)
	case "result":
		c, known := p.calls[part.CallID]
		if !known {
			c = p.tool(partResults, age, part.Name)
		}
		c.Part, c.Age = partResults, age
		return c, len(part.Text)
	case "media":
		return p.cause(partMedia, age), int(min(max(part.Bytes, 1), pictureBytes))
	case "reasoning":
		return p.cause(partReasoning, age), len(part.Text)
	}
	c := p.cause(role, age)
	if directory, found := strings.CutPrefix(part.Text, skillTexts); found && role == "user" {
		directory, _, _ = strings.Cut(directory, "\n")
		c.Part, c.Skill = partWoven, path.Base(strings.TrimSpace(directory))
	}
	return c, len(part.Text)
}

// skillOf returns the skill that a call asks for; "" for none.
func skillOf(call *record.Part) string {
	if call.Name != "Skill" {
		return ""
	}
	for _, member := range []string{"skill", "command"} {
		if name := scan.String(scan.Get([]byte(call.Arguments), member)); name != "" {
			return name
		}
	}
	return ""
}
