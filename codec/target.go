package codec

// Target is what an encoder has to know about the model and host that a request goes to. The facts come from the
// router's model data, which is dated and can be overridden; nothing about models is written into code.
type Target struct {
	Provider string // name of the provider, for messages to people
	Family   Family
	Model    string // as sent

	DefaultMaxOutput int64 // for formats that require a limit; 0 when unknown
	MaxOutput        int64 // the model's limit; 0 when unknown

	Thinking       ThinkingForm
	Efforts        []string // effort words that the model takes, weakest first; empty when it takes none
	MinBudget      int64    // tokens; for ThinkingBudget
	MaxBudget      int64
	CanDisable     bool // reasoning can be switched off
	ReasoningModel bool // OpenAI: refuses sampling members and max_tokens
	SearchModel    bool // OpenAI: searches the web for every answer, and takes web_search_options

	SystemInMessages bool // messages: takes role "system" between turns
	Prefill          bool // continues a trailing assistant message
	ForcedTools      bool // takes a forced tool choice
	Sampling         bool // takes temperature, top_p, top_k
	StructuredOutput bool // takes a JSON schema for the answer
	ImagesInResults  bool // takes pictures inside tool results
	NeedsSignature   bool // gemini: refuses calls of the current turn without a thought signature
	MidThinkingState bool // messages: thinking blocks must be native ones of this model
	CallIDs          bool // gemini: takes ids on calls and results
	Breakpoints      bool // messages: set cache breakpoints where the client could not ask for them

	Dialect Dialect
}

// ThinkingForm is how a model is asked to reason.
type ThinkingForm uint8

const (
	ThinkingNone     ThinkingForm = iota // it does not, or takes no instruction
	ThinkingBudget                       // a number of tokens
	ThinkingAdaptive                     // on or off, with an effort word
	ThinkingEffort                       // an effort word
	ThinkingLevel                        // gemini 3: a level word
)

// Dialect is how a host of the chat format differs from OpenAI's own (docs/wire/fourth-provider.md#1.1).
type Dialect struct {
	Name              string
	MaxTokensMember   string // "max_tokens" or "max_completion_tokens"
	SeedMember        string // "" drops it
	UserMember        string // "" drops it
	StreamOptions     bool   // takes stream_options
	DeveloperRole     bool   // takes role "developer"
	SystemAsString    bool   // wants system content as one string
	ToolTextAsString  bool   // wants tool results as one string
	RequiredWord      string // how a forced tool choice is spelled: "required" or "any"
	ParallelMember    string // "" drops it
	JSONSchema        bool   // takes response_format json_schema
	JSONObject        bool   // takes response_format json_object
	ThinkingSwitch    string // "" none, "thinking" {type}, "enable_thinking" boolean
	EffortMember      string // "" drops it
	ReplayReasoning   bool   // wants reasoning_content back on assistant turns with calls
	CallIDPattern     string // "" free, "mistral9" nine of [a-zA-Z0-9]
	CustomTools       bool   // takes tools of type custom
	LogitBias         bool
	Logprobs          bool
	N                 bool
	Penalties         bool
	Store             bool // takes store, metadata, service_tier, prompt_cache_key, safety_identifier, verbosity
	ImagesInUser      bool
	EndsWithoutFinish bool // a stream may end without a finish reason and still be complete
}
