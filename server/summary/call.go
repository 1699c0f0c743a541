package summary

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
)

// way is where the router leads the model, and how it is spoken to there.
type way struct {
	placement router.Placement
	format    codec.Format
	target    codec.Target

	refused error // there is no way; nothing else is set
}

// Check tells what is wrong with settings under a router. The error is a *[codec.Error].
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
	return &way{placement: placement, format: format, target: r.Target(placement, format)}, nil
}

// author is how the model is named beside what it has written.
func (w *way) author() string {
	if w.placement.Provider.Simulated() {
		return "simulated model " + w.placement.Model
	}
	return "model " + w.placement.Model
}

const (
	// patience is how long one call may take.
	patience = 2 * time.Minute
	// maxAnswer is the largest answer that is read, in bytes: far above what maxOutput tokens take.
	maxAnswer = 1 << 20
)

// answer is what a call gave.
type answer struct {
	text   string
	tokens int64 // input and output; 0: the model has not answered
}

// ask has the model answer a prompt on the credential of the account, else the server's. What the call has cost is given
// with an error too.
func (w *Writer) ask(ctx context.Context, route *way, account, prompt string) (answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience,
		codec.Errorf(codec.KindTimeout, "%s gave no summary within %v", route.placement.Model, patience))
	defer cancel()
	request, err := json.Marshal(chatRequest{
		Model: route.placement.Model, MaxTokens: maxOutput,
		Messages: []chatMessage{{Role: "system", Content: instruction}, {Role: "user", Content: prompt}},
	})
	if err != nil {
		return answer{}, err
	}
	settings := &crossing.Settings{Target: route.target, Account: account, Answer: codec.AnswerOptions{Model: route.placement.Model}}
	crossed, body, err := crossing.Prepare(nil, codec.Chat, route.format, request, settings)
	if err != nil {
		return answer{}, err
	}
	defer crossed.Release()
	whole, err := w.call(ctx, route, crossed, account, body)
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
		return got, codec.Errorf(codec.KindUpstream, "%s gave an answer that cannot be read", route.placement.Model)
	}
	if len(said.Choices) > 0 {
		got.text = strings.TrimSpace(said.Choices[0].Message.Content)
	}
	if got.tokens == 0 {
		got.tokens = estimate(prompt) + int64(len(got.text)/bytesPerToken+1)
	}
	if got.text == "" {
		empty := codec.Errorf(codec.KindUpstream, "%s gave no text within %d tokens", route.placement.Model, maxOutput)
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

func (w *Writer) call(ctx context.Context, route *way, crossed *crossing.Exchange, account string, body []byte) ([]byte, error) {
	p := route.placement.Provider
	credential, err := w.credential(account, p, route.format)
	if err != nil {
		return nil, err
	}
	reply, failed := p.Do(ctx, &router.Call{
		Operation: router.Generate, Format: route.format, Model: route.placement.Model, Body: body, Credential: credential,
	})
	if failed != nil {
		return nil, failed
	}
	defer func() { _ = reply.Body.Close() }()
	whole, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(whole) > maxAnswer:
		return nil, codec.Errorf(codec.KindUpstream, "%s answered with more than %d bytes", p.Name(), maxAnswer)
	case reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden: // providers quote parts of keys
		return nil, codec.Errorf(codec.KindUpstreamAuth, "%s refused the credential that is set for it (HTTP %d)", p.Name(), reply.Status)
	case reply.Status >= http.StatusMultipleChoices:
		return nil, crossed.Error(reply.Status, reply.RetryAfter, whole)
	}
	return whole, nil
}

// credential is the account's own; the zero one stands for the server's.
func (w *Writer) credential(account string, p *router.Provider, format codec.Format) (router.Credential, error) {
	secret, found, err := w.store.Credential(account, p.Name())
	if err != nil || !found {
		return router.Credential{}, err
	}
	return p.Credential(format, secret), nil
}
