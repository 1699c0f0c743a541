package gemini

import "github.com/mnemeproxy/mneme/codec"

// Definition returns the format, for the table of formats.
func Definition() *codec.Definition {
	return &codec.Definition{Traits: traits(), Provider: Provider(), Narrow: narrow}
}

func traits() codec.Traits {
	return codec.Traits{
		Format:   codec.Gemini,
		Author:   codec.FamilyGoogle,
		ToolName: codec.NameRule{Max: 64, Letter: true, Extra: ".:"},
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
		Stream: codec.StreamTraits{AnswerSeries: true},
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
