package server

import (
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store"
)

// Our headers. None of them goes upstream.
const (
	headerServiceKey      = "X-Service-API-Key"
	headerChatKey         = "X-Service-Chat-Key"
	headerExternalSession = "X-Service-External-Session-ID"
	headerExchangeID      = "X-Service-Exchange-ID"
	headerSessionID       = "X-Service-Session-ID"
	headerTranslation     = "X-Service-Translation"
	headerStrict          = "X-Service-Strict"
	headerSimulated       = "X-Service-Simulated"
	headerCapture         = "X-Service-Capture"
	headerFallback        = "X-Service-Fallback"
	headerReplay          = "X-Service-Replay"
	headerProject         = "X-Service-Project"
	headerRecall          = "X-Service-Recall"
	headerRepeats         = "X-Service-Repeats"
	headerBurst           = "X-Service-Burst"
)

// caller is the sender of a request, with the provider credentials that it brought.
type caller struct {
	store.Identity
	authorization string // whole Authorization header, only if the service key came in a header of its own
	apiKey        string // X-Api-Key
	googleKey     string // X-Goog-Api-Key, or key in the query of a path of Google's API
}

// brought returns the provider credentials that the caller sent.
func (c *caller) brought() (credentials []string) {
	for _, value := range [...]string{c.authorization, c.apiKey, c.googleKey} {
		if value == "" {
			continue
		}
		if _, bare, found := strings.Cut(value, " "); found {
			value = strings.TrimSpace(bare)
		}
		credentials = append(credentials, value)
	}
	return credentials
}

// requireScope returns an error unless the caller has the scope.
func (c *caller) requireScope(scope store.Scopes) error {
	if c.Scopes.Has(scope) {
		return nil
	}
	e := codec.Errorf(codec.KindPermission, "This service key lacks the scope %q; it has %q. Create one with: mneme key create --account %s --scope %s",
		scope, c.Scopes, c.Account, scope)
	e.Code = "missing_scope"
	return e
}

// requireModels is requireModel for every model that a request may have its host ask.
func (c *caller) requireModels(e *codec.Envelope, body []byte) error {
	if len(c.Models) == 0 {
		return nil
	}
	if e.OtherModels != "" {
		refused := codec.Errorf(codec.KindPermission, "This service key is for certain models, and the member %s has the host ask others; leave it out, and name one in model.", e.OtherModels)
		refused.Code, refused.Param = "model_not_allowed", e.OtherModels
		return refused
	}
	for _, tool := range e.Tools {
		if err := c.requireToolModels(tool.Of(body)); err != nil {
			return err
		}
	}
	return c.requireModel(e.Model)
}

// requireModel returns an error unless the caller's key may ask for the model, by the client's name for it. Which model
// replaces it is the operator's choice.
func (c *caller) requireModel(name string) error {
	if c.Models.Allows(name) {
		return nil
	}
	e := codec.Errorf(codec.KindPermission, "This service key may not ask for the model %q; it may for: %s. Change that with: mneme key update %s --models",
		name, namesOf(c.Models), c.KeyID)
	e.Code = "model_not_allowed"
	return e
}

// requireToolModels is requireModel for the models that a hosted tool asks: an advisor, or an image model. Some hosts
// have it among the parameters. A duplicate member counts both times, since hosts differ in which one they read.
func (c *caller) requireToolModels(tool []byte) error {
	for m := scan.Object(tool); m.Next(); {
		if err := c.requireNamed(&m); err != nil {
			return err
		}
		if string(m.Key) != "parameters" {
			continue
		}
		for p := scan.Object(m.Value); p.Next(); {
			if err := c.requireNamed(&p); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepServiceKeys removes service keys from the headers that would carry them to a provider: clients that use one as
// their API key may send it in several headers at once.
func (c *caller) keepServiceKeys(secret string) {
	for _, value := range []*string{&c.authorization, &c.apiKey, &c.googleKey} {
		_, bare, found := strings.Cut(*value, " ")
		if !found {
			bare = *value
		}
		if bare = strings.TrimSpace(bare); bare == secret || store.LooksLikeKey(bare) {
			*value = ""
		}
	}
}

// requireNamed is requireModel for a member that may name a model.
func (c *caller) requireNamed(m *scan.Members) error {
	if string(m.Key) != "model" || !scan.IsString(m.Value) {
		return nil
	}
	return c.requireModel(scan.String(m.Value))
}

func namesOf(models store.Models) string {
	if more := len(models) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(models[:mostNamed], ", "), more)
	}
	return strings.Join(models, ", ")
}
