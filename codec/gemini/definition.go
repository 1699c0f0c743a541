package gemini

import "github.com/mnemeproxy/mneme/codec"

// Definition returns the format, for the table of formats.
func Definition() *codec.Definition {
	return &codec.Definition{
		Traits:           traits(),
		Client:           Client(),
		Provider:         Provider(),
		Narrow:           narrow,
		Clean:            clean,
		AppendTokenCount: appendTokenCount,
		Marks:            [][]byte{foreign},
	}
}

func traits() codec.Traits {
	return codec.Traits{
		Past:       codec.PastTraits{Arguments: []byte(`"args":`), Result: []byte(`"functionResponse"`)},
		Format:     codec.Gemini,
		Author:     codec.FamilyGoogle,
		ToolName:   codec.NameRule{Max: 64, Letter: true, Extra: ".:"},
		CallPrefix: callPrefix,
		Members:    members,
		Client:     codec.ClientTraits{Pictures: true, SignedCalls: true, StrictSchemas: true, TextBlock: "text", BareBlocks: true},
		Takes: codec.Takes{
			SystemApart:      true,
			Alternation:      true,
			FailedResults:    true,
			Audio:            true,
			AllowedTools:     true,
			WebSearch:        true,
			UndeclaredCalls:  true,
			JSONObject:       true,
			JSONSchema:       true,
			Stops:            5,
			BlankStops:       true,
			SafetyIdentifier: true,
			ForcedThinking:   true,
			Budgets:          map[string]int64{"minimal": 512},
		},
		References: [][]byte{
			[]byte(`"fileUri"`), []byte(`"file_uri"`), []byte(`"cachedContent"`), []byte(`"cached_content"`),
			[]byte(`"fileSearchStoreNames"`), []byte(`"file_search_store_names"`), []byte(`"semanticRetriever"`), []byte(`"semantic_retriever"`),
		},
		Stream: codec.StreamTraits{AnswerSeries: true, Heartbeat: appendWhiteSpace},
		HTTP: codec.HTTPTraits{
			Generate: codec.Endpoint{Path: "/models/{model}:generateContent"},
			// Without alt=sse the stream is one JSON array (docs/wire/generate-content.md#2.1).
			Stream:      codec.Endpoint{Path: "/models/{model}:streamGenerateContent", Query: "alt=sse"},
			CountTokens: codec.Endpoint{Path: "/models/{model}:countTokens"},
			Embed:       codec.Endpoint{Path: "/models/{model}:batchEmbedContents"},
			BatchEmbed:  true,
			Limits:      codec.OpenAILimits, // sends none itself; gateways before it do
			ListModels:  codec.Endpoint{Path: "/models", Query: "pageSize=1000"},
			Rank:        1,
			ListRank:    3,
		},
	}
}

func narrow(takes *codec.Takes, t *codec.Target) { takes.ImagesInResults = t.ImagesInResults }

// appendWhiteSpace is what a stream sends while a model is silent. Google's SDK for Go takes a comment for a broken chunk,
// and white space is legal between events and between the elements of an array alike.
func appendWhiteSpace(dst []byte, _ int64) []byte { return append(dst, "\n\n"...) }
