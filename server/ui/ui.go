// Package ui serves the window: a page at /ui that shows conversations, costs and the memory.
//
// The page is a program of its own in the browser. It uses the public APIs, mounted below /ui, where a sign-in cookie
// takes the place of a service key:
//
//	GET    /ui/...              the page, in every view
//	GET    /ui/assets/...       its assets
//	POST   /ui/session          sign in with {"code"} or {"key"}; an operator chooses an {"account"}
//	GET    /ui/session          who is signed in
//	DELETE /ui/session          sign out
//	GET    /ui/oidc             the sign-in with an OpenID provider
//	GET    /ui/oidc/start       start it; GET /ui/oidc/callback completes it
//	GET    /ui/v1/health        the server's health
//	GET    /ui/v1/histories     the histories that agents keep on this machine
//	POST   /ui/v1/histories     import it: {"client", "dry_run"}; answers with lines of JSON
//	GET    /ui/v1/sessions/{id}/page     a session as one HTML page to share
//	GET    /ui/v1/sessions/{id}/message  {"message"}, with which another agent can go on
//	POST   /ui/v1/sessions/{id}/handoff  {"to"}: writes it into the history of an agent on this machine
//	*      /ui/v1/memory/...    package memory
//	*      /ui/v1/admin/...     package admin
//
// Requests that a page of another site may have sent are refused. Host and Origin are checked first (listen.Names),
// cross-site requests are rejected by the browser's own headers, and everything except reading a tail or a picture
// needs a header of ours, which other sites cannot set.
package ui

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/store"
)

// Options configure the window.
type Options struct {
	Archive    memory.Archive
	Keys       Keys
	Accounts   Accounts
	Sealer     Sealer
	Version    string
	Log        *slog.Logger
	Closing    <-chan struct{} // ends tails
	Management http.Handler    // for holders of keys, whom it authenticates; nil: none
	Health     func() Health
	Memory     memory.Options           // Archive, Identify, Actor, Fail and Closing are set here
	Allowed    func(*http.Request) bool // the connection is from this machine, or under TLS
	Secure     func(*http.Request) bool // the connection is under TLS
	OpenID     openid.Options           // see UseOpenID

	Home  string                   // of the user whose agents' histories can be imported; "": none
	Local func(*http.Request) bool // only this machine can reach the listener of the connection
}

// Keys identifies the callers of a memory.
type Keys interface {
	Authenticate(secret string) (store.Identity, error)
	Create(account string, scopes store.Scopes, label string, set ...func(*store.Key)) (secret string, key store.Key, err error)
	Revoke(id string) error
}

// Accounts are the accounts that can be shown.
type Accounts interface {
	List() []store.Account
}

// Sealer seals cookies, and ends them before they expire.
type Sealer interface {
	SealToken(text, purpose string) string
	OpenToken(token, purpose string) (text string, ok bool)
	WithdrawToken(key, id string, until time.Time) error
	Withdrawn(key, id string, until time.Time) (bool, error)
}

// Health is the server's health.
type Health struct {
	Object    string           `json:"object"` // "health"
	Version   string           `json:"version"`
	Ready     bool             `json:"ready"`
	Problem   string           `json:"problem,omitempty"` // why it is not ready
	Draining  bool             `json:"draining,omitempty"`
	Open      int              `json:"open"` // requests in progress
	Streams   int              `json:"streams"`
	Capture   bool             `json:"capture"`
	Models    string           `json:"models_as_of"`
	Prices    string           `json:"prices_as_of"`
	Providers []HealthProvider `json:"providers"`
	Findings  []Finding        `json:"findings"`
}

// Finding is the result of one of the doctor's checks.
type Finding struct {
	Check string `json:"check"`
	State string `json:"state"` // good, warning or problem
	Found string `json:"found"`
	Fix   string `json:"fix,omitempty"`
}

// HealthProvider is one endpoint of a provider.
type HealthProvider struct {
	Name      string `json:"name"`
	BaseURL   string `json:"base_url"`
	Breaker   string `json:"breaker"` // closed, half-open, open
	KeysReady int    `json:"keys_ready"`
	Simulated bool   `json:"simulated,omitempty"`
}

// UI serves the window.
type UI struct {
	Options
	mux   *http.ServeMux
	codes codes

	openID   atomic.Pointer[openid.Client]
	problems codes // stand for the reasons of failed sign-ins

	importing sync.Mutex // held while a history is imported
}

// headerUI marks requests of the page.
const headerUI = "X-Mneme-UI"

// New makes the window.
func New(o Options) *UI {
	u := &UI{Options: o, mux: http.NewServeMux()}
	u.UseOpenID(o.OpenID)
	m := o.Memory
	m.Archive, m.Closing = o.Archive, o.Closing
	m.Fail = func(w http.ResponseWriter, _ *http.Request, err error) { u.fail(w, err) }
	m.Identify = func(r *http.Request, scope store.Scopes) (string, error) {
		_, identity, err := u.identify(r)
		if err != nil {
			return "", err
		}
		return identity.Account, requireScope(&identity, scope)
	}
	m.Actor = func(r *http.Request) (string, error) {
		_, identity, err := u.identify(r)
		return identity.KeyID, err
	}
	u.mux.HandleFunc("POST /ui/session", u.signIn)
	u.mux.HandleFunc("GET /ui/session", u.whoAmI)
	u.mux.HandleFunc("DELETE /ui/session", u.signOut)
	u.mux.HandleFunc("GET /ui/oidc", u.describeOpenID)
	u.mux.HandleFunc("GET /ui/oidc/start", u.beginOpenID)
	u.mux.HandleFunc("GET "+openid.CallbackPath, u.finishOpenID)
	u.mux.HandleFunc("GET /ui/v1/health", u.health)
	u.mux.HandleFunc("GET /ui/v1/histories", u.histories)
	u.mux.HandleFunc("POST /ui/v1/histories", u.importHistory)
	u.mux.HandleFunc("GET /ui/v1/sessions/{id}/page", u.sharePage)
	u.mux.HandleFunc("GET /ui/v1/sessions/{id}/message", u.firstMessage)
	u.mux.HandleFunc("POST /ui/v1/sessions/{id}/handoff", u.handOver)
	u.mux.Handle("/ui/v1/memory/", http.StripPrefix("/ui", memory.Handler(m)))
	u.mux.HandleFunc("/ui/v1/admin/", u.manage)
	u.mux.HandleFunc("/ui/", func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/ui/assets/") {
			if !page().serve(w, r) {
				http.NotFound(w, r)
			}
			return
		}
		page().serveIndex(w, r)
	})
	return u
}

func requireScope(identity *store.Identity, scope store.Scopes) error {
	if identity.Scopes.Has(scope) {
		return nil
	}
	e := codec.Errorf(codec.KindPermission, "This needs a key with scope %s, but yours has %s. Sign in with another key, or open the page with: mneme ui", scope, identity.Scopes)
	e.Code = "missing_scope"
	return e
}

// ServeHTTP serves everything below /ui.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", page().policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	if !u.Allowed(r) {
		http.Error(w, "The window is shown only on this machine or over TLS: on an open network, others could read along. Use a tls: address (setting listen), or a tunnel such as ssh -L.", http.StatusForbidden)
		return
	}
	if !u.fromPage(r) {
		u.fail(w, codec.Errorf(codec.KindPermission, "this is for the page at /ui; programs use /v1/memory with a service key"))
		return
	}
	u.mux.ServeHTTP(w, r)
}

// fromPage reports whether a request may come from the page. A browser may navigate to it from anywhere, and a tail or
// an image request cannot carry our header.
func (u *UI) fromPage(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	sameSite := site == "" || site == "same-origin"
	switch path := r.URL.Path; {
	case path == "/ui/oidc", path == "/ui/oidc/start": // a link on another site must not start a sign-in
		return sameSite
	case path == "/ui/session", strings.HasPrefix(path, "/ui/v1/"):
		bare := r.Method == http.MethodGet && (path == "/ui/v1/memory/events" || picture.MatchString(path))
		return sameSite && (bare || r.Header.Get(headerUI) != "")
	}
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

var picture = regexp.MustCompile(`^/ui/v1/memory/exchanges/\w+/(messages/\d+|answer)/parts/\d+$`)

// manage forwards a request to the management API, with the key.
func (u *UI) manage(w http.ResponseWriter, r *http.Request) {
	t, _, err := u.identify(r)
	if err != nil {
		u.fail(w, err)
		return
	}
	if u.Management == nil {
		http.NotFound(w, r)
		return
	}
	own := r.Clone(r.Context())
	own.Header.Set("Authorization", "Bearer "+t.Key)
	own.Header.Del("X-Service-API-Key")
	own.Header.Del("Cookie")
	http.StripPrefix("/ui/v1/admin", u.Management).ServeHTTP(w, own)
}

func (u *UI) health(w http.ResponseWriter, r *http.Request) {
	_, identity, err := u.identify(r)
	if err == nil {
		err = requireScope(&identity, store.ScopeRead)
	}
	if err != nil {
		u.fail(w, err)
		return
	}
	writeJSON(w, http.StatusOK, u.Health())
}

// statusOf maps kinds of errors to HTTP statuses; any other kind is an internal error.
var statusOf = map[codec.Kind]int{
	codec.KindInvalidRequest: http.StatusBadRequest, codec.KindAuthentication: http.StatusUnauthorized, codec.KindPermission: http.StatusForbidden,
	codec.KindNotFound: http.StatusNotFound, codec.KindConflict: http.StatusConflict, codec.KindTooLarge: http.StatusRequestEntityTooLarge,
	codec.KindStorage: http.StatusServiceUnavailable, codec.KindOverloaded: http.StatusServiceUnavailable,
	codec.KindUnsupported: http.StatusNotImplemented,
}

func (u *UI) fail(w http.ResponseWriter, err error) {
	e := codec.AsError(err, "The server failed on this request. It is logged.")
	status, known := statusOf[e.Kind]
	if !known {
		status = http.StatusInternalServerError
		u.Log.Error("a request of the window failed", "error", err)
	}
	writeJSON(w, status, map[string]any{"error": map[string]string{"kind": e.Kind.String(), "message": e.Message, "code": e.Code, "param": e.Param}})
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // fails only when the caller has left
}

// maxBody bounds a sign-in request, in bytes.
const maxBody = 4 << 10

func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(v) != nil {
		return codec.Errorf(codec.KindInvalidRequest, "the body is not the expected JSON object")
	}
	return nil
}
