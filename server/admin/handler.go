package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Bounds on requests, in bytes. Except for an import of keys, a credential is the longest thing in one.
const (
	maxBody   = 64 << 10
	maxImport = 4 << 20
)

// importPattern creates many keys at once.
const importPattern = "POST /keys/import"

// Handler serves an operator: every account, without further authentication.
func Handler(m Engine, log *slog.Logger) http.Handler {
	return routes(m, log, 0, func(*http.Request) (caller, error) { return caller{}, nil })
}

// AccountHandler serves holders of a service key with scope admin, sent as Authorization: Bearer KEY or as
// X-Service-API-Key: KEY, each confined to the key's account. Conversations need the same scopes there as elsewhere.
// The holder of a key of scope operator is served like the operator on the socket. lineBytes bounds a line of an
// import.
func AccountHandler(m Engine, log *slog.Logger, lineBytes int) http.Handler {
	mux, refusals := http.NewServeMux(), telemetry.NewRefusals(log)
	mux.HandleFunc(holderPattern, func(w http.ResponseWriter, r *http.Request) {
		identity, err := authenticate(m, r)
		if err != nil {
			logRefusal(refusals, r, &identity, err)
			writeError(w, log, err)
			return
		}
		writeJSON(w, http.StatusOK, api.Holder{Key: identity.KeyID, Account: identity.Account, Scopes: identity.Scopes})
	})
	mux.Handle("/", routes(m, log, lineBytes, byKey(m, refusals)))
	return mux
}

// byKey identifies callers by their service keys.
func byKey(m Engine, refusals *telemetry.Refusals) func(*http.Request) (caller, error) {
	return func(r *http.Request) (caller, error) {
		identity, err := authenticate(m, r)
		if err != nil {
			logRefusal(refusals, r, &identity, err)
			return caller{}, err
		}
		if identity.Scopes.Has(store.ScopeOperator) {
			return caller{key: identity.KeyID}, nil
		}
		c := caller{account: identity.Account, key: identity.KeyID, scopes: identity.Scopes, models: identity.Models}
		if err = c.require(store.ScopeAdmin); err != nil {
			logRefusal(refusals, r, &identity, err)
		}
		return c, err
	}
}

func logRefusal(refusals *telemetry.Refusals, r *http.Request, key *store.Identity, err error) {
	client, _, _ := net.SplitHostPort(r.RemoteAddr)
	refusals.Log(time.Now(), telemetry.Refusal{
		Client: cmp.Or(client, r.RemoteAddr), Account: key.Account, KeyID: key.KeyID, KeyLabel: key.Label, Reason: err.Error(),
	})
}

// holderPattern tells the holder of a key what it is valid for.
const holderPattern = "GET /key"

// authenticate returns the identity of the service key of a request.
func authenticate(m Engine, r *http.Request) (store.Identity, error) {
	key := r.Header.Get("X-Service-API-Key")
	if key == "" {
		key, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	return m.Keys.Authenticate(key)
}

// caller is the operator, or the holder of an account's key.
type caller struct {
	account string       // "": the operator
	key     string       // "" on the socket
	scopes  store.Scopes // of a key that is not an operator's
	models  store.Models // that it may ask for; empty: all
}

func (c caller) isOperator() bool { return c.account == "" }

// require returns an error unless the caller has the scope. The operator has every scope.
func (c caller) require(scope store.Scopes) error {
	if c.isOperator() || c.scopes.Has(scope) {
		return nil
	}
	e := codec.Errorf(codec.KindPermission, "this needs a key of scope %s, and this one has %s; make one with: mneme key create --account %s --scope %s",
		scope, c.scopes, c.account, store.ScopeAdmin|scope)
	e.Code = "missing_scope"
	return e
}

// requireModels returns an error unless the caller's key may ask for all of these models. Otherwise a restricted key
// could make an unrestricted one.
func (c caller) requireModels(models store.Models) error {
	if c.models.Includes(models) {
		return nil
	}
	e := codec.Errorf(codec.KindPermission, "this key is limited to %s, and so are keys that it creates, changes or rotates", strings.Join(c.models, ", "))
	e.Code, e.Param = "model_not_allowed", "models"
	return e
}

// actor names the caller in the audit record.
func (c caller) actor() string {
	if c.key == "" {
		return store.Operator
	}
	return c.key
}

// within returns the account of a request. Without one it is all of the operator's, or the caller's own.
func (c caller) within(asked string) (string, error) {
	switch {
	case c.isOperator(), asked == c.account:
		return asked, nil
	case asked == "":
		return c.account, nil
	}
	return "", codec.Errorf(codec.KindPermission, "this key manages account %q only", c.account)
}

type endpoints struct{ engine Engine }

// endpoint answers one request. The answer is encoded as JSON; nil becomes 204.
type endpoint func(c caller, r *http.Request) (answer any, err error)

func routes(m Engine, log *slog.Logger, lineBytes int, identify func(*http.Request) (caller, error)) http.Handler {
	e := endpoints{m}
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, log, codec.Errorf(codec.KindNotFound, "there is no %s %s", r.Method, r.URL.Path))
	})
	for pattern, serve := range e.table() {
		if a, kept := acts[pattern]; kept {
			serve = e.audited(a, serve)
		}
		limit := int64(maxBody)
		if pattern == importPattern {
			limit = maxImport
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, limit)
			c, err := identify(r)
			if err != nil {
				writeError(w, log, err)
				return
			}
			answer, err := serve(c, r)
			switch {
			case err != nil:
				writeError(w, log, err)
			case answer == nil:
				w.WriteHeader(http.StatusNoContent)
			case r.Method == http.MethodPost:
				writeJSON(w, http.StatusCreated, answer)
			default:
				writeJSON(w, http.StatusOK, answer)
			}
		})
	}
	for pattern, serve := range e.streams() {
		mux.Handle(pattern, operatorOnly(identify, log, serve))
	}
	mux.Handle(memoryRoot, memoryHandler(m, log, lineBytes, identify))
	return mux
}

// table has the endpoints that answer with JSON, or with nothing.
func (e endpoints) table() map[string]endpoint {
	return map[string]endpoint{
		"GET /accounts":              e.accounts,
		"POST /accounts":             e.createAccount,
		"PATCH /accounts/{account}":  e.updateAccount,
		"DELETE /accounts/{account}": e.deleteAccount,
		"GET /usage":                 e.usage,

		"PUT /accounts/{account}/credentials/{provider}":    e.setCredential,
		"DELETE /accounts/{account}/credentials/{provider}": e.removeCredential,

		"PUT /accounts/{account}/retention":    e.setRetention,
		"DELETE /accounts/{account}/retention": e.resetRetention,

		"GET /keys":              e.keys,
		"POST /keys":             e.createKey,
		importPattern:            e.importKeys,
		"PATCH /keys/{id}":       e.updateKey,
		"POST /keys/{id}/rotate": e.rotateKey,
		"DELETE /keys/{id}":      e.revokeKey,

		"GET /audit":              e.audit,
		"GET /exchanges":          e.exchanges,
		"GET /exchanges/{id}":     e.exchange,
		"POST /master-key/rotate": e.rotateMasterKey,
		"POST /reindex":           e.reindex,
		"POST /compact":           e.compact,
	}
}

// streams has the operator's endpoints that write their answers as streams.
func (e endpoints) streams() map[string]func(http.ResponseWriter, *http.Request) error {
	return map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /keys/{id}/hold": e.hold,
		"POST /check":          e.check,
		"GET /backup":          e.backup,
	}
}

// Patterns returns the methods and paths besides those of the memory, as [http.ServeMux] writes them.
func Patterns() []string {
	var e endpoints
	all := append(slices.Collect(maps.Keys(e.table())), holderPattern)
	all = slices.AppendSeq(all, maps.Keys(e.streams()))
	return slices.AppendSeq(all, maps.Keys(liveRoutes(nil, nil)))
}

// memoryHandler serves the memory of the accounts that the caller manages.
func memoryHandler(m Engine, log *slog.Logger, lineBytes int, identify func(*http.Request) (caller, error)) http.Handler {
	return memory.Handler(memory.Options{
		Archive: m.Archive, Searcher: m.Searcher, Ledger: m.Accounts, Recaller: m.Recaller, Prices: m.Prices, AccountParameter: accountParameter, LineBytes: lineBytes,
		Identify: func(r *http.Request, scope store.Scopes) (string, error) {
			c, err := identify(r)
			if err == nil {
				err = c.require(scope)
			}
			if err != nil {
				return "", err
			}
			account, err := c.within(r.URL.Query().Get(accountParameter))
			if err == nil && account == "" {
				err = codec.Invalid(accountParameter, "say whose memory is meant")
			}
			return account, err
		},
		Actor: func(r *http.Request) (string, error) {
			c, err := identify(r)
			return c.actor(), err
		},
		Fail: func(w http.ResponseWriter, _ *http.Request, err error) { writeError(w, log, err) },
	})
}

func (e endpoints) accounts(c caller, _ *http.Request) (any, error) {
	list := api.Page[api.Account]{Data: []api.Account{}}
	for _, account := range e.engine.Accounts.List() {
		if !c.isOperator() && account.Name != c.account {
			continue
		}
		providers, err := e.engine.Credentials.List(account.Name)
		if err != nil {
			return nil, err
		}
		if providers == nil {
			providers = []string{}
		}
		list.Data = append(list.Data, api.Account{Name: account.Name, Created: account.Created, Credentials: providers, Budget: account.Budget})
	}
	return list, nil
}

func (e endpoints) createAccount(c caller, r *http.Request) (any, error) {
	var asked api.NewAccount
	if err := readJSON(r, &asked); err != nil {
		return nil, err
	}
	if !c.isOperator() {
		return nil, codec.Errorf(codec.KindPermission, "accounts are made on the server itself, with: mneme account create %s", asked.Name)
	}
	account, err := e.engine.Accounts.Create(asked.Name)
	if err != nil {
		return nil, err
	}
	return api.Account{Name: account.Name, Created: account.Created, Credentials: []string{}}, nil
}

func (e endpoints) setCredential(c caller, r *http.Request) (any, error) {
	account, err := c.within(r.PathValue("account"))
	if err != nil {
		return nil, err
	}
	var asked api.Credential
	if err := readJSON(r, &asked); err != nil {
		return nil, err
	}
	if store.LooksLikeKey(asked.Secret) {
		return nil, codec.Invalid("secret", "this is a service key of mneme; a credential is what the provider %s gave out", r.PathValue("provider"))
	}
	return nil, e.engine.Credentials.Set(account, r.PathValue("provider"), asked.Secret)
}

func (e endpoints) removeCredential(c caller, r *http.Request) (any, error) {
	account, err := c.within(r.PathValue("account"))
	if err != nil {
		return nil, err
	}
	return nil, e.engine.Credentials.Remove(account, r.PathValue("provider"))
}

// updateAccount sets the account's budgets.
func (e endpoints) updateAccount(c caller, r *http.Request) (any, error) {
	if err := requireOperator(c); err != nil {
		return nil, err
	}
	var asked api.BudgetChange
	if err := readJSON(r, &asked); err != nil {
		return nil, err
	}
	return e.engine.Accounts.SetBudget(r.Context(), r.PathValue("account"), asked.Apply)
}

// usage reports on one account, or for the operator on all.
func (e endpoints) usage(c caller, r *http.Request) (any, error) {
	if err := c.require(store.ScopeRead); err != nil {
		return nil, err
	}
	query := r.URL.Query()
	account, err := c.within(query.Get("account"))
	if err != nil {
		return nil, err
	}
	q := memory.UsageQuery{RollupQuery: record.RollupQuery{Account: account}}
	for _, bound := range []struct {
		name string
		at   *time.Time
	}{{"since", &q.Since}, {"until", &q.Until}} {
		if text := query.Get(bound.name); text != "" {
			if *bound.at, err = time.Parse(time.RFC3339, text); err != nil {
				return nil, codec.Invalid(bound.name, "%q is not a time; write it as 2026-11-20T08:00:00Z", text)
			}
		}
	}
	if by := query.Get("by"); by != "" {
		q.By = strings.Split(by, ",")
	}
	q.Keys = e.engine.Keys
	return memory.ReadUsage(r.Context(), e.engine.Accounts, &q)
}

// deleteAccount deletes the account, or with ?dry_run=true reports what would be deleted.
func (e endpoints) deleteAccount(c caller, r *http.Request) (any, error) {
	if err := requireOperator(c); err != nil {
		return nil, err
	}
	return e.engine.Accounts.Delete(r.Context(), r.PathValue("account"), r.URL.Query().Get("dry_run") == "true")
}

func (e endpoints) setRetention(c caller, r *http.Request) (any, error) {
	if err := requireOperator(c); err != nil {
		return nil, err
	}
	var asked store.Retention
	if err := readJSON(r, &asked); err != nil {
		return nil, err
	}
	return nil, e.engine.Accounts.SetRetention(r.Context(), r.PathValue("account"), &asked)
}

func (e endpoints) resetRetention(c caller, r *http.Request) (any, error) {
	if err := requireOperator(c); err != nil {
		return nil, err
	}
	return nil, e.engine.Accounts.SetRetention(r.Context(), r.PathValue("account"), nil)
}

func (e endpoints) keys(c caller, r *http.Request) (any, error) {
	account, err := c.within(r.URL.Query().Get("account"))
	if err != nil {
		return nil, err
	}
	keys := e.engine.Keys.List(account)
	if keys == nil {
		keys = []store.Key{}
	}
	return api.Page[store.Key]{Data: keys}, nil
}

func (e endpoints) createKey(c caller, r *http.Request) (any, error) {
	var asked api.NewKey
	if err := readJSON(r, &asked); err != nil {
		return nil, err
	}
	made, err := e.createKeys(c, []api.NewKey{asked})
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

// importKeys creates all keys or none. Each gets an entry in the audit record, like a key that is created alone.
func (e endpoints) importKeys(c caller, r *http.Request) (any, error) {
	var asked api.KeyImport
	if err := readJSON(r, &asked); err != nil {
		return nil, err
	}
	if n := len(asked.Keys); n == 0 || n > store.MostCreated {
		return nil, codec.Invalid("keys", "import 1 to %d keys at a time, not %d", store.MostCreated, n)
	}
	made, err := e.auditedKeys(c, asked.Keys, func() ([]api.CreatedKey, error) { return e.createKeys(c, asked.Keys) })
	if err != nil {
		return nil, err
	}
	return api.Page[api.CreatedKey]{Data: made}, nil
}

// createKeys creates all keys or none.
func (e endpoints) createKeys(c caller, asked []api.NewKey) ([]api.CreatedKey, error) {
	keys := make([]store.NewKey, len(asked))
	for i := range asked {
		one := &asked[i]
		account, err := c.within(one.Account)
		if err != nil {
			return nil, err
		}
		if one.Scopes.Has(store.ScopeOperator) && !c.isOperator() {
			return nil, codec.Errorf(codec.KindPermission, "a key of scope operator is made by an operator: on the server itself, or with a key of that scope")
		}
		if one.Models == nil {
			one.Models = &c.models
		}
		if err := c.requireModels(*one.Models); err != nil {
			return nil, err
		}
		keys[i] = store.NewKey{Account: account, Scopes: one.Scopes, Label: one.Label, Set: one.Apply}
	}
	return e.engine.Keys.CreateAll(keys)
}

func (e endpoints) updateKey(c caller, r *http.Request) (any, error) {
	var asked api.KeyUpdate
	if err := readJSON(r, &asked); err != nil {
		return nil, err
	}
	key, err := e.keyOf(c, r)
	if err != nil {
		return nil, err
	}
	if asked.Models != nil {
		if err := c.requireModels(*asked.Models); err != nil {
			return nil, err
		}
	}
	return e.engine.Keys.Update(key.ID, asked.Apply)
}

func (e endpoints) rotateKey(c caller, r *http.Request) (any, error) {
	var asked api.Rotation
	if err := readJSON(r, &asked); err != nil {
		return nil, err
	}
	key, err := e.keyOf(c, r)
	if err == nil {
		err = c.requireModels(key.Models)
	}
	if err != nil {
		return nil, err
	}
	secret, fresh, err := e.engine.Keys.Rotate(key.ID, asked.Overlap)
	if err != nil {
		return nil, err
	}
	return api.CreatedKey{Key: fresh, Secret: secret}, nil
}

func (e endpoints) revokeKey(c caller, r *http.Request) (any, error) {
	key, err := e.keyOf(c, r)
	if err != nil {
		return nil, err
	}
	return nil, e.engine.Keys.Revoke(key.ID)
}

// keyOf returns the key of a request. A key of another account counts as missing. An operator's key is for operators
// only: a caller that rotated it would hold it.
func (e endpoints) keyOf(c caller, r *http.Request) (store.Key, error) {
	id := r.PathValue("id")
	keys := e.engine.Keys.List(c.account)
	i := slices.IndexFunc(keys, func(k store.Key) bool { return k.ID == id })
	switch {
	case i < 0:
		return store.Key{}, codec.Errorf(codec.KindNotFound, "no key %q", id)
	case keys[i].Scopes.Has(store.ScopeOperator) && !c.isOperator():
		return store.Key{}, codec.Errorf(codec.KindPermission, "key %s is an operator's, and changed by operators alone", id)
	}
	return keys[i], nil
}

func (e endpoints) exchanges(c caller, r *http.Request) (any, error) {
	if err := c.require(store.ScopeRead); err != nil {
		return nil, err
	}
	query := r.URL.Query()
	account, err := c.within(query.Get("account"))
	if err != nil {
		return nil, err
	}
	q := record.ExchangeQuery{After: query.Get("after")}
	if text := query.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 {
			return nil, codec.Invalid("limit", "%q is not a number above 0", text)
		}
	}
	page, err := e.engine.Archive.Exchanges(account, q)
	if err != nil {
		return nil, err
	}
	return api.Page[record.ExchangeInfo]{Data: page.Data, HasMore: page.HasMore}, nil
}

func (e endpoints) exchange(c caller, r *http.Request) (any, error) {
	if err := c.require(store.ScopeRead); err != nil {
		return nil, err
	}
	x, err := e.engine.Archive.Exchange(c.account, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	shown := api.Exchange{ExchangeInfo: x.ExchangeInfo}
	shown.SetRequest(x.RawRequest)
	shown.SetResponse(x.RawResponse)
	return shown, nil
}

func readJSON(r *http.Request, v any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(v); err != nil {
		invalid := codec.Errorf(codec.KindInvalidRequest, "the body is not the expected JSON")
		if name, stranger := strings.CutPrefix(err.Error(), "json: unknown field "); stranger {
			invalid.Message = "the body has a member that is not known here: " + name
		}
		invalid.Cause = err
		return invalid
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return codec.Errorf(codec.KindInvalidRequest, "more than one JSON value in the body")
	}
	return nil
}

func writeJSON(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer) // fails only when the caller has left
}
