package store

import "testing"

func TestWhatAnAccountMadeAtAProviderIsItsOwnAcrossAStart(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	if err := s.Notes().Claim(t.Context(), "acme", "openai", "file-1", "file-2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Notes().GiveUp(t.Context(), "acme", "openai", "file-2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	for _, row := range []struct {
		account, provider, id string
		want                  bool
	}{
		{"acme", "openai", "file-1", true},
		{"acme", "openai", "file-2", false},
		{"acme", "anthropic", "file-1", false},
		{"other", "openai", "file-1", false},
	} {
		if got, err := s.Notes().Claimed(row.account, row.provider, row.id); got != row.want || err != nil {
			t.Errorf("%v: %v, %v", row, got, err)
		}
	}
	if err := s.Notes().Claim(t.Context(), "nobody", "openai", "file-1"); err == nil {
		t.Error("an account that does not exist can claim")
	}
	mustBeSound(t, s)
}
