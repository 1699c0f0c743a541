package chat_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/internal/transcript"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

var asked = codec.AnswerOptions{
	ID: "01h", Model: "asked", Created: time.Unix(1795168000, 0), IncludeUsage: true, ShowReasoning: true, EstimatedInput: 12,
}

// A transcript of a stream: what the provider sends (<<), what it means, what the client is sent (>>). "<< EOF" and
// "<< broken" stand for the end of the connection, "<< residue …" for bytes without a frame end before it.
func TestStreams(t *testing.T) {
	transcript.Each(t, "stream", func(t *testing.T, recorded string) string {
		var out strings.Builder
		var sent, residue []byte
		decoder, encoder := chat.Provider().NewDecoder(), chat.Client().NewEncoder(&asked)
		for line := range strings.Lines(recorded) {
			line = strings.TrimSuffix(line, "\n")
			frame, fed := strings.CutPrefix(line, "<< ")
			if strings.HasPrefix(line, "# ") || line == "" {
				out.WriteString(line + "\n")
			}
			if !fed {
				continue
			}
			out.WriteString(line + "\n")
			if rest, ok := strings.CutPrefix(frame, "residue "); ok {
				residue = []byte(rest)
				continue
			}
			var events []codec.Event
			switch frame {
			case "EOF":
				events = decoder.Finish(nil, codec.EndEOF, residue)
			case "broken":
				events = decoder.Finish(nil, codec.EndBroken, residue)
			default:
				events = decoder.Decode(nil, nil, []byte(frame))
			}
			for i := range events {
				out.WriteString("     " + show(&events[i]) + "\n")
				before := len(sent)
				sent = encoder.Append(sent, &events[i])
				for part := range strings.SplitSeq(strings.TrimSuffix(string(sent[before:]), "\n\n"), "\n\n") {
					if part != "" {
						out.WriteString(">> " + brief(part) + "\n")
					}
				}
			}
		}
		if err := grammar.Chat(sent); err != nil {
			t.Errorf("the client's stream: %v\n%s", err, sent)
		}
		return out.String()
	})
}

// brief leaves out of a chunk what is the same in all of them.
func brief(frame string) string {
	frame = strings.TrimPrefix(frame, "data: ")
	frame = strings.Replace(frame, `"id":"chatcmpl-01h","object":"chat.completion.chunk","created":1795168000,`, "", 1)
	return strings.Replace(frame, `,"usage":null`, "", 1)
}

// A transcript of complete answers: what the provider sends (<<), what it means, what the client is sent (>>).
func TestCompleteAnswers(t *testing.T) {
	transcript.Each(t, "answer", func(t *testing.T, recorded string) string {
		var out strings.Builder
		for line := range strings.Lines(recorded) {
			line = strings.TrimSuffix(line, "\n")
			body, fed := strings.CutPrefix(line, "<< ")
			if strings.HasPrefix(line, "# ") || line == "" || fed {
				out.WriteString(line + "\n")
			}
			if !fed {
				continue
			}
			var answer codec.Answer
			for _, ev := range chat.Provider().DecodeAnswer(nil, []byte(body)) {
				out.WriteString("     " + show(&ev) + "\n")
				answer.Add(&ev)
			}
			var sent []byte
			if answer.Err != nil {
				sent = chat.Client().AppendError(nil, answer.Err, &asked)
			} else {
				sent = chat.Client().AppendAnswer(nil, &answer, &asked)
			}
			if !scan.Valid(sent) {
				t.Errorf("not JSON: %s", sent)
			}
			out.WriteString(">> " + string(sent) + "\n")
		}
		return out.String()
	})
}

// show prints an event in a line.
func show(ev *codec.Event) string {
	switch ev.Kind {
	case codec.EventStart:
		return fmt.Sprintf("start %s %s %d", ev.ID, ev.Model, ev.Created)
	case codec.EventItemOpen:
		line := fmt.Sprintf("open %d %s", ev.Item, itemNames[ev.Type])
		if ev.Type == codec.ItemToolCall || ev.Type == codec.ItemCustomCall {
			line += fmt.Sprintf(" id=%s name=%s", ev.CallID, ev.Name)
		}
		return line
	case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventArguments, codec.EventCustomInput:
		return fmt.Sprintf("%s %d |%s|", eventNames[ev.Kind], ev.Item, ev.Raw)
	case codec.EventSignature:
		return fmt.Sprintf("signature %d |%s| %s", ev.Item, ev.Raw, ev.Family)
	case codec.EventAnnotation:
		return fmt.Sprintf("annotation %d %s (%s)", ev.Item, ev.Raw, ev.Origin)
	case codec.EventItemClose:
		return strings.TrimRight(fmt.Sprintf("close %d %s", ev.Item, ev.Raw), " ")
	case codec.EventFinish:
		return "finish " + finishNames[ev.Finish]
	case codec.EventUsage:
		u := ev.Usage
		return fmt.Sprintf("usage input=%d read=%d write=%d output=%d reasoning=%d", u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning)
	case codec.EventError:
		return fmt.Sprintf("error %s: %s (code %q, status %d)", ev.Err.Kind, ev.Err.Message, ev.Err.Code, ev.Err.Status)
	case codec.EventEnd:
		return "end " + [...]string{"", "terminal", "eof", "broken", "cancelled"}[ev.End]
	case codec.EventPing:
		return "ping"
	}
	return fmt.Sprintf("event %d", ev.Kind)
}

var (
	itemNames   = [...]string{"", "text", "refusal", "reasoning", "redacted", "call", "custom call", "server tool", "opaque"}
	finishNames = [...]string{"unknown", "end", "stop sequence", "length", "context", "tool calls", "filter", "pause", "malformed call"}
	eventNames  = map[codec.EventKind]string{
		codec.EventText: "text", codec.EventRefusal: "refusal", codec.EventReasoning: "reasoning",
		codec.EventArguments: "arguments", codec.EventCustomInput: "input",
	}
)
