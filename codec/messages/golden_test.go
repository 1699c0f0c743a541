package messages_test

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/internal/transcript"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// replay rewrites a transcript. It holds what goes in, a line beginning with "> " each, and what comes out, indented
// under it. Lines beginning with "#" tell the story. Events are written as scribe and parseEvent have it.
func replay(recorded string, step func(in string) string) string {
	var told strings.Builder
	for line := range strings.Lines(recorded) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "#") {
			told.WriteString(line + "\n")
			continue
		}
		in, found := strings.CutPrefix(line, "> ")
		if !found {
			continue
		}
		told.WriteString(line + "\n")
		for out := range strings.Lines(step(in)) {
			told.WriteString("    " + strings.TrimRight(out, "\n") + "\n")
		}
	}
	return told.String()
}

// Provider frames in, events out. A line is the data of a frame; "@name" before it is its event line, "EOF", "BROKEN"
// and "CANCELLED" end the stream, with what is left over after them.
func TestStreamDecodeTranscripts(t *testing.T) {
	transcript.Each(t, "stream_decode", func(_ *testing.T, recorded string) string {
		d := messages.Provider().NewDecoder()
		return replay(recorded, func(in string) string { return scribe(decodeStep(d, in)) })
	})
}

func decodeStep(d codec.StreamDecoder, in string) []codec.Event {
	word, rest, _ := strings.Cut(in, " ")
	switch word {
	case "EOF":
		return d.Finish(nil, codec.EndEOF, []byte(rest))
	case "BROKEN":
		return d.Finish(nil, codec.EndBroken, []byte(rest))
	case "CANCELLED":
		return d.Finish(nil, codec.EndCancelled, []byte(rest))
	}
	if name, named := strings.CutPrefix(word, "@"); named {
		return d.Decode(nil, []byte(name), []byte(rest))
	}
	return d.Decode(nil, nil, []byte(in))
}

// Events in, client frames out; every transcript is a well-formed stream.
func TestStreamEncodeTranscripts(t *testing.T) {
	transcript.Each(t, "stream_encode", func(t *testing.T, recorded string) string {
		e := messages.Client().NewEncoder(options())
		var stream []byte
		told := replay(recorded, func(in string) string {
			ev, err := parseEvent(in)
			if err != nil {
				t.Fatalf("%q: %v", in, err)
			}
			from := len(stream)
			stream = e.Append(stream, &ev)
			return strings.ReplaceAll(string(stream[from:]), "\n\n", "\n")
		})
		if err := grammar.Messages(stream); err != nil {
			t.Error(err)
		}
		return told
	})
}

func options() *codec.AnswerOptions {
	return &codec.AnswerOptions{ID: "01x", Model: "claude-x", ShowReasoning: true, EstimatedInput: 900}
}

var (
	kindWords = map[codec.EventKind]string{
		codec.EventStart: "start", codec.EventItemOpen: "open", codec.EventText: "text", codec.EventRefusal: "refusal",
		codec.EventReasoning: "reasoning", codec.EventSignature: "signature", codec.EventArguments: "arguments",
		codec.EventCustomInput: "custom", codec.EventAnnotation: "annotation", codec.EventItemClose: "close",
		codec.EventFinish: "finish", codec.EventUsage: "usage", codec.EventError: "error", codec.EventPing: "ping",
		codec.EventEnd: "end",
	}
	typeWords = map[codec.ItemType]string{
		codec.ItemText: "text", codec.ItemRefusal: "refusal", codec.ItemReasoning: "reasoning",
		codec.ItemRedacted: "redacted", codec.ItemToolCall: "call", codec.ItemCustomCall: "custom",
		codec.ItemServerTool: "server", codec.ItemOpaque: "opaque",
	}
	finishWords = map[codec.FinishReason]string{
		codec.FinishUnknown: "unknown", codec.FinishEnd: "end", codec.FinishStopSequence: "stop",
		codec.FinishLength: "length", codec.FinishContext: "context", codec.FinishToolCalls: "calls",
		codec.FinishFilter: "filter", codec.FinishPause: "pause", codec.FinishMalformedCall: "malformed",
	}
	endWords = map[codec.End]string{
		codec.EndTerminal: "terminal", codec.EndEOF: "eof", codec.EndBroken: "broken", codec.EndCancelled: "cancelled",
	}
)

// scribe writes events, one a line.
func scribe(events []codec.Event) string {
	var b strings.Builder
	for i := range events {
		b.WriteString(scribeEvent(&events[i]) + "\n")
	}
	return b.String()
}

func scribeEvent(ev *codec.Event) string {
	word := kindWords[ev.Kind]
	switch ev.Kind {
	case codec.EventStart:
		return fmt.Sprintf("%s id=%s model=%s %s", word, ev.ID, ev.Model, scribeUsage(ev.Usage))
	case codec.EventItemOpen:
		line := fmt.Sprintf("%s %d %s", word, ev.Item, typeWords[ev.Type])
		if ev.CallID != nil || ev.Name != nil {
			line += fmt.Sprintf(" id=%s name=%s", ev.CallID, ev.Name)
		}
		return line
	case codec.EventReasoning:
		return fmt.Sprintf("%s %d/%d %s", word, ev.Item, ev.Sub, ev.Raw)
	case codec.EventSignature:
		return fmt.Sprintf("%s %d %s", word, ev.Item, ev.Raw)
	case codec.EventArguments, codec.EventCustomInput:
		if ev.Whole {
			word += "!"
		}
		return fmt.Sprintf("%s %d %s", word, ev.Item, ev.Raw)
	case codec.EventText, codec.EventRefusal:
		return fmt.Sprintf("%s %d %s", word, ev.Item, ev.Raw)
	case codec.EventAnnotation:
		return fmt.Sprintf("%s %d %s %s", word, ev.Item, ev.Origin, ev.Raw)
	case codec.EventItemClose:
		if ev.Raw != nil {
			return fmt.Sprintf("%s %d %s %s", word, ev.Item, ev.Origin, ev.Raw)
		}
		return fmt.Sprintf("%s %d", word, ev.Item)
	case codec.EventFinish:
		return strings.TrimSpace(fmt.Sprintf("%s %s %s", word, finishWords[ev.Finish], ev.Raw))
	case codec.EventUsage:
		return word + " " + scribeUsage(ev.Usage)
	case codec.EventError:
		return fmt.Sprintf("%s %s: %s", word, ev.Err.Kind, ev.Err.Message)
	case codec.EventEnd:
		return word + " " + endWords[ev.End]
	}
	return word
}

func scribeUsage(u codec.Usage) string {
	return fmt.Sprintf("in=%d read=%d write=%d out=%d think=%d", u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning)
}

// parseEvent reads a line as scribe writes it.
func parseEvent(line string) (codec.Event, error) {
	word, rest, _ := strings.Cut(line, " ")
	whole := strings.HasSuffix(word, "!")
	ev := codec.Event{Whole: whole}
	for kind, known := range kindWords {
		if known == strings.TrimSuffix(word, "!") {
			ev.Kind = kind
		}
	}
	switch ev.Kind {
	case codec.EventNone:
		return ev, fmt.Errorf("unknown event %q", word)
	case codec.EventStart, codec.EventUsage:
		for pair := range strings.FieldsSeq(rest) {
			name, value, _ := strings.Cut(pair, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch name {
			case "id":
				ev.ID = []byte(value)
			case "model":
				ev.Model = []byte(value)
			case "in":
				ev.Usage.InputUncached = n
			case "read":
				ev.Usage.CacheRead = n
			case "write":
				ev.Usage.CacheWrite = n
			case "out":
				ev.Usage.Output = n
			case "think":
				ev.Usage.Reasoning = n
			}
		}
		return ev, nil
	case codec.EventFinish:
		reason, sequence, _ := strings.Cut(rest, " ")
		ev.Raw = []byte(sequence)
		return ev, find(finishWords, reason, &ev.Finish)
	case codec.EventEnd:
		return ev, find(endWords, rest, &ev.End)
	case codec.EventError:
		_, message, _ := strings.Cut(rest, ": ")
		ev.Err = &codec.Error{Kind: codec.KindOverloaded, Message: message}
		return ev, nil
	case codec.EventPing:
		return ev, nil
	}
	number, rest, _ := strings.Cut(rest, " ")
	item, sub, _ := strings.Cut(number, "/")
	n, err := strconv.ParseInt(item, 10, 32)
	if err != nil {
		return ev, err
	}
	ev.Item = int32(n)
	n, _ = strconv.ParseInt(sub, 10, 32)
	ev.Sub = int32(n)
	switch ev.Kind {
	case codec.EventItemOpen:
		fields := strings.Fields(rest)
		for _, pair := range fields[1:] {
			if id, found := strings.CutPrefix(pair, "id="); found {
				ev.CallID = []byte(id)
			}
			if name, found := strings.CutPrefix(pair, "name="); found {
				ev.Name = []byte(name)
			}
		}
		return ev, find(typeWords, fields[0], &ev.Type)
	case codec.EventAnnotation, codec.EventItemClose:
		if rest == "" {
			return ev, nil
		}
		format, raw, _ := strings.Cut(rest, " ")
		ev.Raw = []byte(raw)
		ev.Origin, err = codec.ParseFormat(format)
		return ev, err
	}
	ev.Raw = []byte(rest)
	return ev, nil
}

func find[K comparable](words map[K]string, word string, into *K) error {
	for key, known := range words {
		if known == word {
			*into = key
			return nil
		}
	}
	return fmt.Errorf("unknown word %q", word)
}

// encode writes the stream of a sequence of events.
func encode(o *codec.AnswerOptions, events []codec.Event) []byte {
	e := messages.Client().NewEncoder(o)
	var stream []byte
	for i := range events {
		stream = e.Append(stream, &events[i])
	}
	return stream
}

// fold folds a sequence of events into an answer.
func fold(events []codec.Event) *codec.Answer {
	a := new(codec.Answer)
	for i := range events {
		a.Add(&events[i])
	}
	return a
}

// events reads lines as scribe writes them; blank lines are skipped.
func events(t testing.TB, text string) []codec.Event {
	t.Helper()
	var list []codec.Event
	for line := range strings.Lines(text) {
		line = strings.TrimRight(strings.TrimLeft(line, "\t"), "\n")
		if line == "" {
			continue
		}
		ev, err := parseEvent(line)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, ev)
	}
	return list
}

// copied is a deep copy of what the events point to, for events that outlive the decoder's next call.
func copied(list []codec.Event) []codec.Event {
	for i := range list {
		ev := &list[i]
		for _, view := range []*[]byte{&ev.Raw, &ev.ID, &ev.Model, &ev.CallID, &ev.Name, &ev.Namespace} {
			*view = bytes.Clone(*view)
		}
	}
	return list
}
