package admin

import (
	"testing"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
)

func TestAnAccountIsDeletedByTheOperatorAndPutOnTheAuditRecord(t *testing.T) {
	dir := t.TempDir()
	st := withServer(t, dir)
	client := open(t, dir, false)
	if _, err := client.Accounts().Create(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	key, err := client.Keys().Create(t.Context(), api.NewKey{Account: "acme", Scopes: store.AllScopes})
	if err != nil {
		t.Fatal(err)
	}
	for _, dryRun := range []bool{true, false} {
		d, err := client.Accounts().Delete(t.Context(), "acme", dryRun)
		if err != nil || d.Account != "acme" || d.Keys != 1 || d.DryRun != dryRun || d.Deleted.IsZero() != dryRun {
			t.Errorf("dry run %t: %+v, %v", dryRun, d, err)
		}
		if _, err := st.Keys().Authenticate(key.Secret); (err == nil) != dryRun {
			t.Errorf("dry run %t: the key gives %v", dryRun, err)
		}
	}
	if _, err := client.Accounts().Delete(t.Context(), "acme", false); err == nil {
		t.Error("it can be deleted twice")
	}
	page, err := st.AuditLog().Audit(store.AuditQuery{Account: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		outcome store.AuditOutcome
		asked   string
	}{{store.AuditRefused, ""}, {store.AuditDone, ""}, {store.AuditDone, `{"dry_run":true}`}} { // newest first
		if e := page.Data[i]; e.Action != "account.delete" || e.Actor != store.Operator || e.Outcome != want.outcome || string(e.Asked) != want.asked {
			t.Errorf("entry %d of the audit record is %+v", i, e)
		}
	}
}
