package ui

import (
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// Who signs in gives a service key once, or a code that the management socket gave out, which stands for a key made for
// it. The browser gets a cookie for it, which no script can read and which no surface takes: a page cannot spend tokens. The
// key stays here. It is looked up with every request, so that the cookie is worth what the key is.

// How long a cookie is good for, how long a code, and how many of both there can be.
const (
	cookieLife = 12 * time.Hour
	codeLife   = time.Minute
	mostTokens = 1000
)

// tokens are secrets that stand for a service key for some time. Only their hashes are kept.
type tokens struct {
	mu   sync.Mutex
	keys map[[sha256.Size]byte]holder
}

type holder struct {
	key   string // the service key
	until time.Time
}

// give makes a token.
func (t *tokens) give(key string, until time.Time) string {
	token := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.keys == nil {
		t.keys = make(map[[sha256.Size]byte]holder)
	}
	if len(t.keys) >= mostTokens {
		t.forget()
	}
	t.keys[sha256.Sum256([]byte(token))] = holder{key, until}
	return token
}

// forget makes room: what is over goes, or else what is over first.
func (t *tokens) forget() {
	now := time.Now()
	var next [sha256.Size]byte
	var soonest time.Time
	for token, h := range t.keys {
		if now.After(h.until) {
			delete(t.keys, token)
		} else if soonest.IsZero() || h.until.Before(soonest) {
			next, soonest = token, h.until
		}
	}
	if len(t.keys) >= mostTokens {
		delete(t.keys, next)
	}
}

// key gives the key that a token stands for; "" if none. Once is for tokens that are good for one use.
func (t *tokens) key(token string, once bool) string {
	id := sha256.Sum256([]byte(token))
	t.mu.Lock()
	defer t.mu.Unlock()
	h, ok := t.keys[id]
	if !ok {
		return ""
	}
	expired := time.Now().After(h.until)
	if once || expired {
		delete(t.keys, id)
	}
	if expired {
		return ""
	}
	return h.key
}

func (t *tokens) drop(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.keys, sha256.Sum256([]byte(token)))
}

// Invite makes a service key of an account for a browser, and gives a code with which the page signs in, once and within a
// minute.
func (u *UI) Invite(account string) (code string, err error) {
	until := time.Now().Add(cookieLife)
	var secret string
	err = u.Archive.Audited(store.AuditEntry{Actor: store.Operator, Action: "key.create", Account: account}, func(e *store.AuditEntry) error {
		var key store.Key
		secret, key, err = u.Keys.Create(account, store.ScopeRead|store.ScopeWrite|store.ScopeErase|store.ScopeAdmin, "window in a browser", func(k *store.Key) { k.Expires = until })
		e.Subject = key.ID
		return err
	})
	if err != nil {
		return "", err
	}
	return u.codes.give(secret, time.Now().Add(codeLife)), nil
}

// cookieName has the port in it: cookies are shared by all ports of a host.
func cookieName(r *http.Request) string {
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		return "mneme-ui"
	}
	return "mneme-ui-" + port
}

// SignIn asks for a cookie, with one of its members.
type SignIn struct {
	Code string `json:"code,omitempty"`
	Key  string `json:"key,omitempty"`
}

// Signed says who is signed in.
type Signed struct {
	Account string    `json:"account"`
	Key     string    `json:"key"` // its id
	Scopes  []string  `json:"scopes"`
	Until   time.Time `json:"until,omitzero"`
	Version string    `json:"version"`
}

func (u *UI) signIn(w http.ResponseWriter, r *http.Request) {
	var asked SignIn
	if err := readJSON(w, r, &asked); err != nil {
		u.fail(w, err)
		return
	}
	key := strings.TrimSpace(asked.Key)
	if asked.Code != "" {
		if key = u.codes.key(asked.Code, true); key == "" {
			u.fail(w, codec.Errorf(codec.KindAuthentication, "this link was used already, or is older than a minute; get a new one with: mneme ui"))
			return
		}
	}
	identity, err := u.Keys.Authenticate(key)
	if err != nil {
		u.fail(w, err)
		return
	}
	until := time.Now().Add(cookieLife)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: u.cookies.give(key, until), Path: "/ui", Expires: until,
		HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: u.Secure(r),
	})
	writeJSON(w, http.StatusOK, u.signed(&identity, until))
}

func (u *UI) signed(identity *store.Identity, until time.Time) Signed {
	return Signed{
		Account: identity.Account, Key: identity.KeyID, Scopes: strings.Split(identity.Scopes.String(), ","), Until: until, Version: u.Version,
	}
}

func (u *UI) whoAmI(w http.ResponseWriter, r *http.Request) {
	identity, err := u.Keys.Authenticate(u.keyOf(r))
	if err != nil {
		u.fail(w, signedOut(err))
		return
	}
	writeJSON(w, http.StatusOK, u.signed(&identity, time.Time{}))
}

func (u *UI) signOut(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName(r)); err == nil {
		u.cookies.drop(cookie.Value)
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName(r), Path: "/ui", MaxAge: -1, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: u.Secure(r)})
	w.WriteHeader(http.StatusNoContent)
}

// keyOf is the service key that a request's cookie stands for, or "".
func (u *UI) keyOf(r *http.Request) string {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return ""
	}
	return u.cookies.key(cookie.Value, false)
}

func signedOut(cause error) *codec.Error {
	e := codec.Errorf(codec.KindAuthentication, "You are not signed in, or no longer: open the page with mneme ui, or sign in with a service key.")
	e.Code, e.Cause = "signed_out", cause
	return e
}
