package chat

import "github.com/mnemeproxy/mneme/codec"

// Definition returns the format, for the table of formats.
func Definition() *codec.Definition {
	return &codec.Definition{
		Traits:     traits(),
		Client:     Client(),
		Provider:   Provider(),
		ProviderOf: func(t *codec.Target) codec.ProviderCodec { return ProviderOf(t.Dialect) },
		Choice:     func(n int64) codec.StreamDecoder { return &decoder{answered: true, choice: n, anyForm: true} },
		Narrow:     narrow,
		Clean:      clean,
		Marks:      [][]byte{thoughts, extra, pictures},
	}
}

var members = codec.Members{
	Conversation: "messages",
	Parts:        ".content",
	Content:      "messages.content.",
	Reasoning:    "messages.reasoning_content",
	Effort:       "reasoning_effort",
	MaxOutput:    "max_completion_tokens",
	Output:       "response_format",
	Stop:         "stop",
}

func traits() codec.Traits {
	return codec.Traits{
		Past:         codec.PastTraits{Arguments: []byte(`"arguments":`), Result: []byte(`"role":"tool"`)},
		Format:       codec.Chat,
		Author:       codec.FamilyOpenAI,
		AnswerPrefix: "chatcmpl-",
		CallPrefix:   "call_",
		// Ids above 40 characters failed at some times and above 64 at others; the shorter limit is the safe one.
		CallID:     codec.IDRule{Max: 40},
		ToolName:   codec.NameRule{Max: 64},
		References: [][]byte{[]byte(`"file_id"`), []byte(`"cached`), []byte(`"audio"`)},
		Members:    members,
		Client:     codec.ClientTraits{Pictures: true, SignedCalls: true, Flat: true, TextBlock: "text", TextAsString: true},
		Takes: codec.Takes{ // for any host; narrow adds what only some accept
			SystemTurns:      codec.SystemAnywhere,
			Refusals:         true,
			Audio:            true,
			FileNames:        true,
			ImageDetail:      true,
			SpeakerNames:     true,
			ForcedSearch:     true,
			UndeclaredCalls:  true,
			StrictSwitch:     true,
			Stops:            4,
			BlankStops:       true,
			LogProbs:         true,
			SafetyIdentifier: true,
			ForcedThinking:   true,
			Details:          true,
		},
		Stream: codec.StreamTraits{
			Facts:        []codec.Member{{Name: []byte(`"finish_reason"`), Value: []byte(`"`)}, {Name: []byte(`"usage"`), Value: []byte(`{`)}},
			SilentFinish: true,
			UsageAsked:   true,
		},
		HTTP: codec.HTTPTraits{
			Generate:     codec.Endpoint{Path: "/chat/completions"},
			ListModels:   codec.Endpoint{Path: "/models"},
			Limits:       codec.OpenAILimits,
			Rank:         4,
			ListRank:     2,
			SearchModels: true,
		},
	}
}

func narrow(takes *codec.Takes, t *codec.Target) {
	d := &t.Dialect
	takes.CustomTools, takes.AllowedTools = d.CustomTools, d.CustomTools
	takes.WebSearch = t.SearchModel
	takes.JSONObject, takes.JSONSchema = d.JSONObject, d.JSONSchema
	takes.ServiceTiers = d.Store
	takes.ReasoningText = d.ReplayReasoning
	if d.CallIDPattern == "mistral9" {
		takes.CallID = codec.IDRule{Strict: 9}
	}
	if t.ReasoningModel {
		takes.Stops = 0 // refused with any
	}
}
