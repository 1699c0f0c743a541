package codec

// Target is what an encoder needs to know about the model and host of a request. The facts come from the router's model
// data, which is dated and can be overridden; no fact about models is in code.
type Target struct {
	Provider string // name of the provider, for messages to people
	Family   Family
	Model    string // as sent

	DefaultMaxOutput int64 // for formats that require a limit; 0 if unknown
	MaxOutput        int64 // the model's limit; 0 if unknown

	Thinking       ThinkingForm
	Efforts        []string // the model's effort words, weakest first; empty if it has none
	MinBudget      int64    // tokens; for ThinkingBudget
	MaxBudget      int64
	CanDisable     bool // reasoning can be switched off
	ReasoningModel bool // OpenAI: refuses sampling members and max_tokens
	SearchModel    bool // OpenAI: searches the web for every answer, and accepts web_search_options

	SystemInMessages bool // messages: accepts role "system" between turns
	Prefill          bool // continues a trailing assistant message
	ForcedTools      bool // accepts a forced tool choice
	Sampling         bool // accepts temperature, top_p, top_k
	StructuredOutput bool // accepts a JSON schema for the answer
	ImagesInResults  bool // accepts images inside tool results
	NeedsSignature   bool // gemini: refuses calls of the current turn without a thought signature
	MidThinkingState bool // messages: thinking blocks must be native ones of this model
	CallIDs          bool // gemini: accepts ids on calls and results
	Breakpoints      bool // messages: set cache breakpoints if the client could not ask for them

	Dialect Dialect
}

// ThinkingForm is how a model is asked to reason.
type ThinkingForm uint8

const (
	ThinkingNone     ThinkingForm = iota // not at all, or without instruction
	ThinkingBudget                       // a number of tokens
	ThinkingAdaptive                     // on or off, with an effort word
	ThinkingEffort                       // an effort word
	ThinkingLevel                        // gemini 3: a level word
)

// Dialect is how a host of the chat format deviates from OpenAI's own (docs/wire/fourth-provider.md#1.1).
type Dialect struct {
	Name              string
	MaxTokensMember   string // "max_tokens" or "max_completion_tokens"
	SeedMember        string // "" drops it
	UserMember        string // "" drops it
	StreamOptions     bool   // accepts stream_options
	DeveloperRole     bool   // accepts role "developer"
	SystemAsString    bool   // needs system content as one string
	ToolTextAsString  bool   // needs tool results as one string
	RequiredWord      string // the spelling of a forced tool choice: "required" or "any"
	ParallelMember    string // "" drops it
	JSONSchema        bool   // accepts response_format json_schema
	JSONObject        bool   // accepts response_format json_object
	ThinkingSwitch    string // "" none, "thinking" {type}, "enable_thinking" boolean
	EffortMember      string // "" drops it
	ReplayReasoning   bool   // wants reasoning_content back on assistant turns with calls
	CallIDPattern     string // "" free, "mistral9" nine of [a-zA-Z0-9]
	CustomTools       bool   // accepts tools of type custom
	LogitBias         bool
	Logprobs          bool
	N                 bool
	Penalties         bool
	Store             bool // accepts store, metadata, service_tier, prompt_cache_key, safety_identifier, verbosity
	ImagesInUser      bool
	EndsWithoutFinish bool // a stream may end without a finish reason and still be complete
}
