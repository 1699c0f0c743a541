package crossing_test

import (
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// The toy format, as somebody would add it: facts, a client codec and a provider codec. Of all that a model can say it
// knows text alone.
//
//	request   {"to":"model","live":true,"rules":"…","say":[{"who":"me","text":"…"},{"who":"you","text":"…"}]}
//	answer    {"by":"model","text":"…","why":"done","cost":[7,3]}
//	stream    {"by":"model"} {"more":"…"} {"why":"done","cost":[7,3]}
//	error     {"wrong":"message"}
var toy = codec.NewFormat("toy")

func toyDefinition() *codec.Definition {
	return &codec.Definition{
		Traits: codec.Traits{
			Format:       toy,
			AnswerPrefix: "toy-",
			Members:      codec.Members{Conversation: "say", Content: "say.", Output: "form", Effort: "effort"},
			Takes:        codec.Takes{SystemApart: true, UndeclaredCalls: true},
			HTTP: codec.HTTPTraits{
				Generate: codec.Endpoint{Path: "/talk"},
				Headers:  [][2]string{{"Toy-Version", "1"}},
				Own:      []string{"Toy-Version"},
				Rank:     1,
			},
		},
		Client:   toyClient{},
		Provider: toyProvider{},
	}
}

type toyClient struct{}

var toyRoles = map[string]codec.Role{"me": codec.RoleUser, "you": codec.RoleAssistant}

func (toyClient) DecodeRequest(r *codec.Request, body []byte) error {
	r.Format, r.Members = toy, &codec.Members{Conversation: "say"}
	for m := scan.Object(body); m.Next(); {
		switch string(m.Key) {
		case "to":
			r.Model = scan.String(m.Value)
		case "live":
			r.Stream = scan.IsTrue(m.Value)
		case "rules":
			r.Instructions = append(r.Instructions, codec.Part{Kind: codec.PartText, Text: scan.Body(m.Value)})
		case "say":
			for e := scan.Array(m.Value); e.Next(); {
				role, known := toyRoles[scan.String(scan.Get(e.Value, "who"))]
				if !known {
					return codec.Invalid(r.Path(len(r.Messages))+".who", "who is me or you")
				}
				text := codec.Part{Kind: codec.PartText, Text: scan.Body(scan.Get(e.Value, "text"))}
				r.Messages = append(r.Messages, codec.Message{Role: role, Parts: append(r.NewParts(1), text), Index: len(r.Messages)})
			}
		default:
			r.Notes.Drop(string(m.Key))
		}
	}
	return nil
}

func (toyClient) NewEncoder(o *codec.AnswerOptions) codec.StreamEncoder { return &toyEncoder{o: o} }

type toyEncoder struct {
	o    *codec.AnswerOptions
	done bool
	cost codec.Usage
}

func (e *toyEncoder) Next() int64 { return 0 }

func (e *toyEncoder) Append(dst []byte, ev *codec.Event) []byte {
	switch {
	case e.done:
	case ev.Kind == codec.EventStart:
		return append(scan.Quote(append(dst, `data: {"by":`...), e.o.Model), "}\n\n"...)
	case ev.Kind == codec.EventText:
		return append(scan.QuoteBody(append(dst, `data: {"more":`...), ev.Raw), "}\n\n"...)
	case ev.Kind == codec.EventUsage:
		e.cost = ev.Usage
	case ev.Kind == codec.EventError:
		e.done = true
		return append(append(append(dst, "data: "...), toyError(ev.Err)...), "\n\n"...)
	case ev.Kind == codec.EventEnd:
		e.done = true
		return fmt.Appendf(dst, "data: {\"why\":\"done\",\"cost\":[%d,%d]}\n\n", e.cost.InputUncached, e.cost.Output)
	}
	return dst
}

func (toyClient) AppendAnswer(dst []byte, a *codec.Answer, o *codec.AnswerOptions) []byte {
	dst = scan.Quote(append(dst, `{"by":`...), o.Model)
	var text []byte
	for i := range a.Items {
		if a.Items[i].Type == codec.ItemText {
			text = append(text, a.Items[i].Text...)
		}
	}
	dst = scan.QuoteBody(append(dst, `,"text":`...), text)
	return fmt.Appendf(dst, `,"why":"done","cost":[%d,%d]}`, a.Usage.InputUncached, a.Usage.Output)
}

func (toyClient) AppendError(dst []byte, e *codec.Error, _ *codec.AnswerOptions) []byte {
	return append(dst, toyError(e)...)
}

func toyError(e *codec.Error) []byte { return append(scan.Quote([]byte(`{"wrong":`), e.Message), '}') }

func (toyClient) Status(e *codec.Error) int { return max(e.Status, 400) }

type toyProvider struct{}

func (toyProvider) AppendRequest(dst []byte, r *codec.Request, t *codec.Target) ([]byte, error) {
	dst = scan.Quote(append(dst, `{"to":`...), t.Model)
	dst = fmt.Appendf(dst, `,"live":%v`, r.Stream)
	for _, rule := range r.Instructions {
		dst = scan.QuoteBody(append(dst, `,"rules":`...), rule.Text)
	}
	dst = append(dst, `,"say":[`...)
	for i, m := range r.Messages {
		if i > 0 {
			dst = append(dst, ',')
		}
		who := map[bool]string{true: "you", false: "me"}[m.Role == codec.RoleAssistant]
		var text []byte
		for _, p := range m.Parts {
			if p.Kind != codec.PartText {
				r.Notes.Drop(r.Conversation() + ".content")
			}
			text = append(text, p.Text...)
		}
		dst = scan.QuoteBody(fmt.Appendf(dst, `{"who":%q,"text":`, who), text)
		dst = append(dst, '}')
	}
	return append(dst, `]}`...), nil
}

func (toyProvider) NewDecoder() codec.StreamDecoder { return new(toyDecoder) }

type toyDecoder struct{ begun, ended bool }

func (d *toyDecoder) Repeats() bool        { return false }
func (d *toyDecoder) Skipped(*codec.Event) {}
func (d *toyDecoder) Reset()               { *d = toyDecoder{} }

func (d *toyDecoder) Decode(dst []codec.Event, _, data []byte) []codec.Event {
	for m := scan.Object(data); m.Next(); {
		switch string(m.Key) {
		case "by":
			d.begun = true
			dst = append(dst, codec.Event{Kind: codec.EventStart, Model: scan.Body(m.Value)},
				codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemText})
		case "more", "text":
			dst = append(dst, codec.Event{Kind: codec.EventText, Raw: scan.Body(m.Value)})
		case "why":
			d.ended = true
			dst = append(dst, codec.Event{Kind: codec.EventItemClose, Type: codec.ItemText}, codec.Event{Kind: codec.EventFinish, Finish: codec.FinishEnd})
		case "cost":
			var u [2]int64
			for e, i := scan.Array(m.Value), 0; i < len(u) && e.Next(); i++ {
				u[i], _ = scan.Int(e.Value)
			}
			dst = append(dst, codec.Event{Kind: codec.EventUsage, Usage: codec.Usage{InputUncached: u[0], Output: u[1]}})
		case "wrong":
			dst = append(dst, codec.Event{Kind: codec.EventError, Err: codec.Errorf(codec.KindUpstream, "%s", scan.String(m.Value))})
		}
	}
	if d.ended {
		dst = append(dst, codec.Event{Kind: codec.EventEnd, End: codec.EndTerminal})
	}
	return dst
}

func (d *toyDecoder) Finish(dst []codec.Event, end codec.End, _ []byte) []codec.Event {
	if d.ended {
		return dst
	}
	return append(dst, codec.Event{Kind: codec.EventEnd, End: end})
}

func (toyProvider) DecodeAnswer(dst []codec.Event, body []byte, _ string) []codec.Event {
	d := new(toyDecoder)
	return d.Finish(d.Decode(dst, nil, body), codec.EndEOF, nil)
}

func (toyProvider) DecodeError(status int, wait time.Duration, body []byte) *codec.Error {
	e := codec.Errorf(codec.KindUpstream, "%s", scan.String(scan.Get(body, "wrong")))
	e.Status, e.RetryAfter = status, wait
	return e
}
