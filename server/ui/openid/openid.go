// Package openid lets people sign in to the page at /ui with an OpenID provider, by the authorization code flow with PKCE.
package openid

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/mnemeproxy/mneme/store"
)

// Options say where people sign in, and what they may do here afterwards.
type Options struct {
	Issuer       string // URL; "": sign-in with OpenID is off
	ClientID     string
	ClientSecret string   // "": the client is a public one
	Redirect     string   // URL of the callback, as the provider knows it
	Scopes       []string // requested from the provider, besides openid
	Grants       []Grant  // the first that matches applies
}

// CallbackPath is where the provider sends people back to.
const CallbackPath = "/ui/oidc/callback"

// Grant admits people whose claim has a value, or whose list of values contains it.
type Grant struct {
	Claim   string       `json:"claim"`
	Value   string       `json:"value"`
	Account string       `json:"account"`
	Scopes  store.Scopes `json:"scopes"`
}

// Check returns an error if the options are invalid. The zero value is valid.
func (o *Options) Check() error {
	if o.Issuer == "" {
		if o.ClientID != "" || o.ClientSecret != "" || o.Redirect != "" || len(o.Grants) > 0 {
			return errors.New("issuer is missing: the URL of the OpenID provider")
		}
		return nil
	}
	if !isURL(o.Issuer) {
		return fmt.Errorf("issuer must be the https:// or http:// URL of an OpenID provider, and is %q", o.Issuer)
	}
	if o.ClientID == "" {
		return errors.New("client_id is missing: the name under which the provider knows this server")
	}
	if !isURL(o.Redirect) || !strings.HasSuffix(o.Redirect, CallbackPath) {
		return fmt.Errorf("redirect must be the URL of this server with the path %s, and is %q", CallbackPath, o.Redirect)
	}
	if len(o.Grants) == 0 {
		return errors.New("grants is empty: say which claim opens which account")
	}
	for i, g := range o.Grants {
		if g.Claim == "" || g.Value == "" || g.Account == "" || g.Scopes == 0 {
			return fmt.Errorf("entry %d of grants needs claim, value, account and scopes", i+1)
		}
	}
	return nil
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// Host returns the provider's host, as shown to people.
func (o *Options) Host() string {
	u, err := url.Parse(o.Issuer)
	if err != nil {
		return o.Issuer
	}
	return u.Host
}

// Permits reports whether the options still contain a grant.
func (o *Options) Permits(g Grant) bool { return slices.Contains(o.Grants, g) }

// Client signs people in. It discovers the provider on first use, so that a server starts without it.
type Client struct {
	Options
	http     *http.Client
	provider atomic.Pointer[oidc.Provider] // nil until it has been discovered
}

// Bounds of a call to the provider.
const (
	callTimeout = 10 * time.Second
	maxAnswer   = 1 << 20 // bytes
)

// New returns a client, without connecting to the provider.
func New(o Options) *Client {
	return &Client{Options: o, http: &http.Client{Timeout: callTimeout, Transport: bounded{http.DefaultTransport}}}
}

// bounded limits the length of answers.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	}
	return response, err
}

// Attempt is a sign-in in progress. The browser keeps it, sealed, until it comes back.
type Attempt struct {
	State    string    `json:"state"`
	Nonce    string    `json:"nonce"`
	Verifier string    `json:"verifier"`
	Place    string    `json:"place"` // path of the page to return to
	Until    time.Time `json:"until"`
}

// attemptLife is how long a sign-in may take.
const attemptLife = 10 * time.Minute

// Begin starts a sign-in and returns the address at the provider where it continues.
func (c *Client) Begin(ctx context.Context, place string) (address string, a Attempt, err error) {
	config, _, err := c.discover(ctx)
	if err != nil {
		return "", a, err
	}
	a = Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Place: place, Until: time.Now().Add(attemptLife)}
	return config.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a, nil
}

// discover fetches the provider's configuration; once that has succeeded it returns the same one.
func (c *Client) discover(ctx context.Context) (*oauth2.Config, *oidc.Provider, error) {
	provider := c.provider.Load()
	if provider == nil {
		var err error
		if provider, err = oidc.NewProvider(oidc.ClientContext(ctx, c.http), c.Issuer); err != nil {
			return nil, nil, &Refusal{"The OpenID provider " + c.Host() + " does not answer as it should. Try again, or sign in with a service key.", err}
		}
		c.provider.Store(provider)
	}
	return &oauth2.Config{
		ClientID: c.ClientID, ClientSecret: c.ClientSecret, Endpoint: provider.Endpoint(), RedirectURL: c.Redirect,
		Scopes: append([]string{oidc.ScopeOpenID}, c.Scopes...),
	}, provider, nil
}

// Refusal is the error for people who are not signed in, in sentences. Its cause is for the log.
type Refusal struct {
	Message string
	Cause   error
}

func (r *Refusal) Error() string {
	if r.Cause == nil {
		return r.Message
	}
	return r.Message + " (" + r.Cause.Error() + ")"
}

func (r *Refusal) Unwrap() error { return r.Cause }

// Finish completes an attempt with the parameters that the provider's redirect has. It returns what the person may do,
// and the person's name for records.
func (c *Client) Finish(ctx context.Context, a *Attempt, sent url.Values) (Grant, string, error) {
	switch {
	case a.State == "" || sent.Get("state") != a.State || time.Now().After(a.Until):
		return Grant{}, "", &Refusal{"This sign-in was started in another browser, or more than ten minutes ago. Start it again.", nil}
	case sent.Get("error") != "":
		return Grant{}, "", &Refusal{c.Host() + " did not sign you in. Try again, or sign in with a service key.", errors.New(sent.Get("error"))}
	case sent.Has("iss") && sent.Get("iss") != c.Issuer: // RFC 9207: the answer of another provider
		return Grant{}, "", &Refusal{"The answer came from another OpenID provider than " + c.Host() + ". Start the sign-in again.", nil}
	}
	config, provider, err := c.discover(ctx)
	if err != nil {
		return Grant{}, "", err
	}
	ctx = oidc.ClientContext(ctx, c.http)
	token, err := config.Exchange(ctx, sent.Get("code"), oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return Grant{}, "", &Refusal{c.Host() + " does not confirm your sign-in. Start it again.", err}
	}
	known, err := c.verified(ctx, provider, token, a.Nonce)
	if err != nil {
		return Grant{}, "", &Refusal{"The answer of " + c.Host() + " about you cannot be trusted. Tell the operator of this server; its log has the reason.", err}
	}
	name := nameOf(known)
	first := c.firstGrant(known)
	if first > 0 { // an earlier grant may match a claim that the token does not have
		more, err := c.userInfo(ctx, provider, token, known)
		if err != nil {
			return Grant{}, "", &Refusal{c.Host() + " does not answer as it should. Try again, or sign in with a service key.", err}
		}
		name = nameOf(more)
		first = min(first, c.firstGrant(more))
	}
	if first == len(c.Grants) {
		return Grant{}, "", &Refusal{c.Host() + " knows you as " + name + ", but you have no access here. Ask the operator of this server.", nil}
	}
	return c.Grants[first], name, nil
}

// claims are what a provider says about a person.
type claims map[string]any

func (c *Client) verified(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, nonce string) (claims, error) {
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: c.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	if id.Nonce != nonce {
		return nil, errors.New("the token belongs to another sign-in")
	}
	all := claims{}
	err = id.Claims(&all)
	return all, err
}

// userInfo returns the claims of the provider's userinfo endpoint, which has most of them in this flow.
func (c *Client) userInfo(ctx context.Context, provider *oidc.Provider, token *oauth2.Token, known claims) (claims, error) {
	if provider.UserInfoEndpoint() == "" {
		return known, nil
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, err
	}
	if info.Subject != known["sub"] {
		return nil, errors.New("the provider's userinfo is about another person")
	}
	all := claims{}
	err = info.Claims(&all)
	return all, err
}

// firstGrant returns the index of the first grant that matches, or the number of grants.
func (c *Client) firstGrant(of claims) int {
	i := slices.IndexFunc(c.Grants, func(g Grant) bool { return of.has(g.Claim, g.Value) })
	if i < 0 {
		return len(c.Grants)
	}
	return i
}

// has reports whether a claim has a value, alone or in its list. An email address counts only if the provider has
// verified it, since otherwise people could claim anyone's.
func (c claims) has(claim, value string) bool {
	if claim == "email" && c["email_verified"] != true {
		return false
	}
	switch v := c[claim].(type) {
	case string:
		return v == value
	case []any:
		return slices.Contains(v, any(value))
	}
	return false
}

// nameOf returns the name of a person for people. It need not be verified.
func nameOf(c claims) string {
	for _, claim := range []string{"email", "preferred_username", "name", "sub"} {
		if text, ok := c[claim].(string); ok && text != "" {
			return text
		}
	}
	return "nobody"
}
