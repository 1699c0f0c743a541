package server

import (
	"errors"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
)

// authenticate finds the service key and logs who has none. It comes as Authorization: Bearer KEY or as X-Service-API-Key: KEY; the latter
// leaves Authorization free for the client's own provider credential. X-Api-Key is never read as a service key: it is
// the header in which Anthropic's clients send theirs to Anthropic.
func (s *proxy) authenticate(in *edge.Request, out *edge.Response) (caller, error) {
	return s.authenticateAt(in, out, false)
}

// authenticateAt is authenticate for a path of Google's API, if google is true. Its clients know of no other place for a
// key than X-Goog-Api-Key and the query: what has the form of a service key there is one.
func (s *proxy) authenticateAt(in *edge.Request, out *edge.Response, google bool) (caller, error) {
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
func (s *proxy) logRefusal(in *edge.Request, identity *store.Identity, reason string) {
	s.refusals.Log(s.opts.Clock(), telemetry.Refusal{
		Client: in.Client(), Account: identity.Account, KeyID: identity.KeyID, KeyLabel: identity.Label, Reason: reason,
	})
}

// readCaller returns the caller. With an error, it is the key that was sent, for the log only.
func (s *proxy) readCaller(in *edge.Request, google bool) (caller, error) {
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

// mostNamed is how many models an error lists.
const mostNamed = 10

// credential returns the credential for the provider in that format: the client's own if it sent one that fits, else
// the account's, else none, which means the server's default. own reports whether a refusal by the provider is for the
// client to see.
func (s *proxy) credential(c *caller, p *router.Provider, format codec.Format) (credential router.Credential, own bool, err error) {
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
