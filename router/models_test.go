package router

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

func TestTheModelFileIsDatedAndStrict(t *testing.T) {
	facts, err := builtInFacts()
	if err != nil {
		t.Fatal(err)
	}
	c := facts.models
	if _, err := time.Parse(time.DateOnly, c.asOf); err != nil {
		t.Errorf("as_of is no date: %v", err)
	}
	if r := newRouter(t, Config{}); r.ModelsAsOf() != c.asOf {
		t.Errorf("shown as of %s", r.ModelsAsOf())
	}
	for want, file := range map[string]string{
		"field thinkng not found":                "models: [{match: x, thinkng: none}]",
		"field color not found":                  "{color: red}",
		"models[0] has no match":                 "models: [{thinking: none}]",
		`two rows with match "x"`:                "models: [{match: x}, {match: x}]",
		`thinking is "hard"`:                     "models: [{match: x, thinking: hard}]",
		"budget.min 9 is above budget.max 3":     "models: [{match: x, budget: {min: 9, max: 3}}]",
		"budget is negative":                     "models: [{match: x, budget: {min: -1}}]",
		"output.default 9 is above output.max 3": "models: [{match: x, output: {default: 9, max: 3}}]",
		"output needs a default above 0":         "models: [{match: x, output: {default: 0}}]",
		"embedding.sizes have to be":             "models: [{match: x, embedding: {sizes: [3, 1]}}]",
		"sizes or range, not both":               "models: [{match: x, embedding: {sizes: [1], range: {max: 3}}}]",
		"cannot unmarshal":                       "models: [{match: x, sampling: perhaps}]",
	} {
		if _, err := parseModelFile([]byte(file)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, wanted %s", file, err, want)
		}
	}
}

func TestModelsAreKnownByFamilyAndByException(t *testing.T) {
	facts, err := builtInFacts()
	if err != nil {
		t.Fatal(err)
	}
	c := facts.models
	four := []string{"low", "medium", "high", "max"}
	five := []string{"low", "medium", "high", "xhigh", "max"}
	for name, want := range map[string]Model{
		"claude-of-the-future": {
			Thinking: codec.ThinkingAdaptive, Efforts: five, DefaultMaxOutput: 32000, MaxOutput: 128000,
			SystemInMessages: true, ForcedTools: true, StructuredOutput: true, BoundThinking: true,
		},
		"claude-sonnet-5-5": {
			Thinking: codec.ThinkingAdaptive, Efforts: five, CanDisable: true, DefaultMaxOutput: 32000, MaxOutput: 64000,
			SystemInMessages: true, StructuredOutput: true, BoundThinking: true,
		},
		"claude-opus-4-8": {
			Thinking: codec.ThinkingAdaptive, Efforts: five, CanDisable: true, DefaultMaxOutput: 32000, MaxOutput: 64000,
			SystemInMessages: true, ForcedTools: true, StructuredOutput: true,
		},
		"claude-opus-4-6": {
			Thinking: codec.ThinkingAdaptive, Efforts: four, CanDisable: true, DefaultMaxOutput: 32000, MaxOutput: 128000,
			ForcedTools: true, Sampling: true, StructuredOutput: true,
		},
		"claude-sonnet-4-5-20250929": {
			Thinking: codec.ThinkingBudget, Efforts: []string{}, MinBudget: 1024, MaxBudget: 63999, CanDisable: true,
			DefaultMaxOutput: 32000, MaxOutput: 64000, Prefill: true, ForcedTools: true, Sampling: true, StructuredOutput: true,
		},
		"claude-3-haiku-20240307": {Efforts: []string{}, DefaultMaxOutput: 4096, MaxOutput: 4096, Prefill: true, ForcedTools: true, Sampling: true},
		"gpt-5.5": {
			Thinking: codec.ThinkingEffort, Efforts: []string{"none", "low", "medium", "high", "xhigh"}, CanDisable: true, Reasoning: true,
			DefaultMaxOutput: 32000, MaxOutput: 128000, ForcedTools: true, StructuredOutput: true,
		},
		"gpt-5-mini": {
			Thinking: codec.ThinkingEffort, Efforts: []string{"minimal", "low", "medium", "high"}, Reasoning: true,
			DefaultMaxOutput: 32000, MaxOutput: 128000, ForcedTools: true, StructuredOutput: true,
		},
		"gpt-4o-mini": {Efforts: []string{}, DefaultMaxOutput: 16384, MaxOutput: 16384, ForcedTools: true, Sampling: true, StructuredOutput: true},
		"o3":          {Thinking: codec.ThinkingEffort, Efforts: []string{"low", "medium", "high"}, Reasoning: true, DefaultMaxOutput: 32000, MaxOutput: 100000, ForcedTools: true, StructuredOutput: true},
		"gemini-4-argon": {
			Thinking: codec.ThinkingLevel, Efforts: []string{"minimal", "low", "medium", "high"}, DefaultMaxOutput: 32000, MaxOutput: 65536,
			ForcedTools: true, Sampling: true, StructuredOutput: true, ImagesInResults: true, NeedsSignature: true, CallIDs: true,
		},
		"gemini-2.5-flash": {
			Thinking: codec.ThinkingBudget, Efforts: []string{}, MinBudget: 1, MaxBudget: 24576, CanDisable: true, DefaultMaxOutput: 32000, MaxOutput: 65536,
			ForcedTools: true, Sampling: true, StructuredOutput: true,
		},
		"deepseek-v4-pro": {
			Thinking: codec.ThinkingEffort, Efforts: []string{"low", "high", "max"}, CanDisable: true, ReplayReasoning: true, DefaultMaxOutput: 32000,
			ForcedTools: true, Sampling: true,
		},
		"some-local-model": {DefaultMaxOutput: 8192, ForcedTools: true, Sampling: true, StructuredOutput: true},
	} {
		if diff := cmp.Diff(want, *c.model(name)); diff != "" {
			t.Errorf("%s (-wanted +got):\n%s", name, diff)
		}
	}
}

func TestModelsWithoutAChatEndpointAreKnown(t *testing.T) {
	facts, err := builtInFacts()
	if err != nil {
		t.Fatal(err)
	}
	c := facts.models
	for name, want := range map[string]bool{
		"o1-pro": true, "o3-pro": true, "o3-deep-research": true, "gpt-5-codex": true, "gpt-5.1-codex-max": true, "gpt-5-pro": true, "gpt-5.5-pro": true,
		"gpt-daybreak-blue-latest": true, "gpt-6-cyber": true, "gpt-6-rosalind-mini": true, "codex-mini-latest": true, "computer-use-preview": true,
		"gpt-5-pro-2025-10-06": true,
		"o1":                   false, "o3-mini": false, "gpt-5": false, "gpt-5.5": false, "gpt-4o": false,
	} {
		if got := c.model(name).ResponsesOnly; got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A row whose match another row swallows completely would be a slip of the pen.
func TestEveryRowOfTheModelFileSaysSomething(t *testing.T) {
	facts, err := builtInFacts()
	if err != nil {
		t.Fatal(err)
	}
	c := facts.models
	for i := range c.rows {
		name := strings.ReplaceAll(*c.rows[i].Match, "*", "x")
		with := c.model(name)
		without := catalog{rows: append(append([]modelRow{}, c.rows[:i]...), c.rows[i+1:]...)}
		if cmp.Equal(with, without.model(name)) {
			t.Errorf("the row with match %q changes nothing", *c.rows[i].Match)
		}
	}
}

func TestKnownOutputLimitsLeaveRoomForTheDefault(t *testing.T) {
	facts, err := builtInFacts()
	if err != nil {
		t.Fatal(err)
	}
	c := facts.models
	for i := range c.rows {
		m := c.model(strings.ReplaceAll(*c.rows[i].Match, "*", "x"))
		if m.DefaultMaxOutput <= 0 || m.MaxOutput > 0 && m.DefaultMaxOutput > m.MaxOutput {
			t.Errorf("%s: default %d, max %d", *c.rows[i].Match, m.DefaultMaxOutput, m.MaxOutput)
		}
		if m.Thinking == codec.ThinkingBudget && m.MaxBudget > 0 && m.MaxOutput > 0 && m.MaxBudget >= m.MaxOutput {
			t.Errorf("%s: a budget of %d leaves nothing of %d", *c.rows[i].Match, m.MaxBudget, m.MaxOutput)
		}
	}
}

func TestAnOperatorsFileIsLaidOverTheBuiltInOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "models.yaml")
	write(t, file, `
as_of: 2027-01-01
models:
  - {match: claude-opus-4-8, output: {max: 12345}, efforts: [low]}
  - {match: my-model, thinking: budget, budget: {min: 10, max: 20}, embedding: {default: 7}}
`)
	r := newRouter(t, Config{ModelsFile: file})
	opus := r.models.model("claude-opus-4-8-20260301")
	if opus.MaxOutput != 12345 || opus.DefaultMaxOutput != 12345 || len(opus.Efforts) != 1 || !opus.SystemInMessages {
		t.Errorf("what the file says holds, the rest stays: %+v", opus)
	}
	if mine := r.models.model("my-model-2"); mine.MaxBudget != 20 || mine.Embedding.Default != 7 || !mine.Sampling {
		t.Errorf("%+v", mine)
	}
	write(t, file, "models: [{match: x, color: red}]")
	if _, err := New(Config{ModelsFile: file}); err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a mistake in it names file and line: %v", err)
	}
}

func TestTheTargetJoinsModelHostAndFormat(t *testing.T) {
	r := newRouter(t, Config{Breakpoints: true})
	target := func(model string, f codec.Format) codec.Target {
		x := r.Target(place(t, r, model))
		takes := crossing.Takes(f, &x)
		x.ImagesInResults, x.Breakpoints = takes.ImagesInResults, x.Breakpoints && takes.Breakpoints > 0
		return x
	}

	if x := target("claude-opus-5-5", codec.Messages); !x.Breakpoints || !x.ImagesInResults || !x.MidThinkingState || x.Family != codec.FamilyAnthropic || x.Provider != "anthropic" {
		t.Errorf("%+v", x)
	}
	if x := target("deepseek-v4-pro", codec.Messages); x.Breakpoints || x.ImagesInResults {
		t.Errorf("%+v", x)
	}
	if x := target("gpt-5.5", codec.Responses); !x.ImagesInResults || !x.ReasoningModel || x.Sampling {
		t.Errorf("%+v", x)
	}
	if x := target("gpt-4o", codec.Chat); x.ImagesInResults || x.ReasoningModel || x.Dialect.MaxTokensMember != "max_completion_tokens" {
		t.Errorf("%+v", x)
	}
	if x := target("gemini-3.8-flash", codec.Gemini); !x.ImagesInResults || !x.NeedsSignature || !x.CallIDs {
		t.Errorf("%+v", x)
	}
	if x := target("gemini-2.5-pro", codec.Gemini); x.ImagesInResults || x.NeedsSignature || x.CanDisable || x.MinBudget != 128 {
		t.Errorf("%+v", x)
	}
	if x := target("deepseek-v4-pro", codec.Chat); !x.Dialect.ReplayReasoning || x.Dialect.ThinkingSwitch != "thinking" {
		t.Errorf("%+v", x)
	}
	if x := target("deepseek-reasoner", codec.Chat); x.Dialect.ReplayReasoning {
		t.Error("deepseek-reasoner refuses earlier reasoning")
	}
}

func TestMatchesArePrefixesOrPatterns(t *testing.T) {
	for _, x := range []struct {
		match, name string
		want        bool
	}{
		{"", "anything", true},
		{"gpt-5", "gpt-5", true},
		{"gpt-5", "gpt-5.5", true},
		{"gpt-5", "gpt-4", false},
		{"gpt-*-pro", "gpt-5-pro", true},
		{"gpt-*-pro", "gpt-5-pro-2", false},
		{"gpt-*-pro*", "gpt-5-pro-2", true},
		{"gpt-*-pro", "gpt-pro", false},
		{"*x", "x", true},
		{"*x", "xy", false},
		{"a*a", "a", false},
		{"a*b*c", "a1b2c", true},
		{"a*b*c", "acb", false},
		{"*ab", "aab", true},
	} {
		if got := fits(strings.Split(x.match, "*"), x.name); got != x.want {
			t.Errorf("%q on %q: %v", x.match, x.name, got)
		}
	}
}

func TestAPatternFitsWhatItsStarsAreFilledWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[ab-]{0,4}`), 2, 5).Draw(t, "parts")
		name := parts[0]
		for _, part := range parts[1:] {
			name += rapid.StringMatching(`[abc-]{0,4}`).Draw(t, "fill") + part
		}
		if !fits(parts, name) {
			t.Fatalf("%q does not fit %q", strings.Join(parts, "*"), name)
		}
	})
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
