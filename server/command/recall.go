package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/agent"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/recall"
)

// Recall is "mneme recall".
type Recall struct {
	Target       `embed:""`
	AccountFlag  `embed:""`
	Prompt       []string `arg:"" optional:"" help:"The question, or the text of an error."`
	Project      string   `placeholder:"DIR" help:"The project's directory (default: this one); \"all\" for every one."`
	MaxTokens    int      `placeholder:"N" help:"Limit of the text, in tokens (default: 1000)."`
	SessionStart bool     `help:"Show recent work in the directory instead."`
	Hook         bool     `help:"Serve as an agent's hook: read the event from standard input, and write what the agent should know. Uses $$MNEME_KEY and $$MNEME_URL where they are set. Fails silently."`
	Model        string   `placeholder:"NAME" help:"With --hook: the model that the agent was started with, where its events do not name it."`
	JSON         bool     `help:"Write the answer as JSON."`
}

// recallTokens is how much is shown by default.
const recallTokens = 1000

// maxEvent bounds the event on a hook's input, in bytes.
const maxEvent = 1 << 20

// Run recalls and writes what it finds, or the reason for silence.
func (c *Recall) Run(ctx context.Context, s *Env) error {
	if c.Hook {
		answer, err := c.hook(ctx, s.In)
		if err != nil { // a prompt must neither wait for the memory nor fail with it
			fmt.Fprintln(s.Err, "mneme: recall:", err)
			return nil
		}
		fmt.Fprintln(s.Out, string(answer))
		return nil
	}
	asked, err := c.request()
	if err != nil {
		return err
	}
	return c.manageIndex(ctx, false, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		if c.SessionStart {
			return c.digest(ctx, s, client, account, asked.Directory)
		}
		answer, err := client.Memory().Recall(ctx, account, asked)
		if err != nil {
			return err
		}
		switch {
		case c.JSON:
			return writeJSON(s.Out, answer)
		case answer.Text == "":
			fmt.Fprintln(s.Err, "nothing is recalled:", answer.Reason.Sentence())
			if asked.Scope == "" && (answer.Reason == recall.ReasonCoverage || answer.Reason == recall.ReasonScope) {
				fmt.Fprintln(s.Err, "that was in one project; ask all of them with --project all, or search: mneme search WORDS")
			}
			return nil
		}
		fmt.Fprintln(s.Out, answer.Text)
		return nil
	})
}

func (c *Recall) request() (*api.RecallRequest, error) {
	asked := &api.RecallRequest{Prompt: strings.Join(c.Prompt, " "), MaxTokens: cmp.Or(c.MaxTokens, recallTokens), Directory: c.Project, Asked: true}
	if asked.Prompt == "" && !c.SessionStart {
		return nil, errors.New("give a question, or --session-start")
	}
	switch c.Project {
	case "all":
		asked.Scope, asked.Directory = "account", ""
	case "":
		directory, err := os.Getwd()
		if err != nil {
			return nil, err
		}
		asked.Directory = directory
	}
	return asked, nil
}

// digest asks like the hook of a starting session.
func (c *Recall) digest(ctx context.Context, s *Env, client *admin.Client, account, directory string) error {
	event, err := json.Marshal(api.RecallRequest{Event: "SessionStart", Source: "startup", Directory: directory})
	if err != nil {
		return err
	}
	answer, err := client.Memory().RecallHook(ctx, account, event)
	if err != nil {
		return err
	}
	if c.JSON {
		fmt.Fprintln(s.Out, string(answer))
		return nil
	}
	var text api.HookAnswer
	if err := json.Unmarshal(answer, &text); err != nil {
		return err
	}
	if text.Output == nil {
		fmt.Fprintln(s.Err, "nothing of the last two weeks is on record for this directory")
		return nil
	}
	fmt.Fprintln(s.Out, text.Output.Context)
	return nil
}

// hookTime is how long a hook waits for the server.
const hookTime = 2 * time.Second

// hook forwards an event: with a key by one request to the server, without one over the management socket.
func (c *Recall) hook(ctx context.Context, in io.Reader) (answer json.RawMessage, err error) {
	event, err := io.ReadAll(io.LimitReader(in, maxEvent+1))
	if err != nil {
		return nil, err
	}
	if len(event) > maxEvent || !json.Valid(event) {
		return nil, errors.New("standard input is not an event of a hook")
	}
	event = withModel(event, c.Model)
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	_, saved, err := c.elsewhere()
	if err != nil {
		return nil, err
	}
	if key := cmp.Or(strings.TrimSpace(os.Getenv(envKey)), saved); key != "" {
		return c.post(ctx, key, event)
	}
	err = c.manage(ctx, mustExist, func(client *admin.Client) error {
		if client.InProcess() {
			return errors.New("no server runs on this data")
		}
		account, err := c.one(ctx, client)
		if err == nil {
			answer, err = client.Memory().RecallHook(ctx, account, event)
		}
		return err
	})
	return answer, err
}

func (c *Recall) post(ctx context.Context, key string, event []byte) (json.RawMessage, error) {
	origin, err := c.origin(ctx)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, origin+"/v1/memory/recall", bytes.NewReader(event))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxEvent))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers HTTP %d", origin, response.StatusCode)
	}
	return bytes.TrimSpace(answer), err
}

// startedWith returns the model in an agent's arguments, or in the environment of Claude Code; "" for none.
func startedWith(args []string) string {
	name := os.Getenv("ANTHROPIC_MODEL")
	for i, arg := range args {
		if value, found := strings.CutPrefix(arg, "--model="); found {
			name = value
		} else if arg == "--model" && i+1 < len(args) {
			name = args[i+1]
		}
	}
	return name
}

// recaller returns the command that an agent's hooks run for recall; "" if they do not. model is the one that the agent is
// started with; "": unknown.
func recaller(wanted bool, model string) string {
	if !wanted {
		return ""
	}
	program, err := os.Executable()
	if err != nil {
		program = "mneme"
	}
	command := agent.ShellWord(program) + " recall --hook"
	if model != "" {
		command += " --model " + agent.ShellWord(model)
	}
	return command
}
