package identity

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// identify is whom a key speaks for, without how often it did.
func identify(s *harness, secret string) (Identity, error) {
	identity, err := s.keys.Keys().Authenticate(secret)
	identity.Use = nil
	return identity, err
}

func TestAServiceKeySpeaksForItsAccountUntilRevoked(t *testing.T) {
	dir := t.TempDir()
	s := openHarness(t, options{dir: dir})
	s.mustAccount(t, "acme")
	secret, key, err := s.keys.Keys().Create("acme", ScopeWrite|ScopeRead, "laptop")
	if err != nil {
		t.Fatal(err)
	}
	want := Identity{Account: "acme", KeyID: key.ID, Label: "laptop", Scopes: ScopeWrite | ScopeRead}
	if got, err := identify(s, secret); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("the new key speaks for %+v (%v), want %+v", got, err, want)
	}
	s.close(t)
	s = openHarness(t, options{dir: dir})
	if got, err := identify(s, secret); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("after a restart the key speaks for %+v (%v), want %+v", got, err, want)
	}
	if err := s.keys.Keys().Revoke(key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.keys.Keys().Authenticate(secret)
	wantKind(t, err, codec.KindAuthentication)
	if !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked key is told %q", err)
	}
	if keys := s.keys.Keys().List("acme"); len(keys) != 1 || keys[0].Revoked.IsZero() {
		t.Errorf("keys are %+v", keys)
	}
}

func TestWhatIsNoValidKeyIsToldWhy(t *testing.T) {
	s := openHarness(t, options{})
	s.mustAccount(t, "acme")
	secret, _, err := s.keys.Keys().Create("acme", ScopeWrite, "")
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(secret)
	if flipped[20]++; flipped[20] == ':' || flipped[20] == '{' || flipped[20] == '[' {
		flipped[20] = '0'
	}
	for _, c := range []struct{ secret, says string }{
		{"", "is needed"},
		{"sk-ant-api03-abcdef", "Anthropic"},
		{"sk-proj-abcdef", "OpenAI"},
		{"sk-abcdef", "OpenAI or DeepSeek"},
		{"AIzaSyabcdef", "Google"},
		{"hello", "not a service key"},
		{secret[:len(secret)-1], "damaged"},
		{string(flipped), "damaged"},
		{newSecret(), "unknown"},
		{strings.Repeat("x", 100_000), "too long"},
	} {
		_, err := s.keys.Keys().Authenticate(c.secret)
		wantKind(t, err, codec.KindAuthentication)
		if !strings.Contains(err.Error(), c.says) {
			t.Errorf("%.20q is told %q, want a word of %q", c.secret, err, c.says)
		}
		if len(c.secret) > 10 && strings.Contains(err.Error(), c.secret) {
			t.Errorf("the answer quotes the secret")
		}
	}
	if !LooksLikeKey(secret) || LooksLikeKey("sk-ant-x") {
		t.Error("service keys are not told from others by their shape")
	}
}

func TestAKeyFromTheEnvironmentIsNeverStored(t *testing.T) {
	dir := t.TempDir()
	s := openHarness(t, options{dir: dir})
	secret := strings.Repeat("environment-", 4)
	wantKind(t, s.keys.Keys().AddStatic("short", "default", AllScopes), codec.KindInvalidRequest)
	if err := s.keys.Keys().AddStatic(secret, "default", AllScopes); err != nil {
		t.Fatal(err)
	}
	if got, err := s.keys.Keys().Authenticate(secret); err != nil || got.Account != "default" || got.Scopes != AllScopes {
		t.Fatalf("it speaks for %+v (%v)", got, err)
	}
	s.close(t)
	s = openHarness(t, options{dir: dir})
	_, err := s.keys.Keys().Authenticate(secret)
	wantKind(t, err, codec.KindAuthentication)
	if _, err := s.accounts.Accounts().Create("default"); err == nil {
		t.Error("the account went away with the key")
	}
}

func TestScopesAreWrittenAsTheyAreRead(t *testing.T) {
	for text, want := range map[string]Scopes{"write": ScopeWrite, "read, erase": ScopeRead | ScopeErase, "write,read,erase,admin": AllScopes} {
		got, err := ParseScopes(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q is %v (%v)", text, got, err)
		}
	}
	if AllScopes.String() != "write,read,erase,admin" {
		t.Errorf("all scopes are %q", AllScopes)
	}
	if _, err := ParseScopes("write,root"); err == nil || !strings.Contains(err.Error(), "root") {
		t.Errorf("an unknown scope gives %v", err)
	}
}

func TestAccountNames(t *testing.T) {
	s := openHarness(t, options{})
	for _, name := range []string{"", "A", "-a", "a/b", "a b", strings.Repeat("a", 65), "ä"} {
		_, err := s.accounts.Accounts().Create(name)
		wantKind(t, err, codec.KindInvalidRequest)
	}
	s.mustAccount(t, "a.b_c-1")
	_, err := s.accounts.Accounts().Create("a.b_c-1")
	wantKind(t, err, codec.KindConflict)
}

func TestCredentialsAreEncryptedAndBoundToTheirPlace(t *testing.T) {
	dir := t.TempDir()
	s := openHarness(t, options{dir: dir})
	s.mustAccount(t, "acme")
	s.mustAccount(t, "other")
	const secret = "sk-ant-this-must-not-be-readable-on-disk"
	if err := s.credentials.Set("acme", "anthropic", secret); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.credentials.Get("acme", "anthropic"); err != nil || !ok || got != secret {
		t.Errorf("the credential is %q, %v, %v", got, ok, err)
	}
	for _, c := range [][2]string{{"other", "anthropic"}, {"acme", "openai"}, {"nobody", "anthropic"}} {
		if got, ok, err := s.credentials.Get(c[0], c[1]); ok || err != nil {
			t.Errorf("%v has %q, %v", c, got, err)
		}
	}
	if names, err := s.credentials.List("acme"); err != nil || len(names) != 1 || names[0] != "anthropic" {
		t.Errorf("credentials are %v (%v)", names, err)
	}
	sealed := s.master.seal.seal(secret, credentialPlace("acme", "anthropic"))
	if _, err := s.master.seal.open(sealed, credentialPlace("other", "anthropic")); err == nil {
		t.Error("a credential moved to another account can be read")
	}
	s.close(t)
	if found := filesHolding(t, dir, secret); found != "" {
		t.Errorf("%s holds the credential in plain text", found)
	}
	s = openHarness(t, options{dir: dir})
	if err := s.credentials.Remove("acme", "anthropic"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.credentials.Remove("acme", "anthropic"), codec.KindNotFound)
}

// filesHolding names a file under dir that holds the text, or nothing.
func filesHolding(t *testing.T, dir, text string) (found string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), text) {
			found = path
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
