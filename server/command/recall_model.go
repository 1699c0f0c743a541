package command

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"regexp"
	"strings"
)

// withModel adds to the event of a hook the model that the agent is going to ask, if the event does not name it: to the start
// of a session the one that the agent was started with, and to a prompt the one that the person has chosen since the last answer.
func withModel(event []byte, started string) []byte {
	members := make(map[string]json.RawMessage)
	if json.Unmarshal(event, &members) != nil || members["model"] != nil {
		return event
	}
	var named struct {
		Event      string `json:"hook_event_name"`
		Transcript string `json:"transcript_path"`
	}
	_ = json.Unmarshal(event, &named) // what is no text names nothing
	model := ""
	switch named.Event {
	case "SessionStart":
		model = started
	case "UserPromptSubmit":
		model = chosenModel(named.Transcript)
	}
	if model == "" {
		return event
	}
	members["model"], _ = json.Marshal(model) //nolint:errchkjson // a text has no fault
	whole, err := json.Marshal(members)
	if err != nil {
		return event
	}
	return whole
}

// lastOfTranscript is how much of the end of a transcript is read, in bytes.
const lastOfTranscript = 128 << 10

// chosenModel returns the model that a person has chosen with /model since the last answer in a transcript of Claude Code; "" for
// none. Its hooks name no model.
func chosenModel(transcript string) string {
	if transcript == "" {
		return ""
	}
	f, err := os.Open(transcript)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return ""
	}
	end := make([]byte, min(size, lastOfTranscript))
	if _, err := f.ReadAt(end, size-int64(len(end))); err != nil {
		return ""
	}
	model := ""
	for line := range bytes.Lines(end) {
		var l struct {
			Type    string `json:"type"`
			Message struct {
				Content any `json:"content"`
			} `json:"message"`
		}
		if json.Unmarshal(line, &l) != nil {
			continue // the rest of one that began before
		}
		switch said, _ := l.Message.Content.(string); {
		case l.Type == "assistant":
			model = ""
		case l.Type == "user" && modelSet.MatchString(said):
			model = claudeModel(modelSet.FindStringSubmatch(said)[1])
		}
	}
	return model
}

// modelSet is how Claude Code notes a choice: with the model's name for people, or its whole name.
var modelSet = regexp.MustCompile("^<local-command-stdout>Set model to (?:\x1b\\[[0-9;]*m)*([A-Za-z][A-Za-z0-9.-]*(?: [0-9][0-9.]*)?)")

// claudeModel returns the name of a model for programs: of Opus 4.8 it is claude-opus-4-8.
func claudeModel(name string) string {
	family, version, versioned := strings.Cut(name, " ")
	if !versioned {
		return strings.ToLower(name)
	}
	return "claude-" + strings.ToLower(family) + "-" + strings.ReplaceAll(version, ".", "-")
}
