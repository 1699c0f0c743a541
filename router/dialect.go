package router

import (
	"net/url"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/embeddings"
)

// A Dialect is what is known about a family of hosts: its address, its formats, how it takes its credential, and how
// its flavor of the Chat format differs from OpenAI's own. There is one row per family; a provider refers to one by
// name.
type Dialect struct {
	Name   string
	Family codec.Family // the family whose reasoning state its models read

	BaseURL  string         // of the vendor's own endpoint; "" if there is none and an operator has to set it
	Formats  []codec.Format // spoken at BaseURL
	Prefixes []string       // of model names that belong to the family

	MessagesBelow string // path between the base URL and /v1/messages
	KeyHeader     string // credential header in every format except Messages: "Authorization", "X-Goog-Api-Key"

	Chat       codec.Dialect
	Embeddings embeddings.Dialect // Batch is left to the format
}

// builtIn are the providers that exist without configuration.
var builtIn = []string{"anthropic", "openai", "gemini", "deepseek"}

const compatibleDialect = "compatible"

// The rows. Sources: docs/wire/fourth-provider.md#1.1 and the chapters per family there, docs/wire/embeddings.md#5 and
// #6 and, for the prefixes, docs/wire/chat-completions.md#1.8.
var dialects = []Dialect{
	{
		Name:      "anthropic",
		Family:    codec.FamilyAnthropic,
		BaseURL:   "https://api.anthropic.com",
		Formats:   []codec.Format{codec.Messages},
		Prefixes:  []string{"claude"},
		KeyHeader: "Authorization",
		Chat:      codec.Dialect{Name: "anthropic"},
	},
	{
		Name:    "openai",
		Family:  codec.FamilyOpenAI,
		BaseURL: "https://api.openai.com/v1",
		Formats: []codec.Format{codec.Chat, codec.Responses, codec.Embeddings},
		// These do not apply to names with a vendor (ollama/llama3). "o" covers o1, o3, o4-mini and their successors.
		// "text-embedding-" alone would match names of other vendors (text-embedding-004 is Google's, text-embedding-v4
		// Alibaba's).
		Prefixes:  []string{"gpt", "o", "chatgpt-", "codex-", "computer-use-", "text-embedding-3", "text-embedding-ada"},
		KeyHeader: "Authorization",
		Chat: codec.Dialect{
			Name:            "openai",
			MaxTokensMember: "max_completion_tokens",
			SeedMember:      "seed",
			UserMember:      "user",
			StreamOptions:   true,
			DeveloperRole:   true,
			RequiredWord:    "required",
			ParallelMember:  "parallel_tool_calls",
			JSONSchema:      true,
			JSONObject:      true,
			EffortMember:    "reasoning_effort",
			CustomTools:     true,
			LogitBias:       true,
			Logprobs:        true,
			N:               true,
			Penalties:       true,
			Store:           true,
			ImagesInUser:    true,
		},
		Embeddings: embeddings.Dialect{DimensionsMember: "dimensions", EncodingFormat: true, Tokens: true, User: true, MaxInputs: 2048},
	},
	{
		Name:       "gemini",
		Family:     codec.FamilyGoogle,
		BaseURL:    "https://generativelanguage.googleapis.com/v1beta",
		Formats:    []codec.Format{codec.Gemini},
		Prefixes:   []string{"gemini", "text-embedding-004"},
		KeyHeader:  "X-Goog-Api-Key",
		Chat:       codec.Dialect{Name: "gemini"},
		Embeddings: embeddings.Dialect{DimensionsMember: "outputDimensionality", MaxInputs: 100},
	},
	{
		Name:          "deepseek",
		Family:        codec.FamilyOther,
		BaseURL:       "https://api.deepseek.com",
		Formats:       []codec.Format{codec.Chat, codec.Messages},
		Prefixes:      []string{"deepseek"},
		MessagesBelow: "/anthropic",
		KeyHeader:     "Authorization",
		Chat: codec.Dialect{
			Name:             "deepseek",
			MaxTokensMember:  "max_tokens",
			UserMember:       "user_id",
			StreamOptions:    true,
			SystemAsString:   true,
			ToolTextAsString: true,
			RequiredWord:     "required",
			JSONObject:       true,
			ThinkingSwitch:   "thinking",
			EffortMember:     "reasoning_effort",
			ReplayReasoning:  true,
			Logprobs:         true,
			ImagesInUser:     true,
		},
	},
	{
		Name:      "xai",
		Family:    codec.FamilyOther,
		BaseURL:   "https://api.x.ai/v1",
		Formats:   []codec.Format{codec.Chat, codec.Responses},
		Prefixes:  []string{"grok"},
		KeyHeader: "Authorization",
		Chat: codec.Dialect{
			Name:            "xai",
			MaxTokensMember: "max_completion_tokens",
			SeedMember:      "seed",
			UserMember:      "user",
			StreamOptions:   true,
			RequiredWord:    "required",
			ParallelMember:  "parallel_function_calling",
			JSONSchema:      true,
			JSONObject:      true,
			EffortMember:    "reasoning_effort",
			Logprobs:        true,
			N:               true,
			ImagesInUser:    true,
		},
	},
	{
		Name:      "mistral",
		Family:    codec.FamilyOther,
		BaseURL:   "https://api.mistral.ai/v1",
		Formats:   []codec.Format{codec.Chat, codec.Embeddings},
		Prefixes:  []string{"mistral", "codestral", "devstral", "magistral", "ministral", "pixtral", "open-mistral", "open-mixtral", "voxtral"},
		KeyHeader: "Authorization",
		// The host refuses every unknown member with 422.
		Chat: codec.Dialect{
			Name:            "mistral",
			MaxTokensMember: "max_tokens",
			SeedMember:      "random_seed",
			RequiredWord:    "any",
			ParallelMember:  "parallel_tool_calls",
			JSONSchema:      true,
			JSONObject:      true,
			EffortMember:    "reasoning_effort",
			CallIDPattern:   "mistral9",
			N:               true,
			Penalties:       true,
			ImagesInUser:    true,
		},
		// 32 is the AI SDK's own limit; the vendor gives no figure.
		Embeddings: embeddings.Dialect{DimensionsMember: "output_dimension", EncodingFormat: true, MaxInputs: 32},
	},
	{
		Name:      "qwen",
		Family:    codec.FamilyOther,
		BaseURL:   "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
		Formats:   []codec.Format{codec.Chat, codec.Embeddings},
		Prefixes:  []string{"qwen", "qwq", "qvq", "text-embedding-v"},
		KeyHeader: "Authorization",
		Chat: codec.Dialect{
			Name:            "qwen",
			MaxTokensMember: "max_tokens",
			SeedMember:      "seed",
			UserMember:      "user",
			StreamOptions:   true,
			SystemAsString:  true,
			RequiredWord:    "required",
			ParallelMember:  "parallel_tool_calls",
			JSONObject:      true, // json_schema depends on the model
			ThinkingSwitch:  "enable_thinking",
			ImagesInUser:    true,
		},
		Embeddings: embeddings.Dialect{DimensionsMember: "dimensions", EncodingFormat: true, User: true, MaxInputs: 25},
	},
	{
		Name:       "voyage",
		Family:     codec.FamilyOther,
		BaseURL:    "https://api.voyageai.com/v1",
		Formats:    []codec.Format{codec.Embeddings},
		Prefixes:   []string{"voyage"},
		KeyHeader:  "Authorization",
		Chat:       codec.Dialect{Name: "voyage"},
		Embeddings: embeddings.Dialect{DimensionsMember: "output_dimension", InputTypeMember: "input_type", TruncationMember: "truncation", EncodingFormat: true, MaxInputs: 1000},
	},
	{
		Name:       "jina",
		Family:     codec.FamilyOther,
		BaseURL:    "https://api.jina.ai/v1",
		Formats:    []codec.Format{codec.Embeddings},
		Prefixes:   []string{"jina"},
		KeyHeader:  "Authorization",
		Chat:       codec.Dialect{Name: "jina"},
		Embeddings: embeddings.Dialect{DimensionsMember: "dimensions"},
	},
	{
		// Any host that speaks Chat like OpenAI's older models: vLLM, SGLang, llama.cpp, Ollama, gateways.
		Name:      compatibleDialect,
		Family:    codec.FamilyOther,
		Formats:   []codec.Format{codec.Chat, codec.Embeddings},
		KeyHeader: "Authorization",
		Chat: codec.Dialect{
			Name:            compatibleDialect,
			MaxTokensMember: "max_tokens",
			SeedMember:      "seed",
			UserMember:      "user",
			StreamOptions:   true,
			// The chat templates of many open models need strings, and every host accepts a string.
			SystemAsString:   true,
			ToolTextAsString: true,
			RequiredWord:     "required",
			ParallelMember:   "parallel_tool_calls",
			JSONSchema:       true,
			JSONObject:       true,
			EffortMember:     "reasoning_effort",
			LogitBias:        true,
			Logprobs:         true,
			N:                true,
			Penalties:        true,
			ImagesInUser:     true,
		},
		Embeddings: embeddings.Dialect{DimensionsMember: "dimensions", EncodingFormat: true, Tokens: true, User: true, MaxInputs: 2048},
	},
}

// lookupDialect returns the row of that name, or nil.
func lookupDialect(name string) *Dialect {
	i := slices.IndexFunc(dialects, func(d Dialect) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &dialects[i]
}

// dialectFor returns the row of a provider: the one it asks for, else the one of its own name, else the compatible one.
// It is nil if the provider asks for one that does not exist.
func dialectFor(provider, dialect string) *Dialect {
	if dialect != "" {
		return lookupDialect(dialect)
	}
	if row := lookupDialect(provider); row != nil {
		return row
	}
	return lookupDialect(compatibleDialect)
}

func dialectNames() []string {
	names := make([]string, len(dialects))
	for i := range dialects {
		names[i] = dialects[i].Name
	}
	return names
}

// basePath returns the path that the family's SDKs expect in a base URL: "/v1" for OpenAI, "/v1beta" for Gemini, "" for
// Anthropic and DeepSeek.
func (d *Dialect) basePath() string {
	if d == nil || d.BaseURL == "" {
		return "/v1"
	}
	u, err := url.Parse(d.BaseURL)
	if err != nil {
		return ""
	}
	return u.Path
}
