package codectest

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// summaryWord marks reasoning that is a summary.
const summaryWord = "summary"

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
		codec.ItemServerTool: "server", codec.ItemOpaque: "opaque", codec.ItemImage: "image",
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

// Lines writes events, one per line.
func Lines(events []codec.Event) string {
	var b strings.Builder
	for i := range events {
		b.WriteString(Line(&events[i]) + "\n")
	}
	return b.String()
}

// Line writes an event.
func Line(ev *codec.Event) string {
	word := kindWords[ev.Kind]
	switch ev.Kind {
	case codec.EventStart:
		line := fmt.Sprintf("%s id=%s model=%s", word, ev.ID, ev.Model)
		if ev.Created != 0 {
			line += fmt.Sprintf(" created=%d", ev.Created)
		}
		if !ev.Usage.IsZero() {
			line += " " + usage(ev.Usage)
		}
		return line
	case codec.EventItemOpen:
		line := fmt.Sprintf("%s %d %s", word, ev.Item, typeWords[ev.Type])
		if ev.CallID != nil || ev.Name != nil {
			line += fmt.Sprintf(" id=%s name=%s", ev.CallID, ev.Name)
		}
		if ev.Namespace != nil {
			line += fmt.Sprintf(" namespace=%s", ev.Namespace)
		}
		if ev.ID != nil {
			line += fmt.Sprintf(" item=%s", ev.ID)
		}
		if ev.Raw != nil {
			line += fmt.Sprintf(" proof=%s by=%s", ev.Raw, ev.Family)
		}
		return line
	case codec.EventReasoning:
		if ev.Summary {
			word = summaryWord
		}
		return fmt.Sprintf("%s %d/%d %s", word, ev.Item, ev.Sub, ev.Raw)
	case codec.EventSignature:
		line := fmt.Sprintf("%s %d %s", word, ev.Item, ev.Raw)
		if ev.Family != codec.FamilyOther {
			line += " by " + ev.Family.String()
		}
		return line
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
		return word + " " + usage(ev.Usage)
	case codec.EventError:
		line := fmt.Sprintf("%s %s: %s", word, ev.Err.Kind, ev.Err.Message)
		if ev.Err.Code != "" {
			line += " code=" + ev.Err.Code
		}
		if ev.Err.Status != 0 {
			line += fmt.Sprintf(" status=%d", ev.Err.Status)
		}
		if ev.Err.RetryAfter != 0 {
			line += " retry=" + ev.Err.RetryAfter.String()
		}
		return line
	case codec.EventEnd:
		return word + " " + endWords[ev.End]
	}
	return word
}

func usage(u codec.Usage) string {
	return fmt.Sprintf("in=%d read=%d write=%d out=%d think=%d", u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning)
}

// Parse parses the output of [Line].
func Parse(line string) (codec.Event, error) {
	word, rest, _ := strings.Cut(line, " ")
	ev := codec.Event{Whole: strings.HasSuffix(word, "!"), Summary: word == summaryWord}
	if ev.Summary {
		ev.Kind = codec.EventReasoning
	}
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
	if ev.Kind == codec.EventSignature {
		rest, _, _ = strings.Cut(rest, " by ")
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
