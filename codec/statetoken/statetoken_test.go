package statetoken_test

import (
	"bytes"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// alphabet is legal in every slot.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_."

func TestATokenBringsItsStateBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := statetoken.Token{
			Family: rapid.SampledFrom([]codec.Family{codec.FamilyOther, codec.FamilyAnthropic, codec.FamilyOpenAI, codec.FamilyGoogle}).Draw(t, "family"),
			Kind:   rapid.SampledFrom([]statetoken.Kind{statetoken.Reasoning, statetoken.Redacted, statetoken.Call}).Draw(t, "kind"),
			Model:  statetoken.Hash(rapid.String().Draw(t, "model")),
			Raw:    rapid.SliceOf(rapid.Byte()).Draw(t, "raw"),
		}
		account := rapid.String().Draw(t, "account")
		sealed := c.Append(nil, account)
		for _, b := range sealed {
			if !strings.ContainsRune(alphabet, rune(b)) {
				t.Fatalf("%q holds %q, which some slot refuses", sealed, b)
			}
		}
		got, ok := statetoken.Open(sealed, account)
		if !ok || got.Family != c.Family || got.Kind != c.Kind || got.Model != c.Model || !bytes.Equal(got.Raw, c.Raw) {
			t.Fatalf("%+v comes back as %+v, %v", c, got, ok)
		}
		if _, ok := statetoken.Open(sealed, account+"x"); ok {
			t.Fatal("another account opens it")
		}
		at := rapid.IntRange(len(statetoken.Prefix)+2, len(sealed)-1).Draw(t, "at")
		changed := bytes.Clone(sealed)
		changed[at] = map[bool]byte{true: 'B', false: 'A'}[changed[at] == 'A']
		if again, ok := statetoken.Open(changed, account); ok && !bytes.Equal(again.Raw, c.Raw) {
			t.Fatalf("a changed token opens: %q", changed)
		}
		if again, ok := statetoken.Open(sealed[:at], account); ok {
			t.Fatalf("a cut token opens: %+v", again)
		}
	})
}

func TestWhatIsNoTokenizNotOpened(t *testing.T) {
	for _, value := range []string{"", "sv1.", "sv1.a.", "sv1.a.AAAA", "sv1.z.AAAA", "gAAAAABo", "EqQBCkYI", "sv2.a.AQAAAA", "sv1.a.!!!!"} {
		if c, ok := statetoken.Open([]byte(value), "acme"); ok {
			t.Errorf("%q opens as %+v", value, c)
		}
	}
}
