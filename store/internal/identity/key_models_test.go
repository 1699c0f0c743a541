package identity

import (
	"strings"
	"testing"
)

func TestModelsAllowNamesAndBeginnings(t *testing.T) {
	for text, cases := range map[string]map[string]bool{
		"all":               {"gpt-5": true, "": true},
		"gpt-5, claude-*":   {"gpt-5": true, "gpt-5-mini": false, "claude-": true, "claude-opus-5": true, "Claude-opus": false, "openai/gpt-5": false, "": false},
		"*":                 {"gpt-5": true, "": true},
		"ollama/*,deepseek": {"ollama/llama3": true, "ollama": false, "deepseek-chat": false},
	} {
		m, err := ParseModels(text)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range cases {
			if m.Allows(name) != want {
				t.Errorf("%q allows %q: %t", text, name, !want)
			}
		}
	}
	for _, text := range []string{"", "gpt-5,", "gpt-*-mini", "a b", strings.Repeat("x", 201), strings.Repeat("a,", 200) + "a"} {
		if _, err := ParseModels(text); err == nil {
			t.Errorf("%.20q is no list of models", text)
		}
	}
}

func TestModelsIncludeOthers(t *testing.T) {
	for text, cases := range map[string]map[string]bool{
		"all":            {"all": true, "gpt-5": true, "*": true},
		"*":              {"all": true, "claude-*": true},
		"gpt-5,claude-*": {"gpt-5": true, "claude-opus-*,gpt-5": true, "claude-*": true, "all": false, "*": false, "c*": false, "gpt-5,gpt-5-mini": false, "gpt-5*": false},
	} {
		m, err := ParseModels(text)
		if err != nil {
			t.Fatal(err)
		}
		for others, want := range cases {
			other, err := ParseModels(others)
			if err != nil || m.Includes(other) != want {
				t.Errorf("%q includes %q: %t, %v", text, others, !want, err)
			}
		}
	}
}

func TestAKeyKeepsItsModels(t *testing.T) {
	opts := options{dir: t.TempDir()}
	s := openHarness(t, opts)
	if _, err := s.accounts.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	secret, key, err := s.keys.Keys().Create("acme", ScopeWrite, "", func(k *Key) { k.Models = Models{"gpt-5"} })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.keys.Keys().Update(key.ID, func(k *Key) { k.Models = Models{"not a model"} }); err == nil {
		t.Error("a list with what is no model was taken")
	}
	s.close(t)
	who, err := openHarness(t, opts).keys.Keys().Authenticate(secret)
	if err != nil || who.Models.Allows("gpt-5-mini") || !who.Models.Allows("gpt-5") {
		t.Errorf("%v, %v", who.Models, err)
	}
}
