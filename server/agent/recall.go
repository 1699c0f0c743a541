package agent

import (
	"fmt"
	"strings"
)

// EnvURL is the variable with the server's URL for the recall command.
const EnvURL = "MNEME_URL"

// hookSeconds is how long an agent waits for its memory.
const hookSeconds = 2

// claudeHooks returns the settings with which Claude Code asks at every prompt and at the start of a session
// (docs/recall.md). It skips HTTP hooks at the start.
func claudeHooks(s Server) object {
	hook := func(h object) []object {
		h["timeout"] = hookSeconds
		return []object{{"hooks": []object{h}}}
	}
	return object{"hooks": object{
		"UserPromptSubmit": hook(object{
			"type": "http", "url": s.Origin + "/v1/memory/recall",
			"headers": object{"Authorization": "Bearer $" + EnvKey}, "allowedEnvVars": []string{EnvKey},
		}),
		"SessionStart": hook(object{"type": "command", "command": s.Recall}),
	}}
}

// codexHooks returns the same for Codex, whose hooks are commands. It runs only hooks that somebody has trusted; these
// are ours.
func codexHooks(s Server) (args []string) {
	args = []string{"--dangerously-bypass-hook-trust", "-c", "features.hooks=true"}
	for _, event := range []string{"UserPromptSubmit", "SessionStart"} {
		args = append(args, "-c", fmt.Sprintf(`hooks.%s=[{hooks=[{type="command",command=%q,timeout=%d}]}]`, event, s.Recall, hookSeconds))
	}
	return args
}

// noRecall returns the error for agents without hooks.
func noRecall(name string) error {
	if name == "claude" || name == "codex" {
		return nil
	}
	return fmt.Errorf("%s has no hooks that can be set for one run; let the server recall in its requests, with X-Service-Recall: on", name)
}

// ShellWord quotes a word for a shell.
func ShellWord(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }
