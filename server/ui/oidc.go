package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/store"
)

// Signing in with an OpenID provider makes a key for the browser, as a code does. It is valid while the grant that
// admitted the person is configured. Between leaving for the provider and coming back, the browser keeps the attempt
// sealed in a separate cookie, which must be sent when another site leads here: SameSite=Lax.

// purposeAttempt is the sealing purpose of attempts.
const purposeAttempt = "attempt to sign in to the window"

// UseOpenID changes how people sign in with an OpenID provider. People admitted by a grant that no longer exists are
// signed out.
func (u *UI) UseOpenID(o openid.Options) { u.openID.Store(openid.New(o)) }

// OpenID describes the available sign-in.
type OpenID struct {
	Provider string `json:"provider,omitempty"` // its host; empty: sign-in is by key only
	Problem  string `json:"problem,omitempty"`  // why the last sign-in failed
}

func (u *UI) describeOpenID(w http.ResponseWriter, r *http.Request) {
	o := OpenID{}
	if c := u.openID.Load(); c.Issuer != "" {
		o.Provider = c.Host()
	}
	if code := r.URL.Query().Get("problem"); code != "" {
		o.Problem, _ = u.problems.redeem(code)
	}
	writeJSON(w, http.StatusOK, o)
}

func (u *UI) beginOpenID(w http.ResponseWriter, r *http.Request) {
	c := u.openID.Load()
	if c.Issuer == "" {
		http.NotFound(w, r)
		return
	}
	address, attempt, err := c.Begin(r.Context(), placeWithin(r.URL.Query().Get("to")))
	if err != nil {
		u.refuse(w, r, "/ui/", err)
		return
	}
	u.setCookie(w, r, attemptCookie(r), &attempt, purposeAttempt, attempt.Until, http.SameSiteLaxMode)
	http.Redirect(w, r, address, http.StatusSeeOther)
}

func (u *UI) finishOpenID(w http.ResponseWriter, r *http.Request) {
	var attempt openid.Attempt
	u.openCookie(r, attemptCookie(r), purposeAttempt, &attempt)
	dropCookie(w, attemptCookie(r))
	place := placeWithin(attempt.Place)
	grant, name, err := u.openID.Load().Finish(r.Context(), &attempt, r.URL.Query())
	if err != nil {
		u.refuse(w, r, place, err)
		return
	}
	t := ticket{Until: time.Now().Add(cookieLife), Own: true, Grant: &grant}
	var key store.Key
	if t.Key, key, err = u.ownKey(grant.Account, grant.Scopes, name+" in a browser", t.Until); err != nil {
		u.refuse(w, r, place, &openid.Refusal{Message: "Account " + grant.Account + " cannot be opened: tell the operator of this server.", Cause: err})
		return
	}
	u.enter(w, r, &t, key.ID)
	http.Redirect(w, r, place, http.StatusSeeOther)
}

// refuse redirects to the page, which asks for the reason.
func (u *UI) refuse(w http.ResponseWriter, r *http.Request, place string, err error) {
	message := "The sign-in failed on this server. It is logged."
	if refusal, ok := errors.AsType[*openid.Refusal](err); ok {
		message = refusal.Message
	}
	u.Log.Warn("a sign-in with the OpenID provider was refused", "error", err)
	http.Redirect(w, r, place+"#problem="+u.problems.give(message, time.Now().Add(codeLife)), http.StatusSeeOther)
}

// placeWithin returns a path of the page, whatever a link says.
func placeWithin(to string) string {
	place, err := url.Parse(to)
	if err != nil || place.Scheme != "" || place.Host != "" || !strings.HasPrefix(place.Path, "/ui/") || strings.HasPrefix(place.Path, "/ui/oidc/") {
		return "/ui/"
	}
	return (&url.URL{Path: place.Path, RawQuery: place.RawQuery}).String()
}

func attemptCookie(r *http.Request) string { return cookieName(r) + "-oidc" }
