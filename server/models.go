package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
)

// openAIModel is an entry of OpenAI's list.
type openAIModel struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`

	ContextLength int64 `json:"context_length,omitempty"` // tokens of a prompt, as hosts of many models name it
}

// anthropicModel is an entry of Anthropic's list.
type anthropicModel struct {
	Type        string `json:"type"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name"`
	CreatedAt   string `json:"created_at"`
	MaxInput    int64  `json:"max_input_tokens,omitempty"` // if the provider says it; so is the next
	MaxOutput   int64  `json:"max_tokens,omitempty"`
}

func toOpenAI(m *router.ListedModel) openAIModel {
	owner := m.OwnedBy
	if owner == "" {
		owner = m.Provider
	}
	return openAIModel{ID: m.ID, Object: "model", Created: max(m.Created.Unix(), 0), OwnedBy: owner, ContextLength: m.MaxInput}
}

// googleModel is an entry of Google's list.
type googleModel struct {
	Name        string   `json:"name"`
	DisplayName string   `json:"displayName"`
	MaxInput    int64    `json:"inputTokenLimit,omitempty"`
	MaxOutput   int64    `json:"outputTokenLimit,omitempty"`
	Methods     []string `json:"supportedGenerationMethods"`
}

func toGoogle(m *router.ListedModel) googleModel {
	return googleModel{
		Name: "models/" + m.ID, DisplayName: cmp.Or(m.DisplayName, m.ID), MaxInput: m.MaxInput, MaxOutput: m.MaxOutput,
		Methods: []string{"generateContent", "countTokens"},
	}
}

func toAnthropic(m *router.ListedModel) anthropicModel {
	created := m.Created
	if created.IsZero() {
		created = time.Unix(0, 0)
	}
	return anthropicModel{
		Type: "model", ID: m.ID, DisplayName: cmp.Or(m.DisplayName, m.ID), CreatedAt: created.UTC().Format(time.RFC3339),
		MaxInput: m.MaxInput, MaxOutput: m.MaxOutput,
	}
}

// listModels answers GET /v1/models and /v1beta/models with the union of what the caller's providers list.
func (s *proxy) listModels(ctx context.Context, in *edge.Request, out *edge.Response) {
	_, models, err := s.models(ctx, in, out)
	if err != nil {
		s.answerError(out, errorShape(in), asError(err), "")
		return
	}
	switch speaks(in) {
	case resource.Google:
		list := struct {
			Models []googleModel `json:"models"`
		}{make([]googleModel, len(models))}
		for i := range models {
			list.Models[i] = toGoogle(&models[i])
		}
		answerJSON(out, list)
		return
	case resource.OpenAI:
		list := struct {
			Object string        `json:"object"`
			Data   []openAIModel `json:"data"`
		}{Object: "list", Data: make([]openAIModel, len(models))}
		for i := range models {
			list.Data[i] = toOpenAI(&models[i])
		}
		answerJSON(out, list)
		return
	}
	list := struct {
		Data    []anthropicModel `json:"data"`
		HasMore bool             `json:"has_more"`
		FirstID *string          `json:"first_id"`
		LastID  *string          `json:"last_id"`
	}{Data: make([]anthropicModel, len(models))}
	for i := range models {
		list.Data[i] = toAnthropic(&models[i])
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[n-1].ID
	}
	answerJSON(out, list)
}

// showModel answers GET /v1/models/{model}. A model that has a route but is on no list is shown too.
func (s *proxy) showModel(ctx context.Context, in *edge.Request, out *edge.Response) {
	if strings.Contains(in.Param("model"), "/operations") {
		s.serveRest(ctx, in, out)
		return
	}
	if _, _, asks := readAddress(in.Path()); asks {
		s.notAllowed(in, out)
		out.Set("Allow", http.MethodPost)
		out.SetStatus(http.StatusMethodNotAllowed)
		return
	}
	c, models, err := s.models(ctx, in, out)
	id := in.Param("model")
	if err == nil {
		if err = c.requireModel(id); err != nil {
			s.logRefusal(in, &c.Identity, "this service key may not ask for that model")
		}
	}
	if err != nil {
		s.answerError(out, errorShape(in), asError(err), "")
		return
	}
	placement, refused := s.router.Load().Place(id)
	if refused != nil {
		s.answerError(out, errorShape(in), refused, "")
		return
	}
	found := router.ListedModel{ID: id, Provider: placement.Provider.Name()}
	for i := range models {
		if models[i].ID == id {
			found = models[i]
			break
		}
	}
	switch speaks(in) {
	case resource.Google:
		answerJSON(out, toGoogle(&found))
	case resource.Anthropic:
		answerJSON(out, toAnthropic(&found))
	default:
		answerJSON(out, toOpenAI(&found))
	}
}

// models returns the models that the caller may ask for.
func (s *proxy) models(ctx context.Context, in *edge.Request, out *edge.Response) (caller, []router.ListedModel, error) {
	c, err := s.authenticateAt(in, out, speaks(in) == resource.Google)
	if err != nil {
		return caller{}, nil, err
	}
	all := s.router.Load().Models(ctx, func(p *router.Provider, f codec.Format) router.Credential {
		credential, _, err := s.credential(&c, p, f)
		if err != nil || !credential.IsZero() {
			return credential
		}
		return p.DefaultCredential(f)
	})
	return c, slices.DeleteFunc(all, func(m router.ListedModel) bool { return !c.Models.Allows(m.ID) }), nil
}

func answerJSON(out *edge.Response, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // a plain struct of strings and numbers
	}
	out.SetContentType("application/json")
	out.SetBody(body)
}
