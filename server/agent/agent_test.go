package agent

import (
	"slices"
	"strings"
	"testing"
)

func TestNoLaunchLetsAProvidersOwnKeyGoBeforeOurs(t *testing.T) {
	base := []string{"PATH=/bin", "ANTHROPIC_API_KEY=sk-ant-own", "OPENAI_API_KEY=sk-own", "ANTHROPIC_BASE_URL=https://elsewhere", "MNEME_KEY=mnm_other", "GOOGLE_API_KEY=own", "GOOGLE_GENAI_USE_VERTEXAI=true"}
	for _, name := range append(Names(), "python") {
		a, _ := Find(name)
		l, err := a.Launch(Server{Origin: "http://s", Key: "mnm_key"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		environment := l.Environment(base)
		if !slices.Contains(environment, "MNEME_KEY=mnm_key") || !slices.Contains(environment, "PATH=/bin") {
			t.Errorf("%s: %q", name, environment)
		}
		for _, variable := range environment {
			if name, value, _ := strings.Cut(variable, "="); name == "ANTHROPIC_API_KEY" && !slices.Contains([]string{"codex", "qwen", "gemini"}, a.Name) || value == "mnm_other" {
				t.Errorf("%s sees %s", a.Name, variable)
			}
			if (a.Name == "gemini" || a.Name == "python") && strings.HasPrefix(variable, "GOOGLE_") && variable != "GOOGLE_GEMINI_BASE_URL=http://s" {
				t.Errorf("%s sees %s", a.Name, variable)
			}
		}
	}
}

func TestClaudeKeepsItsOwnLoginAndSendsTheServiceKeyBesideIt(t *testing.T) {
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Team: a")
	a, _ := Find("claude")
	l, err := a.Launch(Server{Origin: "http://s", Key: "mnm_key", OwnLogin: true})
	if err != nil {
		t.Fatal(err)
	}
	environment := l.Environment([]string{"ANTHROPIC_AUTH_TOKEN=own", "ANTHROPIC_CUSTOM_HEADERS=X-Team: a"})
	if !slices.Contains(environment, "ANTHROPIC_AUTH_TOKEN=own") || !slices.Contains(environment, "ANTHROPIC_CUSTOM_HEADERS=X-Team: a\nX-Service-API-Key: mnm_key") {
		t.Errorf("%q", environment)
	}
	if l.Note == "" {
		t.Error("the user is not told what that means")
	}
}

func TestAnAgentThatCannotDoWhatIsAskedSaysSo(t *testing.T) {
	for _, name := range []string{"codex", "opencode", "qwen", "gemini", "aider", "python"} {
		a, _ := Find(name)
		if _, err := a.Launch(Server{Origin: "http://s", Key: "k", OwnLogin: true}); err == nil {
			t.Errorf("%s passes a login through", name)
		}
	}
}
