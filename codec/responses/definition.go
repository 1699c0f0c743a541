package responses

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
)

// Definition returns the format's entry in the table of formats.
func Definition() *codec.Definition {
	return &codec.Definition{
		Traits:           traits(),
		Client:           Client(),
		Provider:         Provider(),
		Clean:            clean,
		AppendTokenCount: appendTokenCount,
		Marks:            [][]byte{ownReasoning},
	}
}

var members = codec.Members{
	Conversation: "input",
	Content:      "input.",
	Reasoning:    "input.reasoning",
	Effort:       "reasoning.effort",
	MaxOutput:    "max_output_tokens",
	Output:       "text.format",
	Stop:         "stop",
	Notes:        map[string]string{"verbosity": "text.verbosity", "image_url.detail": "input_image.detail"},
}

func traits() codec.Traits {
	return codec.Traits{
		Past:         codec.PastTraits{Arguments: []byte(`"arguments":`), Result: []byte(`call_output"`)},
		Format:       codec.Responses,
		Author:       codec.FamilyOpenAI,
		AnswerPrefix: answerPrefix,
		CallPrefix:   "call_",
		CallID:       codec.IDRule{Max: 64},
		ToolName:     codec.NameRule{Max: 64},
		References: [][]byte{
			[]byte(`"file_id`), []byte(`"id"`), []byte(`"previous_response_id"`), []byte(`"conversation"`), []byte(`"vector_store_ids"`), []byte(`"container`),
			[]byte(`"skill_id"`),
		},
		Members: members,
		Client:  codec.ClientTraits{Pictures: true, SignedReasoning: true, StoredAnswers: true, TextBlock: "input_text"},
		Takes: codec.Takes{
			SystemTurns:      codec.SystemAnywhere,
			Refusals:         true,
			ImagesInResults:  true,
			ImageFiles:       true,
			FileNames:        true,
			ImageDetail:      true,
			CustomTools:      true,
			AllowedTools:     true,
			WebSearch:        true,
			ForcedSearch:     true,
			UndeclaredCalls:  true,
			JSONObject:       true,
			JSONSchema:       true,
			StrictSwitch:     true,
			BlankStops:       true,
			LogProbs:         true,
			ServiceTiers:     true,
			SafetyIdentifier: true,
			KeepsAnswers:     true,
			ForcedThinking:   true,
		},
		Stream: codec.StreamTraits{
			Events: map[string]codec.FrameKind{
				"ping":                codec.FrameKeepAlive,
				"keepalive":           codec.FrameKeepAlive,
				"response.created":    codec.FrameFacts,
				"response.completed":  codec.FrameTerminal,
				"response.incomplete": codec.FrameTerminal,
				"error":               codec.FrameError,
				"response.failed":     codec.FrameError,
			},
			Numbered:  true,
			Heartbeat: heartbeat,
		},
		HTTP: codec.HTTPTraits{
			Generate:       codec.Endpoint{Path: "/responses"},
			CountTokens:    codec.Endpoint{Path: "/responses/input_tokens"},
			Compact:        codec.Endpoint{Path: "/responses/compact"},
			ListModels:     codec.Endpoint{Path: "/models"},
			Limits:         codec.OpenAILimits,
			Rank:           3,
			ListRank:       2,
			KeepsReasoning: true,
		},
	}
}

// heartbeat writes an event, because a comment does not reset the idle timer of Codex, and this is the only event that
// every client ignores (docs/wire/responses.md#9.5). It repeats the number of the previous event, because in a stream
// that passes through, the provider numbers the events without knowing of this one. Numbers never decrease, and a
// client that resumes after it misses nothing.
func heartbeat(dst []byte, next int64) []byte {
	dst = append(dst, "event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":"...)
	return append(strconv.AppendInt(dst, max(next-1, 0), 10), "}\n\n"...)
}
