package ui

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/store"
)

// People sign in with a service key, with a code from the management socket, for which a key is made, or with an OpenID
// provider (oidc.go). The browser gets a cookie with the key sealed in it. Scripts cannot read it, no surface accepts
// it, and it survives a restart, so a page cannot spend tokens. The key is checked with every request, so the cookie is
// worth what the key is.

// The lifetimes of cookies and of codes.
const (
	cookieLife = 12 * time.Hour
	codeLife   = time.Minute
)

// purposeCookie is the sealing purpose of cookies.
const purposeCookie = "cookie of the window"

// ticket is the sealed content of a cookie.
type ticket struct {
	ID    string    `json:"id"`  // of the cookie
	Key   string    `json:"key"` // the service key
	KeyID string    `json:"key_id"`
	Until time.Time `json:"until"`
	Own   bool      `json:"own,omitempty"` // the key was made for this browser, and is revoked by signing out

	Grant   *openid.Grant `json:"grant,omitempty"`   // the OpenID grant that admitted the person
	Account string        `json:"account,omitempty"` // that an operator looks at, instead of the key's own
}

// byCode reports whether the operator admitted the browser.
func (t *ticket) byCode() bool { return t.Own && t.Grant == nil }

// Invite returns a code with which the page signs in to an account, once and within a minute. An operator may look at
// every account.
func (u *UI) Invite(account string, operator bool) (code string, err error) {
	if err := u.mustExist(account); err != nil {
		return "", err
	}
	scopes := store.AllScopes
	if operator {
		scopes |= store.ScopeOperator
	}
	return u.codes.give(scopes.String()+" "+account, time.Now().Add(codeLife)), nil
}

func (u *UI) mustExist(account string) error {
	if slices.ContainsFunc(u.Accounts.List(), func(a store.Account) bool { return a.Name == account }) {
		return nil
	}
	return codec.Errorf(codec.KindNotFound, "no account %q", account)
}

// ownKey makes a browser's service key.
func (u *UI) ownKey(account string, scopes store.Scopes, label string, until time.Time) (secret string, key store.Key, err error) {
	err = u.Archive.Audited(store.AuditEntry{Actor: store.Operator, Action: "key.create", Account: account}, func(e *store.AuditEntry) error {
		secret, key, err = u.Keys.Create(account, scopes, label, func(k *store.Key) { k.Expires = until })
		e.Subject = key.ID
		return err
	})
	return secret, key, err
}

// SignIn asks for a cookie, with one of its members.
type SignIn struct {
	Code    string `json:"code,omitempty"`
	Key     string `json:"key,omitempty"`
	Account string `json:"account,omitempty"` // of an operator who is signed in
}

// Signed is the identity of a signed-in browser.
type Signed struct {
	Account string    `json:"account"`
	Key     string    `json:"key"` // its id
	Scopes  []string  `json:"scopes"`
	Until   time.Time `json:"until,omitzero"`
	Version string    `json:"version"`

	Histories bool `json:"histories,omitempty"` // may be imported
}

func (u *UI) signIn(w http.ResponseWriter, r *http.Request) {
	var asked SignIn
	if err := readJSON(w, r, &asked); err != nil {
		u.fail(w, err)
		return
	}
	t := ticket{Key: strings.TrimSpace(asked.Key), Until: time.Now().Add(cookieLife)}
	var err error
	switch {
	case asked.Code != "":
		t, err = u.redeem(r, asked.Code)
	case asked.Account != "":
		t, err = u.lookAt(r, asked.Account)
	}
	if err != nil {
		u.fail(w, err)
		return
	}
	identity, err := u.whose(&t)
	if err != nil {
		u.fail(w, err)
		return
	}
	u.enter(w, r, &t, identity.KeyID)
	signed := u.signed(r, &t, &identity)
	signed.Until = t.Until
	writeJSON(w, http.StatusOK, signed)
}

// redeem returns the ticket for a code. A browser that already has a key from a code in the account keeps it.
func (u *UI) redeem(r *http.Request, code string) (ticket, error) {
	text, ok := u.codes.redeem(code)
	if !ok {
		return ticket{}, codec.Errorf(codec.KindAuthentication, "this link was already used, or is older than a minute; get a new one with: mneme ui")
	}
	names, account, _ := strings.Cut(text, " ")
	scopes, err := store.ParseScopes(names)
	must(err)
	if t, ok := u.ticketOf(r); ok && t.byCode() && time.Until(t.Until) > cookieLife/2 {
		if identity, err := u.Keys.Authenticate(t.Key); err == nil && identity.Account == account && identity.Scopes == scopes {
			t.Account = ""
			return t, nil
		}
	}
	t := ticket{Until: time.Now().Add(cookieLife), Own: true}
	t.Key, _, err = u.ownKey(account, scopes, "window in a browser", t.Until)
	return t, err
}

// lookAt returns the ticket with which an operator looks at an account.
func (u *UI) lookAt(r *http.Request, account string) (ticket, error) {
	t, identity, err := u.identify(r)
	if err == nil {
		err = requireScope(&identity, store.ScopeOperator)
	}
	if err == nil {
		err = u.mustExist(account)
	}
	t.Account = account
	return t, err
}

// identify returns the ticket of a request, and whose it is.
func (u *UI) identify(r *http.Request) (t ticket, identity store.Identity, err error) {
	t, _ = u.ticketOf(r)
	if identity, err = u.whose(&t); err != nil {
		err = signedOut(err)
	}
	return t, identity, err
}

// whose returns the identity of a ticket's key. An operator has every scope, in the account that is looked at.
func (u *UI) whose(t *ticket) (store.Identity, error) {
	identity, err := u.Keys.Authenticate(t.Key)
	if err == nil && identity.Scopes.Has(store.ScopeOperator) {
		identity.Scopes |= store.AllScopes
		if t.Account != "" && u.mustExist(t.Account) == nil {
			identity.Account = t.Account
		}
	}
	return identity, err
}

// enter sets the browser's cookie. One that continues another has the same id, so that signing out ends both.
func (u *UI) enter(w http.ResponseWriter, r *http.Request, t *ticket, key string) {
	t.ID, t.KeyID = cmp.Or(t.ID, rand.Text()), key
	u.setCookie(w, r, cookieName(r), t, purposeCookie, t.Until, http.SameSiteStrictMode)
}

func (u *UI) signed(r *http.Request, t *ticket, identity *store.Identity) Signed {
	return Signed{
		Account: identity.Account, Key: identity.KeyID, Scopes: strings.Split(identity.Scopes.String(), ","), Version: u.Version,
		Histories: u.mayImport(r, t, identity),
	}
}

func (u *UI) whoAmI(w http.ResponseWriter, r *http.Request) {
	t, identity, err := u.identify(r)
	if err != nil {
		u.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, u.signed(r, &t, &identity))
}

// signOut ends the cookie on this node for good, and the key that was made for it in the whole cluster.
func (u *UI) signOut(w http.ResponseWriter, r *http.Request) {
	dropCookie(w, cookieName(r))
	var t ticket
	if u.openCookie(r, cookieName(r), purposeCookie, &t) && time.Now().Before(t.Until) {
		if err := u.Sealer.WithdrawToken(t.KeyID, t.ID, t.Until); err != nil {
			u.fail(w, err)
			return
		}
		if t.Own { // even if its grant is gone: it may come back
			u.revoke(t.Key)
		}
	}
	w.WriteHeader(http.StatusNoContent)
}

func (u *UI) revoke(secret string) {
	identity, err := u.Keys.Authenticate(secret)
	if err != nil {
		return // it is invalid anyway
	}
	err = u.Archive.Audited(store.AuditEntry{Actor: identity.KeyID, Action: "key.revoke", Account: identity.Account, Subject: identity.KeyID}, func(*store.AuditEntry) error {
		return u.Keys.Revoke(identity.KeyID)
	})
	if err != nil {
		u.Log.Error("the key of a browser that signed out could not be revoked", "key", identity.KeyID, "error", err)
	}
}

// ticketOf opens the cookie of a request; ok is false without a valid one.
func (u *UI) ticketOf(r *http.Request) (t ticket, ok bool) {
	if !u.openCookie(r, cookieName(r), purposeCookie, &t) || time.Now().After(t.Until) || t.Grant != nil && !u.openID.Load().Permits(*t.Grant) {
		return ticket{}, false
	}
	ended, err := u.Sealer.Withdrawn(t.KeyID, t.ID, t.Until)
	if err != nil {
		u.Log.Error("a cookie is refused", "error", err)
	}
	if ended || err != nil {
		return ticket{}, false
	}
	return t, true
}

func signedOut(cause error) *codec.Error {
	e := codec.Errorf(codec.KindAuthentication, "You are not signed in: open the page with mneme ui, or sign in with a service key.")
	e.Code, e.Cause = "signed_out", cause
	return e
}
