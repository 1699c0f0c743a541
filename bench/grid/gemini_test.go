package grid

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strings"

	"google.golang.org/genai"
)

// transport copies the bodies of successful answers for a client, because Google's SDK has no middleware.
type transport struct{ client *client }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	return t.client.tee(http.DefaultTransport.RoundTrip(r))
}

// askGemini asks with Google's SDK. Each piece of a stream becomes a content of the history, as in the SDK's own chats.
func (c *client) askGemini(ctx context.Context) said {
	api, err := genai.NewClient(ctx, &genai.ClientConfig{
		APIKey: c.harness.key, Backend: genai.BackendGeminiAPI, HTTPClient: &http.Client{Transport: transport{c}}, HTTPOptions: genai.HTTPOptions{BaseURL: c.harness.url},
	})
	if err != nil {
		return failure(err, false)
	}
	config := &genai.GenerateContentConfig{HTTPOptions: &genai.HTTPOptions{ExtrasRequestProvider: func(map[string]any) map[string]any {
		var body map[string]any
		if err := json.Unmarshal(c.body(), &body); err != nil {
			panic(err)
		}
		return body
	}}}
	var heard hearing
	for piece, err := range c.pieces(ctx, api, config) {
		if err != nil {
			return failure(err, c.stream && c.wire.Len() > 0)
		}
		heard.add(c, piece)
	}
	if heard.finish == "" {
		return said{Error: "the answer has no reason for stopping"}
	}
	return heard.said()
}

func (c *client) pieces(ctx context.Context, api *genai.Client, config *genai.GenerateContentConfig) iter.Seq2[*genai.GenerateContentResponse, error] {
	if c.stream {
		return api.Models.GenerateContentStream(ctx, c.model, genai.Text("-"), config)
	}
	return func(yield func(*genai.GenerateContentResponse, error) bool) {
		yield(api.Models.GenerateContent(ctx, c.model, genai.Text("-"), config))
	}
}

// hearing is what a client has understood of an answer so far.
type hearing struct {
	text, thoughts strings.Builder
	calls, cited   []string
	finish         genai.FinishReason
	usage          *genai.GenerateContentResponseUsageMetadata
}

func (h *hearing) add(c *client, piece *genai.GenerateContentResponse) {
	if piece.UsageMetadata != nil {
		h.usage = piece.UsageMetadata
	}
	if piece.PromptFeedback != nil && piece.PromptFeedback.BlockReason != "" {
		h.finish = genai.FinishReasonSafety
	}
	for _, candidate := range piece.Candidates {
		if candidate.FinishReason != "" {
			h.finish = candidate.FinishReason
		}
		if candidate.GroundingMetadata != nil {
			for _, source := range candidate.GroundingMetadata.GroundingChunks {
				h.cited = append(h.cited, source.Web.URI)
			}
		}
		if candidate.Content == nil {
			continue
		}
		if candidate.Content.Parts = h.parts(c, candidate.Content.Parts); len(candidate.Content.Parts) > 0 {
			c.items = append(c.items, mustJSON(candidate.Content))
		}
	}
}

// parts returns the parts that can be sent back: the SDK leaves an empty text out of one, and its chats keep no such part.
func (h *hearing) parts(c *client, parts []*genai.Part) (kept []*genai.Part) {
	for _, part := range parts {
		switch {
		case part.FunctionCall != nil:
			h.calls = append(h.calls, part.FunctionCall.Name+" "+mustJSON(part.FunctionCall.Args))
			c.open = append(c.open, openCall{id: part.FunctionCall.ID, name: part.FunctionCall.Name})
		case part.Thought:
			h.thoughts.WriteString(part.Text)
		default:
			h.text.WriteString(part.Text)
		}
		if part.Text != "" || part.FunctionCall != nil || part.InlineData != nil {
			kept = append(kept, part)
		}
	}
	return kept
}

func (h *hearing) said() said {
	s := said{Text: h.text.String(), Reasoning: h.thoughts.String(), Calls: h.calls, Cited: h.cited}
	s.Stop = map[genai.FinishReason]string{
		genai.FinishReasonStop: "end", genai.FinishReasonMaxTokens: "length", genai.FinishReasonSafety: "filter", genai.FinishReasonMalformedFunctionCall: "malformed",
	}[h.finish]
	if s.Stop == "end" && len(s.Calls) > 0 {
		s.Stop = "calls"
	}
	if u := h.usage; u != nil {
		s.Usage = counts{
			Input: int64(u.PromptTokenCount), Cached: int64(u.CachedContentTokenCount),
			Output: int64(u.CandidatesTokenCount + u.ThoughtsTokenCount), Reasoning: int64(u.ThoughtsTokenCount),
		}
	}
	return s
}
