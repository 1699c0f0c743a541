package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// codex keeps a file of lines for each session: items of the Responses API as they were sent and received, and notes.
var codex = client{
	name: "codex", what: "a file or folder of ~/.codex/sessions", shape: &responsesShape,
	find: func(ctx context.Context, s *Search) ([]File, error) {
		files, err := under(ctx, s, s.in("CODEX_HOME", ".codex", "sessions"), hasSuffix(".jsonl"))
		if err != nil || s.Path != "" {
			return files, err
		}
		archived, err := under(ctx, s, s.in("CODEX_HOME", ".codex", "archived_sessions"), hasSuffix(".jsonl"))
		return append(files, archived...), err
	},
	read: func(r *reader, from io.Reader) error {
		f := codexFile{reader: r}
		if r.mark != nil {
			f.key = r.mark.thread.key
		}
		return r.eachLine(from, f.line)
	},
}

// codexFile is the state shared by the lines of a file.
type codexFile struct {
	*reader
	key sessionKey
}

type codexLine struct {
	Time    time.Time       `json:"timestamp"`
	Type    string          `json:"type"`
	Payload json.RawMessage `json:"payload"`
}

type codexMeta struct {
	ID         string `json:"id"`
	Directory  string `json:"cwd"`
	Originator string `json:"originator"`
	Version    string `json:"cli_version"`
	Model      string `json:"model"`
}

type codexUsage struct {
	Response string       `json:"response_id"`
	Usage    *codexTokens `json:"usage"`
	Info     *struct {
		Last *codexTokens `json:"last_token_usage"`
	} `json:"info"`
}

type codexTokens struct {
	Input      int64 `json:"input_tokens"`
	CacheRead  int64 `json:"cached_input_tokens"`
	CacheWrite int64 `json:"cache_write_input_tokens"`
	Output     int64 `json:"output_tokens"`
	Reasoning  int64 `json:"reasoning_output_tokens"`
}

func (f *codexFile) line(text []byte) error {
	var line codexLine
	if err := f.unmarshal(text, &line); err != nil {
		return err
	}
	if line.Type != "session_meta" && f.key.id == "" {
		f.skip(line.Type) // its session is unknown
		return nil
	}
	switch line.Type {
	case "session_meta":
		return f.meta(line.Payload)
	case "turn_context":
		var meta codexMeta
		err := f.unmarshal(line.Payload, &meta)
		t := f.thread(f.key)
		t.model, t.project = cmp.Or(meta.Model, t.model), cmp.Or(meta.Directory, t.project)
		return err
	case "response_item":
		return f.item(&line)
	case "event_msg":
		if !bytes.Contains(line.Payload, []byte(`"token_count"`)) {
			return nil
		}
		return f.usage(&line)
	case "token_usage_record":
		return f.usage(&line)
	case "compacted", "world_state":
	default:
		f.skip(line.Type)
	}
	return nil
}

func (f *codexFile) meta(payload []byte) error {
	var meta codexMeta
	if err := f.unmarshal(payload, &meta); err != nil {
		return err
	}
	id := native(meta.ID)
	if id == "" || f.key.id != "" { // a fork repeats the metadata of the session it continues
		return nil
	}
	f.known++
	f.key = sessionKey{id: id}
	t := f.thread(f.key)
	t.project = meta.Directory
	t.agent = strings.TrimSuffix(cmp.Or(meta.Originator, "codex_exec")+"/"+meta.Version, "/")
	return nil
}

func (f *codexFile) item(line *codexLine) error {
	var item struct {
		Type string `json:"type"`
		Role string `json:"role"`
	}
	if err := f.unmarshal(line.Payload, &item); err != nil {
		return err
	}
	t := f.thread(f.key)
	switch {
	case item.Type == "additional_tools":
		return nil
	case strings.HasSuffix(item.Type, "_output"), item.Type == "message" && item.Role != "assistant":
		return t.ask(line.Payload, line.Time)
	case item.Type == "message", item.Type == "reasoning", strings.HasSuffix(item.Type, "_call"):
	default:
		f.skip(item.Type)
		return nil
	}
	if t.answer != nil && !t.answer.over {
		_, err := t.answers(t.answer.name, line.Payload, line.Time)
		return err
	}
	_, err := t.answers(f.key.id+"/"+strconv.Itoa(f.number+1), line.Payload, line.Time)
	f.number++
	return err
}

// usage reads the token counts of an answer, which follow it; newer versions write them twice.
func (f *codexFile) usage(line *codexLine) error {
	var u codexUsage
	if err := f.unmarshal(line.Payload, &u); err != nil {
		return err
	}
	t := f.thread(f.key)
	tokens := u.Usage
	if u.Info != nil {
		tokens = u.Info.Last
	}
	if t.answer == nil || tokens == nil {
		return nil
	}
	t.answer.over = true
	t.answer.id = cmp.Or(native(u.Response), t.answer.id)
	t.answer.usage = record.UsageInfo{
		InputUncached: tokens.Input - tokens.CacheRead - tokens.CacheWrite, CacheRead: tokens.CacheRead, CacheWrite: tokens.CacheWrite,
		Output: tokens.Output, Reasoning: tokens.Reasoning,
	}
	return nil
}
