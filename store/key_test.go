package store

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

// identify is whom a key speaks for, without how often it did.
func identify(s *Store, secret string) (Identity, error) {
	identity, err := s.Keys().Authenticate(secret)
	identity.Use = nil
	return identity, err
}

func TestAServiceKeySpeaksForItsAccountUntilRevoked(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	secret, key, err := s.Keys().Create("acme", ScopeWrite|ScopeRead, "laptop")
	if err != nil {
		t.Fatal(err)
	}
	want := Identity{Account: "acme", KeyID: key.ID, Scopes: ScopeWrite | ScopeRead}
	if got, err := identify(s, secret); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("the new key speaks for %+v (%v), want %+v", got, err, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	if got, err := identify(s, secret); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("after a restart the key speaks for %+v (%v), want %+v", got, err, want)
	}
	if err := s.Keys().Revoke(key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.Keys().Authenticate(secret)
	wantKind(t, err, codec.KindAuthentication)
	if !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked key is told %q", err)
	}
	if keys := s.Keys().List("acme"); len(keys) != 1 || keys[0].Revoked.IsZero() {
		t.Errorf("keys are %+v", keys)
	}
}

func TestWhatIsNoValidKeyIsToldWhy(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	secret, _, err := s.Keys().Create("acme", ScopeWrite, "")
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
		_, err := s.Keys().Authenticate(c.secret)
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
	s := openStore(t, Options{Dir: dir})
	secret := strings.Repeat("environment-", 4)
	wantKind(t, s.Keys().AddStatic("short", "default", AllScopes), codec.KindInvalidRequest)
	if err := s.Keys().AddStatic(secret, "default", AllScopes); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Keys().Authenticate(secret); err != nil || got.Account != "default" || got.Scopes != AllScopes {
		t.Fatalf("it speaks for %+v (%v)", got, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	_, err := s.Keys().Authenticate(secret)
	wantKind(t, err, codec.KindAuthentication)
	if _, err := s.Accounts().Create("default"); err == nil {
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
	s := openStore(t, Options{})
	for _, name := range []string{"", "A", "-a", "a/b", "a b", strings.Repeat("a", 65), "ä"} {
		_, err := s.Accounts().Create(name)
		wantKind(t, err, codec.KindInvalidRequest)
	}
	mustAccount(t, s, "a.b_c-1")
	_, err := s.Accounts().Create("a.b_c-1")
	wantKind(t, err, codec.KindConflict)
}

func TestCredentialsAreEncryptedAndBoundToTheirPlace(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	const secret = "sk-ant-this-must-not-be-readable-on-disk"
	if err := s.Credentials().Set("acme", "anthropic", secret); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := s.Credentials().Get("acme", "anthropic"); err != nil || !ok || got != secret {
		t.Errorf("the credential is %q, %v, %v", got, ok, err)
	}
	for _, c := range [][2]string{{"other", "anthropic"}, {"acme", "openai"}, {"nobody", "anthropic"}} {
		if got, ok, err := s.Credentials().Get(c[0], c[1]); ok || err != nil {
			t.Errorf("%v has %q, %v", c, got, err)
		}
	}
	if names, err := s.Credentials().List("acme"); err != nil || len(names) != 1 || names[0] != "anthropic" {
		t.Errorf("credentials are %v (%v)", names, err)
	}
	sealed := s.seal.seal(secret, credentialPlace("acme", "anthropic"))
	if _, err := s.seal.open(sealed, credentialPlace("other", "anthropic")); err == nil {
		t.Error("a credential moved to another account can be read")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if found := filesHolding(t, dir, secret); found != "" {
		t.Errorf("%s holds the credential in plain text", found)
	}
	s = openStore(t, Options{Dir: dir})
	if err := s.Credentials().Remove("acme", "anthropic"); err != nil {
		t.Fatal(err)
	}
	wantKind(t, s.Credentials().Remove("acme", "anthropic"), codec.KindNotFound)
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

func TestAWrongMasterKeyIsSaidAtOnce(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, masterKeyFile)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("master key file: %v, %v", info, err)
	}
	if _, err := Open(Options{Dir: dir, MasterKey: make([]byte, 32)}); err == nil || !strings.Contains(err.Error(), "master key is not the one") {
		t.Errorf("another master key gives %v", err)
	}
	if _, err := Open(Options{Dir: dir, MasterKey: []byte("short")}); err == nil || !strings.Contains(err.Error(), "must have 32") {
		t.Errorf("a short master key gives %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("a lost master key gives %v", err)
	}
}
