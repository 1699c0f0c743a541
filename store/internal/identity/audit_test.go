package identity

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

func audited(t *testing.T, s *harness, q AuditQuery) []AuditEntry {
	t.Helper()
	page, err := s.audit.Audit(q)
	if err != nil {
		t.Fatal(err)
	}
	return page.Data
}

func TestAnActIsOnRecordBeforeItIsDone(t *testing.T) {
	dir := t.TempDir()
	s := openHarness(t, options{dir: dir})
	err := s.audit.Audited(AuditEntry{Actor: "key_a", Action: "key.create", Account: "acme", Asked: json.RawMessage(`{"scopes":"write"}`)}, func(e *AuditEntry) error {
		if begun := audited(t, s, AuditQuery{}); len(begun) != 1 || begun[0].Outcome != AuditBegun || begun[0].Actor != "key_a" {
			t.Errorf("meanwhile the record is %+v", begun)
		}
		e.Subject = "key_b"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	refused := codec.Errorf(codec.KindPermission, "no")
	if err := s.audit.Audited(AuditEntry{Actor: Operator, Action: "key.revoke"}, func(*AuditEntry) error { return refused }); !errors.Is(err, refused) {
		t.Errorf("the act's own error became %v", err)
	}
	s.close(t)
	s = openHarness(t, options{dir: dir})
	all := audited(t, s, AuditQuery{})
	if len(all) != 2 || all[0].Outcome != AuditRefused || all[0].Reason != "permission" ||
		all[1].Outcome != AuditDone || all[1].Subject != "key_b" || string(all[1].Asked) != `{"scopes":"write"}` || all[1].Time.IsZero() {
		t.Errorf("the record is %+v", all)
	}
}

func TestWithoutARecordNothingIsDone(t *testing.T) {
	s := openHarness(t, options{})
	s.close(t)
	err := s.audit.Audited(AuditEntry{Action: "key.create"}, func(*AuditEntry) error {
		t.Error("it is done")
		return nil
	})
	wantKind(t, err, codec.KindStorage)
}

func TestTheAuditRecordIsListedByAccountInPages(t *testing.T) {
	s := openHarness(t, options{})
	for i := range 10 {
		account := []string{"acme", "other"}[i%2]
		if err := s.audit.Audited(AuditEntry{Actor: Operator, Action: "key.create", Account: account}, func(*AuditEntry) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
	after, seen := "", 0
	for {
		page, err := s.audit.Audit(AuditQuery{Account: "acme", After: after, Limit: 2})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Data {
			if seen++; e.Account != "acme" || after != "" && e.ID >= after {
				t.Errorf("%+v behind %s", e, after)
			}
			after = e.ID
		}
		if !page.HasMore {
			break
		}
	}
	if seen != 5 {
		t.Errorf("%d entries were listed", seen)
	}
	_, err := s.audit.Audit(AuditQuery{After: "nonsense"})
	wantKind(t, err, codec.KindInvalidRequest)
}

func TestOldActsAreForgotten(t *testing.T) {
	s := openHarness(t, options{})
	if err := s.audit.Audited(AuditEntry{Actor: Operator, Action: "key.create", Asked: json.RawMessage(`"` + strings.Repeat("x", maxAsked) + `"`)}, func(*AuditEntry) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if err := s.audit.Expire(context.Background(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if all := audited(t, s, AuditQuery{}); len(all) != 1 || all[0].Asked != nil {
		t.Errorf("a new entry: %+v", all)
	}
	if err := s.audit.Expire(context.Background(), time.Now().Add(time.Hour+time.Second)); err != nil {
		t.Fatal(err)
	}
	if all := audited(t, s, AuditQuery{}); len(all) != 0 {
		t.Errorf("after its time: %+v", all)
	}
}
