package crossing

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
)

// Effort words, weakest first.
var effortWords = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

// Budgets in tokens for effort words, and the reverse (docs/wire/translation.md#2.7).
var effortBudgets = map[string]int64{
	"minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 1 << 40,
}

func effortOfBudget(budget int64) string {
	switch {
	case budget <= 512:
		return "minimal"
	case budget <= 1024:
		return "low"
	case budget <= 8192:
		return "medium"
	case budget <= 24576:
		return "high"
	default:
		return "xhigh"
	}
}

// reasoningStep handles how much the model reasons.
type reasoningStep struct{ *adaptation }

// run requests reasoning in the target's own form. What the client left to the model is left to the model.
func (a reasoningStep) run() error {
	g := &a.r.Reasoning
	word := a.askedEffort()
	asked := *g
	*g = codec.Reasoning{Visible: asked.Visible, Summary: asked.Summary, Display: asked.Display}
	switch a.target.Thinking {
	case codec.ThinkingNone:
		if asked.Effort != nil || asked.Mode == codec.ReasoningBudget {
			a.r.Notes.Drop(a.from.Members.Effort)
		}
		*g = codec.Reasoning{}
	case codec.ThinkingBudget:
		a.askBudget(word, asked.Budget)
	case codec.ThinkingAdaptive:
		a.askAdaptive(word, asked.Mode)
	case codec.ThinkingEffort:
		a.askEffort(word)
	case codec.ThinkingLevel:
		a.askLevel(word)
	}
	if a.lostThinking() || !a.takes.ForcedThinking && forces(a.r.ToolChoice.Mode) {
		a.stopThinking()
	}
	return nil
}

func forces(mode codec.ChoiceMode) bool {
	return mode == codec.ChoiceRequired || mode == codec.ChoiceTool
}

// askedEffort returns the client's effort as a word, "" if it left that to the model.
func (a reasoningStep) askedEffort() string {
	g := &a.r.Reasoning
	switch {
	case g.Mode == codec.ReasoningOff:
		return "none"
	case g.Effort != nil:
		return string(g.Effort)
	case g.Mode == codec.ReasoningBudget:
		return effortOfBudget(g.Budget)
	default:
		return ""
	}
}

// askBudget requests a number of tokens.
func (a reasoningStep) askBudget(word string, budget int64) {
	g, t := &a.r.Reasoning, a.target
	switch word {
	case "":
		return
	case "none":
		if t.CanDisable {
			g.Mode = codec.ReasoningOff
			return
		}
		budget = t.MinBudget
		a.r.Notes.Drop(a.from.Members.Effort)
	}
	if budget <= 0 {
		budget = effortBudgets[word]
		if special, ok := a.takes.Budgets[word]; ok {
			budget = special
		}
	}
	budget = max(budget, t.MinBudget)
	if t.MaxBudget > 0 {
		budget = min(budget, t.MaxBudget)
	}
	if a.takes.BudgetInOutput {
		// The budget is part of the output limit and has to leave room for an answer.
		budget = min(budget, a.r.MaxOutput-1)
		if budget < max(t.MinBudget, 1024) {
			a.r.Notes.Drop(a.from.Members.Effort)
			g.Mode = codec.ReasoningUnset
			return
		}
	}
	g.Mode, g.Budget = codec.ReasoningBudget, budget
}

// askAdaptive lets the model decide, within an effort word.
func (a reasoningStep) askAdaptive(word string, mode codec.ReasoningMode) {
	g := &a.r.Reasoning
	switch {
	case word == "" && mode != codec.ReasoningAdaptive:
		return
	case word == "none":
		if a.target.CanDisable {
			g.Mode = codec.ReasoningOff
		} else {
			a.r.Notes.Drop(a.from.Members.Effort)
		}
		return
	}
	g.Mode = codec.ReasoningAdaptive
	g.Effort = a.nearestEffort(word)
}

// askEffort requests an effort word.
func (a reasoningStep) askEffort(word string) {
	if word == "none" && !slices.Contains(a.target.Efforts, "none") {
		if a.target.CanDisable {
			a.r.Reasoning.Mode = codec.ReasoningOff
			return
		}
		a.r.Notes.Drop(a.from.Members.Effort)
		a.r.Reasoning.Effort = a.nearestEffort(word)
		return
	}
	if word == "none" {
		a.r.Reasoning.Mode = codec.ReasoningOff
	}
	a.r.Reasoning.Effort = a.nearestEffort(word)
}

// askLevel requests a level from Gemini 3: an effort word in capitals. Its reasoning cannot be switched off.
func (a reasoningStep) askLevel(word string) {
	effort := a.nearestEffort(word)
	if string(effort) != word {
		a.r.Notes.Drop(a.from.Members.Effort)
	}
	if effort != nil {
		a.r.Reasoning.Effort = bytes.ToUpper(effort)
	}
}

// nearestEffort returns the model's nearest word to the requested one: the same, else the next weaker, else the
// weakest. Only a request for none gets none.
func (a reasoningStep) nearestEffort(word string) []byte {
	if word == "" {
		return nil
	}
	rank := slices.Index(effortWords, word)
	var best string
	for _, effort := range a.target.Efforts {
		if effort == "none" && word != "none" {
			continue
		}
		if best == "" || slices.Index(effortWords, effort) <= rank {
			best = effort
		}
	}
	if best == "" {
		return nil
	}
	return []byte(best)
}

// stopThinking switches thinking off for a request that cannot have it.
func (a reasoningStep) stopThinking() {
	g := &a.r.Reasoning
	if g.Mode != codec.ReasoningBudget && g.Mode != codec.ReasoningAdaptive {
		return
	}
	a.r.Notes.Drop("thinking")
	mode := codec.ReasoningUnset
	if a.target.Thinking == codec.ThinkingBudget {
		mode = codec.ReasoningOff
	}
	*g = codec.Reasoning{Mode: mode, Effort: g.Effort}
}

// lostThinking reports whether the tool loop that the request continues would begin without the thinking that led to
// it: Anthropic then refuses to think, and signatures cannot be invented. It reads the messages as they will be sent.
func (a reasoningStep) lostThinking() bool {
	if a.target.Family != codec.FamilyAnthropic {
		return false
	}
	for i := a.openLoop(); i < len(a.r.Messages); i++ {
		m := &a.r.Messages[i]
		if m.Role != codec.RoleAssistant || !hasCalls(m.Parts) {
			continue
		}
		k := m.Parts[0].Kind
		return k != codec.PartReasoning && k != codec.PartRedacted
	}
	return false
}

// openLoop returns where that loop begins. For Anthropic, user text after results belongs to the turn of the results,
// and does not end the loop.
func (a reasoningStep) openLoop() int {
	for i := len(a.r.Messages) - 1; i >= 0; i-- {
		if a.r.Messages[i].Role == codec.RoleUser && (i == 0 || a.r.Messages[i-1].Role != codec.RoleTool) {
			return i + 1
		}
	}
	return 0
}
