package agent

import (
	"fmt"
	"strings"
)

// EnvURL is the variable with the server's URL for the recall command.
const EnvURL = "MNEME_URL"

// hookSeconds is how long an agent waits for its memory.
const hookSeconds = 2

// claudeHooks returns the hooks with which Claude Code asks at every prompt, at the start of a session and before it edits a file
// or runs a command (docs/recall.md). It skips HTTP hooks at the start, and only a command can read which model is chosen.
func claudeHooks(s Server) map[string]object {
	post := object{
		"type": "http", "url": s.Origin + "/v1/memory/recall", "timeout": hookSeconds,
		"headers": object{"Authorization": "Bearer $" + EnvKey}, "allowedEnvVars": []string{EnvKey},
	}
	command := object{"type": "command", "command": s.Recall, "timeout": hookSeconds}
	return map[string]object{
		"UserPromptSubmit": {"hooks": []object{command}},
		"PreToolUse":       {"matcher": "Edit|MultiEdit|Write|NotebookEdit|Bash", "hooks": []object{post}},
		"SessionStart":     {"matcher": "startup|resume|clear|compact", "hooks": []object{command}},
	}
}

// claudeSettings returns the hooks as settings for one run.
func claudeSettings(s Server) object {
	hooks := object{}
	for event, hook := range claudeHooks(s) {
		hooks[event] = []object{hook}
	}
	return object{"hooks": hooks}
}

// codexHooks returns the same for Codex, whose hooks are commands. It runs only hooks that the user has trusted; these
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
