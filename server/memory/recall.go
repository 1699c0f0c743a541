package memory

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/recall"
)

// Events of hooks that are answered.
const (
	eventPrompt = "UserPromptSubmit"
	eventStart  = "SessionStart"
)

const headerProject = "X-Service-Project"

func (h *handler) recall(c *call) (any, error) {
	if h.Recaller == nil {
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
		return api.Recalled{Object: "memory.recall", Recalled: h.offer(c, asked)}, nil
	}
	var r recall.Recalled
	switch {
	case asked.Event == eventPrompt && byPerson(asked):
		r = h.offer(c, asked)
	case asked.Event == eventStart && (asked.Source == "startup" || asked.Source == "clear" || asked.Source == ""):
		r = h.Recaller.Digest(c.ctx(), c.account, asked.Project, asked.Session)
	}
	if r.Text == "" {
		return api.HookAnswer{}, nil
	}
	return api.HookAnswer{Output: &api.HookOutput{Event: asked.Event, Context: r.Text}}, nil
}

func (h *handler) offer(c *call, asked *api.RecallRequest) recall.Recalled {
	return h.Recaller.Offer(c.ctx(), &recall.Query{
		Account: c.account, Prompt: asked.Prompt, Project: asked.Project, Wide: asked.Scope == "account",
		Session: asked.Session, Tokens: asked.MaxTokens,
	})
}

// byPerson reports whether a prompt was typed, and not sent by the client on its own.
func byPerson(r *api.RecallRequest) bool {
	switch r.Source {
	case "system", "poll_event", "loop_wakeup", "schedule_wakeup":
		return false
	}
	return true
}

// readRecall reads a request. Bodies of hooks have members that come and go with the client's versions; those of anybody else
// are held to what there is.
func readRecall(c *call) (*api.RecallRequest, error) {
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
	asked := new(api.RecallRequest)
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
