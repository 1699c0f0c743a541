package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/recall"
)

// RecallRequest asks what earlier sessions say about a question. With Event it is the body of a client's hook, and is
// answered in the form that hooks are.
type RecallRequest struct {
	Prompt    string `json:"prompt,omitempty"`
	Project   string `json:"project,omitempty"`    // or cwd; X-Service-Project wins
	Directory string `json:"cwd,omitempty"`        // that the client works in
	Session   string `json:"session_id,omitempty"` // that asks, by any of its ids: it is not told what it said, nor anything twice
	MaxTokens int    `json:"max_tokens,omitempty"` // 0: 400
	Scope     string `json:"scope,omitempty"`      // project (default) or account

	Event  string `json:"hook_event_name,omitempty"` // UserPromptSubmit or SessionStart
	Source string `json:"source,omitempty"`          // of the event
}

// Recalled is the answer.
type Recalled struct {
	Object string `json:"object"` // "memory.recall"
	recall.Recalled
}

// Events of hooks that are answered.
const (
	eventPrompt = "UserPromptSubmit"
	eventStart  = "SessionStart"
)

// hookAnswer is what a hook of Claude Code or Codex gives back (docs/wire/clients.md). Without a text it is an empty object.
type hookAnswer struct {
	Output *hookOutput `json:"hookSpecificOutput,omitempty"`
}

type hookOutput struct {
	Event   string `json:"hookEventName"`
	Context string `json:"additionalContext"`
}

const headerProject = "X-Service-Project"

func (a *api) recall(c *call) (any, error) {
	if a.Recaller == nil {
		return nil, codec.Errorf(codec.KindNotFound, "Nothing is recalled from this memory.")
	}
	asked, err := readRecall(c)
	if err != nil {
		return nil, err
	}
	if project := c.r.Header.Get(headerProject); project != "" {
		asked.Project = project
	}
	if asked.Project == "" {
		asked.Project = asked.Directory
	}
	if asked.Event == "" {
		if asked.Prompt == "" {
			return nil, codec.Invalid("prompt", "say what is asked, in prompt")
		}
		return Recalled{"memory.recall", a.offer(c, asked)}, nil
	}
	var r recall.Recalled
	switch {
	case asked.Event == eventPrompt && asked.byPerson():
		r = a.offer(c, asked)
	case asked.Event == eventStart && (asked.Source == "startup" || asked.Source == "clear" || asked.Source == ""):
		r = a.Recaller.Digest(c.ctx(), c.account, asked.Project, asked.Session)
	}
	if r.Text == "" {
		return hookAnswer{}, nil
	}
	return hookAnswer{&hookOutput{asked.Event, r.Text}}, nil
}

func (a *api) offer(c *call, asked *RecallRequest) recall.Recalled {
	return a.Recaller.Offer(c.ctx(), &recall.Query{
		Account: c.account, Prompt: asked.Prompt, Project: asked.Project, Wide: asked.Scope == "account",
		Session: asked.Session, Tokens: asked.MaxTokens,
	})
}

// byPerson reports whether a prompt was typed, and not sent by the client on its own.
func (r *RecallRequest) byPerson() bool {
	switch r.Source {
	case "system", "poll_event", "loop_wakeup", "schedule_wakeup":
		return false
	}
	return true
}

// readRecall reads a request. Bodies of hooks have members that come and go with the client's versions; those of anybody else
// are held to what there is.
func readRecall(c *call) (*RecallRequest, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxBody))
	if err != nil {
		var tooLarge *http.MaxBytesError
		if errors.As(err, &tooLarge) {
			return nil, codec.Errorf(codec.KindTooLarge, "The body has more than %d bytes.", maxBody)
		}
		return nil, malformed(err)
	}
	asked := new(RecallRequest)
	if err := json.Unmarshal(body, asked); err != nil {
		return nil, malformed(err)
	}
	if asked.Event == "" {
		if err := decodeStrictly(bytes.NewReader(body), asked); err != nil {
			return nil, malformed(err)
		}
	}
	switch {
	case asked.Scope != "" && asked.Scope != "project" && asked.Scope != "account":
		return nil, codec.Invalid("scope", "there is no scope %q; there are project and account", asked.Scope)
	case asked.MaxTokens < 0 || asked.MaxTokens > recall.MaxTokens:
		return nil, codec.Invalid("max_tokens", "max_tokens is a number from 1 to %d", recall.MaxTokens)
	}
	return asked, nil
}
