package summary

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background"
)

// way is the model's route, and its format.
type way struct {
	placement router.Placement
	format    codec.Format
	target    codec.Target

	refused error // there is no route; nothing else is set
}

// Check returns the fault of settings under a router, a *[codec.Error].
func (s *Settings) Check(r *router.Router) error {
	_, err := s.way(r)
	return err
}

func (s *Settings) way(r *router.Router) (*way, error) {
	placement, refused := r.Place(s.Model)
	if refused != nil {
		return nil, refused
	}
	format := placement.Provider.FormatFor(codec.Chat, placement.Model)
	if format == codec.FormatUnknown {
		return nil, codec.Invalid("model", "%s does not generate text here", placement.Provider.Name())
	}
	if s.TokensPerDay < MostTokens {
		return nil, codec.Invalid("tokens_per_day", "%d tokens a day allow for no summary: one may take %d", s.TokensPerDay, MostTokens)
	}
	return &way{placement: placement, format: format, target: r.Target(placement)}, nil
}

// author returns the model's name for its summaries.
func (w *way) author() string {
	if w.placement.Provider.Simulated() {
		return "simulated model " + w.placement.Model
	}
	return "model " + w.placement.Model
}

const (
	// timeout is how long one call may take.
	timeout = 2 * time.Minute
	// maxAnswer is the largest answer that is read, in bytes: far above maxOutput tokens.
	maxAnswer = 1 << 20
)

// answer is the result of a call.
type answer struct {
	text   string
	tokens int64 // input and output; 0: the model has not answered
}

// ask has the model answer a prompt with the account's credential, else the server's. It returns the cost of the call
// even with an error.
func (w *Writer) ask(ctx context.Context, via *way, account, prompt string) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout,
		codec.Errorf(codec.KindTimeout, "%s gave no summary within %v", via.placement.Model, timeout))
	defer cancel()
	request, err := json.Marshal(chatRequest{
		Model: via.placement.Model, MaxTokens: maxOutput,
		Messages: []chatMessage{{Role: "system", Content: instruction}, {Role: "user", Content: prompt}},
	})
	if err != nil {
		return answer{}, err
	}
	settings := &crossing.Settings{Target: via.target, Account: account, Answer: codec.AnswerOptions{Model: via.placement.Model}}
	crossed, body, err := crossing.Prepare(nil, codec.Chat, via.format, request, settings)
	if err != nil {
		return answer{}, err
	}
	defer crossed.Release()
	whole, err := w.credentials.Do(ctx, &background.Call{
		Account: account, Operation: router.Generate, Placement: via.placement, Format: via.format, Body: body, MaxAnswer: maxAnswer,
	})
	if err != nil {
		return answer{}, err
	}
	translated, seen, err := crossed.Answer(nil, whole)
	got := answer{tokens: seen.Usage.Total()}
	if err != nil {
		return got, err
	}
	var said chatAnswer
	if err := json.Unmarshal(translated, &said); err != nil {
		return got, codec.Errorf(codec.KindUpstream, "%s gave an answer that cannot be read", via.placement.Model)
	}
	if len(said.Choices) > 0 {
		got.text = strings.TrimSpace(said.Choices[0].Message.Content)
	}
	if got.tokens == 0 {
		got.tokens = estimate(prompt) + int64(len(got.text)/bytesPerToken+1)
	}
	if got.text == "" {
		empty := codec.Errorf(codec.KindUpstream, "%s gave no text within %d tokens", via.placement.Model, maxOutput)
		empty.Code = noText
		return got, empty
	}
	return got, nil
}

// Of the chat surface.
type (
	chatRequest struct {
		Model     string        `json:"model"`
		MaxTokens int           `json:"max_completion_tokens"`
		Messages  []chatMessage `json:"messages"`
	}
	chatMessage struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	chatAnswer struct {
		Choices []struct {
			Message chatMessage `json:"message"`
		} `json:"choices"`
	}
)
