package provider

import (
	"regexp"
	"slices"
)

// harmless are calls that only read, by the names that Claude Code, opencode, Qwen Code and Codex give their tools. The
// first that a request declares is made.
var harmless = []struct{ name, arguments string }{
	{"Glob", `{"pattern":"*"}`},
	{"glob", `{"pattern":"*"}`},
	{"Bash", `{"command":"pwd","description":"Show the working directory"}`},
	{"bash", `{"command":"pwd","description":"Show the working directory"}`},
	{"exec_command", `{"cmd":"pwd"}`},
	{"shell_command", `{"command":"pwd"}`},
	{"shell", `{"command":["pwd"]}`},
}

// lookRound returns the script that calls a harmless tool of the request, "" if it has none. It shows newcomers an agent
// that works, without a model. In a program of their own, a tool that only gets something is called, with made-up arguments.
func (p *prompt) lookRound() string {
	if p.members.text("tool_choice") == "none" || p.members.object("tool_choice").text("type") == "none" {
		return ""
	}
	for _, call := range harmless {
		if slices.ContainsFunc(p.tools, func(t tool) bool { return t.name == call.name && t.namespace == "" && !t.custom }) {
			return lookBy(call.name, call.arguments)
		}
	}
	for _, t := range p.tools {
		if _, declared := parseObject(t.schema); declared && t.namespace == "" && !t.custom && getter.MatchString(t.name) {
			return lookBy(t.name, sampleOf(t.schema))
		}
	}
	return ""
}

// getter matches names such as get_weather and getWeather.
var getter = regexp.MustCompile(`^get(_|[A-Z])\w*$`)

func lookBy(name, arguments string) string {
	return `[[sim: text "This simulated provider calls one tool, to show how that looks." ; call ` + name + " " + arguments + "]]"
}
