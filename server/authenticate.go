package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
	"github.com/mnemeproxy/mneme/server/telemetry"
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

// authenticate finds the service key and logs who has none. It comes as Authorization: Bearer KEY or as X-Service-API-Key: KEY; the latter
// leaves Authorization free for the client's own provider credential. X-Api-Key is never read as a service key: it is
// the header in which Anthropic's clients send theirs to Anthropic.
func (s *Server) authenticate(in *edge.Request, out *edge.Response) (caller, error) {
	return s.authenticateAt(in, out, false)
}

// authenticateAt is authenticate for a path of Google's API, if google is true. Its clients know of no other place for a
// key than X-Goog-Api-Key and the query: what has the form of a service key there is one.
func (s *Server) authenticateAt(in *edge.Request, out *edge.Response, google bool) (caller, error) {
	c, err := s.readCaller(in, google)
	if err == nil {
		return c, nil
	}
	if known := new(codec.Error); errors.As(err, &known) && known.Kind == codec.KindAuthentication {
		out.Set("X-Should-Retry", "false") // read by the SDKs of OpenAI and Anthropic
		s.logRefusal(in, &c.Identity, known.Message)
	}
	return caller{}, err
}

// logRefusal logs that a caller is refused. The reason holds no credential.
func (s *Server) logRefusal(in *edge.Request, identity *store.Identity, reason string) {
	s.refusals.Log(s.opts.Clock(), telemetry.Refusal{
		Client: in.Client(), Account: identity.Account, KeyID: identity.KeyID, KeyLabel: identity.Label, Reason: reason,
	})
}

// readCaller returns the caller. With an error, it is the key that was sent, for the log only.
func (s *Server) readCaller(in *edge.Request, google bool) (caller, error) {
	c := caller{
		apiKey:    in.Header("X-Api-Key"),
		googleKey: in.Header("X-Goog-Api-Key"),
	}
	authorization := in.Header("Authorization")
	var err error
	secret := in.Header(headerServiceKey)
	if google && c.googleKey == "" {
		c.googleKey = resource.Parameter(in.Query(), "key")
	}
	if secret != "" {
		c.authorization = authorization
	} else if google && authorization == "" && store.LooksLikeKey(c.googleKey) {
		secret = c.googleKey
	} else if secret, err = bearer(authorization, c.apiKey); err != nil {
		if google && authorization == "" {
			err = codec.Errorf(codec.KindAuthentication, "The request has no service key: send it as x-goog-api-key: KEY; with a key of your own at Google there, send %s: KEY as well.", headerServiceKey)
		}
		named, _ := s.engine.Keys.Authenticate(c.apiKey)
		return caller{Identity: named}, err
	}
	if c.Identity, err = s.engine.Keys.Authenticate(secret); err != nil {
		return caller{Identity: c.Identity}, err
	}
	c.keepServiceKeys(secret)
	return c, nil
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

func bearer(authorization, apiKey string) (string, error) {
	scheme, secret, _ := strings.Cut(authorization, " ")
	secret = strings.TrimSpace(secret)
	switch {
	case strings.EqualFold(scheme, "Bearer") && secret != "":
		return secret, nil
	case authorization != "":
		return "", codec.Errorf(codec.KindAuthentication, "The Authorization header does not hold a service key: send Authorization: Bearer KEY, or %s: KEY.", headerServiceKey)
	case store.LooksLikeKey(apiKey):
		return "", codec.Errorf(codec.KindAuthentication, "x-api-key holds a service key, which is not read there: send it as Authorization: Bearer KEY. For Claude Code and Anthropic's SDKs set ANTHROPIC_AUTH_TOKEN to it, and not ANTHROPIC_API_KEY.")
	case apiKey != "":
		return "", codec.Errorf(codec.KindAuthentication, "The request has an x-api-key but no service key. x-api-key goes to the provider; send the service key as Authorization: Bearer KEY, or %s: KEY.", headerServiceKey)
	default:
		return "", codec.Errorf(codec.KindAuthentication, "The request has no service key: send Authorization: Bearer KEY, or %s: KEY.", headerServiceKey)
	}
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

// requireNamed is requireModel for a member that may name a model.
func (c *caller) requireNamed(m *scan.Members) error {
	if string(m.Key) != "model" || !scan.IsString(m.Value) {
		return nil
	}
	return c.requireModel(scan.String(m.Value))
}

// mostNamed is how many models an error lists.
const mostNamed = 10

func namesOf(models store.Models) string {
	if more := len(models) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(models[:mostNamed], ", "), more)
	}
	return strings.Join(models, ", ")
}

// credential returns the credential for the provider in that format: the client's own if it sent one that fits, else
// the account's, else none, which means the server's default. own reports whether a refusal by the provider is for the
// client to see.
func (s *Server) credential(c *caller, p *router.Provider, format codec.Format) (credential router.Credential, own bool, err error) {
	header := p.CredentialHeader(format)
	switch {
	case header == "X-Api-Key" && c.apiKey != "":
		return router.Credential{Header: header, Value: c.apiKey}, true, nil
	case header == "X-Goog-Api-Key" && c.googleKey != "":
		return router.Credential{Header: header, Value: c.googleKey}, true, nil
	case c.authorization != "":
		return router.Credential{Header: "Authorization", Value: c.authorization}, true, nil
	}
	secret, found, err := s.engine.Credentials.Get(c.Account, p.Name())
	if err != nil || !found {
		return router.Credential{}, false, err
	}
	return p.Credential(format, secret), false, nil
}
