package messages

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// Definition returns the format, for the table of formats.
func Definition() *codec.Definition {
	return &codec.Definition{
		Traits:           traits(),
		Client:           Client(),
		Provider:         Provider(),
		Narrow:           narrow,
		Clean:            clean,
		AppendTokenCount: appendTokenCount,
		Marks:            [][]byte{statetoken.Mark, unsigned},
	}
}

var members = codec.Members{
	Conversation: "messages",
	Parts:        ".content",
	Content:      "messages.content.",
	Reasoning:    "messages.thinking",
	Effort:       "thinking",
	MaxOutput:    "max_tokens",
	Output:       "output_config.format",
	Stop:         "stop_sequences",
	Priority:     "speed",
	Notes: map[string]string{
		"parallel_tool_calls": "tool_choice.disable_parallel_tool_use", "safety_identifier": "metadata.user_id", "user": "metadata.user_id",
	},
}

func traits() codec.Traits {
	return codec.Traits{
		Past:         codec.PastTraits{Arguments: []byte(`"input":`), Result: []byte(`"tool_result"`)},
		Format:       codec.Messages,
		Author:       codec.FamilyAnthropic,
		AnswerPrefix: answerPrefix,
		CallPrefix:   "toolu_",
		CallID:       codec.IDRule{Slug: true},
		ToolName:     codec.NameRule{Max: 128},
		References:   [][]byte{[]byte(`"file_id"`), []byte(`"container`)},
		Members:      members,
		Client: codec.ClientTraits{
			SignedReasoning: true,
			PrivateUser:     true, // Claude Code's contains the ids of an account and a device
			TitledDocuments: true,
			DeferredTools:   true,
			StrictSchemas:   true,
			TextBlock:       "text",
		},
		Takes: codec.Takes{
			SystemApart:    true,
			Alternation:    true,
			FailedResults:  true,
			ImageTypes:     []string{"image/jpeg", "image/png", "image/gif", "image/webp"},
			WebSearch:      true,
			ForcedSearch:   true,
			Breakpoints:    4,
			SchemaByCall:   true,
			NeedsMaxOutput: true,
			Stops:          codec.AnyStops,
			BudgetInOutput: true,
		},
		Stream: codec.StreamTraits{
			Events: map[string]codec.FrameKind{
				"ping":          codec.FrameKeepAlive,
				"keepalive":     codec.FrameKeepAlive,
				"message_start": codec.FrameFacts,
				"message_delta": codec.FrameFacts,
				"message_stop":  codec.FrameTerminal,
				"error":         codec.FrameError,
			},
			Heartbeat: func(dst []byte, _ int64) []byte { return appendPing(dst) },
		},
		HTTP: codec.HTTPTraits{
			Generate:    codec.Endpoint{Path: "/messages"},
			CountTokens: codec.Endpoint{Path: "/messages/count_tokens"},
			ListModels:  codec.Endpoint{Path: "/models", Query: "limit=1000"},
			Versioned:   true,
			Beta:        true,
			KeyHeader:   "X-Api-Key",
			// Sent if the client named no version, as clients of other formats never do. Under the later 2026-10-21
			// sampling members are refused (docs/wire/messages.md#1).
			Headers: [][2]string{{"Anthropic-Version", "2023-06-01"}},
			Own:     []string{"Anthropic-Version", "Anthropic-Beta"},
			Limits: codec.LimitHeaders{ // docs/wire/messages.md#5
				Limit: "Anthropic-Ratelimit-*-Limit", Remaining: "Anthropic-Ratelimit-*-Remaining",
				Reset: "Anthropic-Ratelimit-*-Reset", ResetAt: true,
			},
			Rank:     2,
			ListRank: 1,
		},
	}
}

func narrow(takes *codec.Takes, t *codec.Target) {
	takes.JSONSchema = t.StructuredOutput
	takes.ImagesInResults = t.Family == codec.FamilyAnthropic
	if t.SystemInMessages {
		takes.SystemTurns = codec.SystemAfterUser
	}
}
