package admin

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
)

// elsewhere serves the management as a server's main address has it.
func elsewhere(t *testing.T, st *engine.Engine) string {
	t.Helper()
	server := httptest.NewServer(http.StripPrefix(Prefix, AccountHandler(Over(st), quiet, 0)))
	t.Cleanup(server.Close)
	return server.URL
}

func keyOf(t *testing.T, st *engine.Engine, account string, scopes store.Scopes) string {
	t.Helper()
	secret, _, err := st.Keys().Create(account, scopes, "")
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func kindOf(err error) codec.Kind {
	var known *codec.Error
	if errors.As(err, &known) {
		return known.Kind
	}
	return codec.KindInternal
}

func TestAnOperatorsKeyRulesEveryAccountFromElsewhere(t *testing.T) {
	st := withServer(t, t.TempDir())
	for _, name := range []string{"default", "acme"} {
		if _, err := st.Accounts().Create(name); err != nil && kindOf(err) != codec.KindConflict {
			t.Fatal(err)
		}
	}
	origin := elsewhere(t, st)
	client, err := Remote(t.Context(), origin, keyOf(t, st, "default", store.ScopeOperator))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Accounts().Create(t.Context(), "globex"); err != nil {
		t.Error(err)
	}
	if _, err := client.Keys().Create(t.Context(), api.NewKey{Account: "acme", Scopes: store.ScopeWrite, Label: "ci"}); err != nil {
		t.Error(err)
	}
	if _, err := client.Memory().Sessions(t.Context(), "acme", nil); err != nil {
		t.Error(err)
	}
	page, err := client.Audit(t.Context(), "", "", 10)
	if err != nil || len(page.Data) == 0 || page.Data[0].Actor != client.Holder().Key {
		t.Errorf("the audit record does not name the key: %+v, %v", page.Data, err)
	}
	if page.Data[0].SubjectLabel != "ci" {
		t.Errorf("the audit record does not have the label: %+v", page.Data[0])
	}
}

func TestAnAdminKeyIsNoWayToAnOperators(t *testing.T) {
	st := withServer(t, t.TempDir())
	if _, err := st.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	origin := elsewhere(t, st)
	_, operator, err := st.Keys().Create("acme", store.ScopeOperator, "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := Remote(t.Context(), origin, keyOf(t, st, "acme", store.AllScopes))
	if err != nil {
		t.Fatal(err)
	}
	_, made := client.Keys().Create(t.Context(), api.NewKey{Account: "acme", Scopes: store.ScopeOperator | store.ScopeRead})
	_, rotated := client.Keys().Rotate(t.Context(), operator.ID, api.Rotation{})
	_, changed := client.Keys().Update(t.Context(), operator.ID, api.KeyUpdate{})
	for what, err := range map[string]error{"make": made, "rotate": rotated, "change": changed, "revoke": client.Keys().Revoke(t.Context(), operator.ID)} {
		if kindOf(err) != codec.KindPermission {
			t.Errorf("an admin key may %s an operator's: %v", what, err)
		}
	}
	if _, err := client.Accounts().Create(t.Context(), "other"); kindOf(err) != codec.KindPermission {
		t.Errorf("an admin key makes accounts: %v", err)
	}
}

func TestAnAdminKeyIsNoWayToOtherModels(t *testing.T) {
	st := withServer(t, t.TempDir())
	if _, err := st.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	secret, self, err := st.Keys().Create("acme", store.AllScopes, "", func(k *store.Key) { k.Models = store.Models{"gpt-5-mini", "claude-*"} })
	if err != nil {
		t.Fatal(err)
	}
	_, free, err := st.Keys().Create("acme", store.ScopeWrite, "")
	if err != nil {
		t.Fatal(err)
	}
	client, err := Remote(t.Context(), elsewhere(t, st), secret)
	if err != nil {
		t.Fatal(err)
	}
	keys, ctx := client.Keys(), t.Context()
	with := func(models ...string) api.KeySettings {
		m := append(store.Models{}, models...)
		return api.KeySettings{Models: &m}
	}

	for what, err := range map[string]error{
		"make one for all":             second(keys.Create(ctx, api.NewKey{Account: "acme", Scopes: store.ScopeWrite, KeySettings: with()})),
		"make one for others":          second(keys.Create(ctx, api.NewKey{Account: "acme", Scopes: store.ScopeWrite, KeySettings: with("claude-opus-4-8", "gpt-5")})),
		"make one for more":            second(keys.Create(ctx, api.NewKey{Account: "acme", Scopes: store.ScopeWrite, KeySettings: with("c*")})),
		"free itself":                  second(keys.Update(ctx, self.ID, api.KeyUpdate{KeySettings: with()})),
		"rotate one for all to itself": second(keys.Rotate(ctx, free.ID, api.Rotation{})),
	} {
		if kindOf(err) != codec.KindPermission {
			t.Errorf("an admin key for a few models may %s: %v", what, err)
		}
	}

	made, err := keys.Create(ctx, api.NewKey{Account: "acme", Scopes: store.ScopeWrite})
	if err != nil || !made.Models.Includes(self.Models) || !self.Models.Includes(made.Models) {
		t.Errorf("a key that is asked for without models has %v, %v", made.Models, err)
	}
	for what, err := range map[string]error{
		"make one for fewer": second(keys.Create(ctx, api.NewKey{Account: "acme", Scopes: store.ScopeWrite, KeySettings: with("claude-opus-*")})),
		"label one for all":  second(keys.Update(ctx, free.ID, api.KeyUpdate{Label: new(string)})),
		"rotate its like":    second(keys.Rotate(ctx, made.ID, api.Rotation{})),
		"revoke one for all": keys.Revoke(ctx, free.ID),
	} {
		if err != nil {
			t.Errorf("it may not %s: %v", what, err)
		}
	}
}

// live stands for a running server.
type live struct{}

func (live) Origins() []string         { return []string{"http://127.0.0.1:7788"} }
func (live) Providers() []api.Provider { return []api.Provider{{Name: "openai"}} }
func (live) Cluster() Cluster          { return Cluster{} }

func (live) WriteOff(context.Context, uint16) error { return nil }

func (live) Invite(string, bool) (string, error) { return "a code", nil }

func TestWhatARunningServerKnowsIsForOperators(t *testing.T) {
	st := withServer(t, t.TempDir())
	if _, err := st.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	handler := WithLiveForOperators(AccountHandler(Over(st), quiet, 0), Over(st), live{}, quiet)
	for key, want := range map[string]int{
		"": http.StatusUnauthorized, keyOf(t, st, "acme", store.AllScopes): http.StatusForbidden, keyOf(t, st, "acme", store.ScopeOperator): http.StatusOK,
	} {
		for _, pattern := range []string{"GET /providers", "GET /origins", "GET /process", "GET /cluster", "POST /ui/codes"} {
			method, path, _ := strings.Cut(pattern, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(`{"account":"acme"}`))
			r.Header.Set("Authorization", "Bearer "+key)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != want && (w.Code != http.StatusCreated || want != http.StatusOK) {
				t.Errorf("%s: %d, want %d: %s", pattern, w.Code, want, w.Body)
			}
		}
	}
}

func TestKeysAreImportedTogetherOrNotAtAll(t *testing.T) {
	st := withServer(t, t.TempDir())
	for _, name := range []string{"default", "acme"} {
		if _, err := st.Accounts().Create(name); err != nil && kindOf(err) != codec.KindConflict {
			t.Fatal(err)
		}
	}
	client, err := Remote(t.Context(), elsewhere(t, st), keyOf(t, st, "default", store.ScopeOperator))
	if err != nil {
		t.Fatal(err)
	}
	before := len(st.Keys().List(""))
	good := []api.NewKey{{Account: "acme", Scopes: store.ScopeWrite, Label: "Ada"}, {Account: "default", Scopes: store.ScopeRead, Label: "Bob"}}
	for what, asked := range map[string][]api.NewKey{
		"an account that is not there": append(slices.Clone(good), api.NewKey{Account: "nobody", Scopes: store.ScopeRead}),
		"a label that is too long":     append(slices.Clone(good), api.NewKey{Account: "acme", Scopes: store.ScopeRead, Label: strings.Repeat("x", 201)}),
		"no keys":                      {},
		"too many keys":                slices.Repeat(good, store.MostCreated/2+1),
	} {
		if made, err := client.Keys().Import(t.Context(), asked); err == nil || len(made) > 0 || len(st.Keys().List("")) != before {
			t.Errorf("%s: %v, %v, %d keys", what, made, err, len(st.Keys().List("")))
		}
	}

	all := slices.Repeat(good, store.MostCreated/2)
	made, err := client.Keys().Import(t.Context(), all)
	if err != nil || len(made) != len(all) || len(st.Keys().List("")) != before+len(all) {
		t.Fatalf("%d keys, %v", len(made), err)
	}
	for i := range made {
		if who, err := st.Keys().Authenticate(made[i].Secret); err != nil || who.Account != all[i].Account || made[i].Label != all[i].Label {
			t.Fatalf("key %d: %+v, %v", i, who, err)
		}
	}
	page, err := client.Audit(t.Context(), "acme", "", 1000)
	if err != nil || !slices.ContainsFunc(page.Data, func(e api.AuditEntry) bool {
		return e.Action == "key.create" && e.Subject == made[0].ID && e.Outcome == store.AuditDone && e.Actor == client.Holder().Key
	}) {
		t.Errorf("the audit record does not tell of a key that was imported: %v", err)
	}

	ofAcme, err := Remote(t.Context(), elsewhere(t, st), keyOf(t, st, "acme", store.AllScopes))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ofAcme.Keys().Import(t.Context(), good); kindOf(err) != codec.KindPermission {
		t.Errorf("an admin key imports keys of other accounts: %v", err)
	}
	if _, err := ofAcme.Keys().Import(t.Context(), good[:1]); err != nil {
		t.Errorf("an admin key imports none of its own account: %v", err)
	}
}

func TestAKeyIsNotSentOnToWhereAServerPoints(t *testing.T) {
	reached := false
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer thief.Close()
	server := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer server.Close()
	if _, err := Remote(t.Context(), server.URL, "mnm_secret"); err == nil || reached {
		t.Errorf("followed: %v, %v", reached, err)
	}
}
