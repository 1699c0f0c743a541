package router

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/embeddings"
)

// A Model is what is known about one model; models.yaml explains the fields.
type Model struct {
	Thinking         codec.ThinkingForm
	Efforts          []string // weakest first; must not be changed
	MinBudget        int64    // tokens
	MaxBudget        int64    // tokens; 0 when unknown
	CanDisable       bool
	ReplayReasoning  bool
	Reasoning        bool
	ResponsesOnly    bool
	SearchModel      bool
	DefaultMaxOutput int64 // tokens
	MaxOutput        int64 // tokens; 0 when unknown
	SystemInMessages bool
	Prefill          bool
	ForcedTools      bool
	Sampling         bool
	StructuredOutput bool
	ImagesInResults  bool
	NeedsSignature   bool
	CallIDs          bool
	BoundThinking    bool
	Embedding        embeddings.Model
}

// catalog is the model data, in the order in which rows override one another. It is immutable.
type catalog struct {
	asOf string
	rows []modelRow

	// Matching every row twice takes a fiftieth of a small request. Clients choose the names, so only the first ones
	// are cached.
	known  atomic.Pointer[map[string]*Model] // replaced, never changed; nil at first
	adding sync.Mutex
}

// knownModels is how many names are cached: more than one installation uses, and at most some 300 KB.
const knownModels = 512

// modelRow has what differs from the rows below it: nil means unset.
type modelRow struct {
	Match            *string       `yaml:"match"`
	Thinking         *string       `yaml:"thinking"`
	Efforts          []string      `yaml:"efforts"`
	Budget           *span         `yaml:"budget"`
	CanDisable       *bool         `yaml:"can_disable"`
	ReplayReasoning  *bool         `yaml:"replay_reasoning"`
	Reasoning        *bool         `yaml:"reasoning"`
	ResponsesOnly    *bool         `yaml:"responses_only"`
	SearchModel      *bool         `yaml:"search_model"`
	Output           *outputRow    `yaml:"output"`
	SystemInMessages *bool         `yaml:"system_in_messages"`
	Prefill          *bool         `yaml:"prefill"`
	ForcedTools      *bool         `yaml:"forced_tools"`
	Sampling         *bool         `yaml:"sampling"`
	StructuredOutput *bool         `yaml:"structured_output"`
	ImagesInResults  *bool         `yaml:"images_in_results"`
	NeedsSignature   *bool         `yaml:"needs_signature"`
	CallIDs          *bool         `yaml:"call_ids"`
	BoundThinking    *bool         `yaml:"bound_thinking"`
	Embedding        *embeddingRow `yaml:"embedding"`

	parts []string // of Match, split at its stars
}

type span struct {
	Min *int64 `yaml:"min"`
	Max *int64 `yaml:"max"`
}

type outputRow struct {
	Default *int64 `yaml:"default"`
	Max     *int64 `yaml:"max"`
}

type embeddingRow struct {
	Native     *int  `yaml:"native"`
	Default    *int  `yaml:"default"`
	Sizes      []int `yaml:"sizes"`
	Range      *span `yaml:"range"`
	Matryoshka *bool `yaml:"matryoshka"`
	Truncate   *bool `yaml:"truncate"`
	Normalized *bool `yaml:"normalized"`
	MaxInputs  *int  `yaml:"max_inputs"`
	MaxTokens  *int  `yaml:"max_tokens"`
	Tokens     *bool `yaml:"tokens"`
}

var thinkingForms = map[string]codec.ThinkingForm{
	"none":     codec.ThinkingNone,
	"budget":   codec.ThinkingBudget,
	"adaptive": codec.ThinkingAdaptive,
	"effort":   codec.ThinkingEffort,
	"level":    codec.ThinkingLevel,
}

// with returns the catalog with the rows of an operator's file on top.
func (c *catalog) with(over []modelRow) *catalog {
	both := &catalog{asOf: c.asOf, rows: slices.Concat(c.rows, over)}
	both.sort()
	return both
}

// sort puts the rows in the order in which they override one another. Of rows with the same match the operator's, which
// come later, win.
func (c *catalog) sort() {
	slices.SortStableFunc(c.rows, func(a, b modelRow) int { return cmp.Compare(literals(*a.Match), literals(*b.Match)) })
}

// completeModels checks the rows of a file and splits their matches into parts.
func completeModels(rows []modelRow) error {
	seen := make(map[string]bool, len(rows))
	for i := range rows {
		row := &rows[i]
		if row.Match == nil {
			return fmt.Errorf("models[%d] has no match", i)
		}
		if seen[*row.Match] {
			return fmt.Errorf("models[%d]: there are two rows with match %q", i, *row.Match)
		}
		seen[*row.Match] = true
		row.parts = strings.Split(*row.Match, "*")
		if err := row.check(); err != nil {
			return fmt.Errorf("models[%d] (match %q): %w", i, *row.Match, err)
		}
	}
	return nil
}

func (row *modelRow) check() error {
	if row.Thinking != nil {
		if _, ok := thinkingForms[*row.Thinking]; !ok {
			return fmt.Errorf("thinking is %q (known: none, budget, adaptive, effort, level)", *row.Thinking)
		}
	}
	if err := row.Budget.check("budget"); err != nil {
		return err
	}
	if o := row.Output; o != nil {
		if o.Default != nil && *o.Default <= 0 || o.Max != nil && *o.Max < 0 {
			return errors.New("output needs a default above 0 and a max of 0 (unknown) or more")
		}
		if o.Default != nil && o.Max != nil && *o.Max > 0 && *o.Default > *o.Max {
			return fmt.Errorf("output.default %d is above output.max %d", *o.Default, *o.Max)
		}
	}
	if e := row.Embedding; e != nil {
		if err := e.Range.check("embedding.range"); err != nil {
			return err
		}
		if !slices.IsSorted(e.Sizes) || len(e.Sizes) > 0 && e.Sizes[0] < 1 {
			return errors.New("embedding.sizes have to be 1 or more and in ascending order")
		}
		if e.Range != nil && e.Sizes != nil {
			return errors.New("embedding needs sizes or range, not both")
		}
	}
	return nil
}

func (s *span) check(name string) error {
	if s == nil {
		return nil
	}
	if s.Min != nil && *s.Min < 0 || s.Max != nil && *s.Max < 0 {
		return fmt.Errorf("%s is negative", name)
	}
	if s.Min != nil && s.Max != nil && *s.Min > *s.Max {
		return fmt.Errorf("%s.min %d is above %s.max %d", name, *s.Min, name, *s.Max)
	}
	return nil
}

// model returns everything known about a model name. An unknown one gets the general facts. The result is shared, and
// must not be changed.
func (c *catalog) model(name string) *Model {
	known := c.known.Load()
	if known != nil {
		if m, ok := (*known)[name]; ok {
			return m
		}
	}
	m := new(Model)
	*m = c.look(name)
	if len(name) <= maxKnownName && (known == nil || len(*known) < knownModels) {
		c.keep(strings.Clone(name), m) // the name may be a view of a request
	}
	return m
}

func (c *catalog) keep(name string, m *Model) {
	c.adding.Lock()
	defer c.adding.Unlock()
	more := map[string]*Model{name: m}
	if known := c.known.Load(); known != nil {
		maps.Copy(more, *known)
	}
	c.known.Store(&more)
}

// maxKnownName is above the length of any real name, in bytes.
const maxKnownName = 128

// look combines the matching rows.
func (c *catalog) look(name string) Model {
	var m Model
	for i := range c.rows {
		if fits(c.rows[i].parts, name) {
			c.rows[i].layOver(&m)
		}
	}
	if m.Thinking != codec.ThinkingBudget {
		m.MinBudget, m.MaxBudget = 0, 0
	}
	if m.MaxOutput > 0 {
		m.DefaultMaxOutput = min(m.DefaultMaxOutput, m.MaxOutput)
	}
	return m
}

func (row *modelRow) layOver(m *Model) {
	if row.Thinking != nil {
		m.Thinking = thinkingForms[*row.Thinking]
	}
	if row.Efforts != nil {
		m.Efforts = row.Efforts
	}
	if row.Budget != nil {
		set(&m.MinBudget, row.Budget.Min)
		set(&m.MaxBudget, row.Budget.Max)
	}
	set(&m.CanDisable, row.CanDisable)
	set(&m.ReplayReasoning, row.ReplayReasoning)
	set(&m.Reasoning, row.Reasoning)
	set(&m.ResponsesOnly, row.ResponsesOnly)
	set(&m.SearchModel, row.SearchModel)
	if row.Output != nil {
		set(&m.DefaultMaxOutput, row.Output.Default)
		set(&m.MaxOutput, row.Output.Max)
	}
	set(&m.SystemInMessages, row.SystemInMessages)
	set(&m.Prefill, row.Prefill)
	set(&m.ForcedTools, row.ForcedTools)
	set(&m.Sampling, row.Sampling)
	set(&m.StructuredOutput, row.StructuredOutput)
	set(&m.ImagesInResults, row.ImagesInResults)
	set(&m.NeedsSignature, row.NeedsSignature)
	set(&m.CallIDs, row.CallIDs)
	set(&m.BoundThinking, row.BoundThinking)
	if row.Embedding != nil {
		row.Embedding.layOver(&m.Embedding)
	}
}

func (row *embeddingRow) layOver(e *embeddings.Model) {
	set(&e.Native, row.Native)
	set(&e.Default, row.Default)
	if row.Sizes != nil {
		e.Sizes, e.Min, e.Max = row.Sizes, 0, 0
	}
	if row.Range != nil {
		e.Sizes = nil
		if row.Range.Min != nil {
			e.Min = int(*row.Range.Min)
		}
		if row.Range.Max != nil {
			e.Max = int(*row.Range.Max)
		}
	}
	set(&e.Matryoshka, row.Matryoshka)
	set(&e.Truncate, row.Truncate)
	set(&e.Normalized, row.Normalized)
	set(&e.MaxInputs, row.MaxInputs)
	set(&e.MaxTokens, row.MaxTokens)
	set(&e.Tokens, row.Tokens)
}

func set[T any](to *T, said *T) {
	if said != nil {
		*to = *said
	}
}

// fits reports whether a row's match, split at its stars, applies to a model name: as a prefix if there is no star,
// else as a pattern in which each star matches any characters.
func fits(match []string, name string) bool {
	if !strings.HasPrefix(name, match[0]) {
		return false
	}
	if len(match) == 1 {
		return true
	}
	name = name[len(match[0]):]
	last := len(match) - 1
	for _, part := range match[1:last] {
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name = name[i+len(part):]
	}
	return strings.HasSuffix(name, match[last])
}

// literals counts the literal characters of a match.
func literals(match string) int { return len(match) - strings.Count(match, "*") }
