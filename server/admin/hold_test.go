package admin

import (
	"context"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
)

// keyWhen waits until what is known of the only key is as it is wanted.
func keyWhen(t *testing.T, st *engine.Engine, what string, wanted func(store.Key) bool) store.Key {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		keys := st.Keys().List("")
		if len(keys) == 1 && wanted(keys[0]) {
			return keys[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("never %s: %+v", what, keys)
		}
	}
}

func TestAKeyIsHeldOverARestartOfTheServerAndRevokedBehindItsHolder(t *testing.T) {
	dir := t.TempDir()
	renewed := func(k store.Key) bool { return time.Until(k.Expires) > HeldKeyLasts/2 }

	st, stop := startServer(t, dir)
	client := open(t, dir, false)
	soon := time.Now().Add(time.Minute)
	key, err := client.Keys().Create(t.Context(), api.NewKey{Account: DefaultAccount, Scopes: store.ScopeWrite, KeySettings: api.KeySettings{Expires: &soon}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	held := make(chan struct{})
	go func() {
		defer close(held)
		client.Keys().Hold(ctx, key.ID)
	}()
	keyWhen(t, st, "held", renewed)
	stop()

	st, stop = startServer(t, dir)
	defer stop()
	if k := st.Keys().List("")[0]; !k.Revoked.IsZero() || !renewed(k) {
		t.Errorf("a server that ended left the key as %+v", k)
	}
	// A caller that makes it expire soon sees that it is held once more.
	keyWhen(t, st, "held by the next server", func(store.Key) bool {
		_, err := st.Keys().Update(key.ID, func(k *store.Key) { k.Expires = time.Now().Add(-time.Minute) })
		if err != nil {
			t.Fatal(err)
		}
		_, err = st.Keys().Authenticate(key.Secret)
		return err == nil
	})
	leave()
	<-held
	keyWhen(t, st, "revoked", func(k store.Key) bool { return !k.Revoked.IsZero() })
	page, err := st.AuditLog().Audit(store.AuditQuery{})
	if err != nil || len(page.Data) != 2 || page.Data[0].Action != "key.revoke" || page.Data[0].Subject != key.ID || page.Data[0].Account != DefaultAccount {
		t.Errorf("the audit record is %+v (%v)", page.Data, err)
	}
}

func TestAKeyThatIsRevokedIsHeldNoLonger(t *testing.T) {
	dir := t.TempDir()
	withServer(t, dir)
	client := open(t, dir, false)
	key, err := client.Keys().Create(t.Context(), api.NewKey{Account: DefaultAccount, Scopes: store.ScopeWrite})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Keys().Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	client.Keys().Hold(t.Context(), key.ID) // returns
	client.Keys().Hold(t.Context(), "key_unknown")
}
