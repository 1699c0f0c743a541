package crossing

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
)

func TestACarrierBringsItsStateBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := carrier{
			family: rapid.SampledFrom([]codec.Family{codec.FamilyOther, codec.FamilyAnthropic, codec.FamilyOpenAI, codec.FamilyGoogle}).Draw(t, "family"),
			kind:   rapid.SampledFrom([]carrierKind{carriesReasoning, carriesRedacted, carriesCall}).Draw(t, "kind"),
			model:  shortHash(rapid.String().Draw(t, "model")),
			raw:    rapid.SliceOf(rapid.Byte()).Draw(t, "raw"),
		}
		account := rapid.String().Draw(t, "account")
		sealed := c.seal(nil, account)
		for _, b := range sealed {
			if !isWord(b) && b != '-' && b != '.' {
				t.Fatalf("%q holds %q, which some slot refuses", sealed, b)
			}
		}
		got, ok := openCarrier(sealed, account)
		if !ok || got.family != c.family || got.kind != c.kind || got.model != c.model || !bytes.Equal(got.raw, c.raw) {
			t.Fatalf("%+v comes back as %+v, %v", c, got, ok)
		}
		if _, ok := openCarrier(sealed, account+"x"); ok {
			t.Fatal("another account opens it")
		}
		at := rapid.IntRange(len(carrierPrefix)+2, len(sealed)-1).Draw(t, "at")
		changed := bytes.Clone(sealed)
		changed[at] = map[bool]byte{true: 'B', false: 'A'}[changed[at] == 'A']
		if again, ok := openCarrier(changed, account); ok && !bytes.Equal(again.raw, c.raw) {
			t.Fatalf("a changed carrier opens: %q", changed)
		}
		if again, ok := openCarrier(sealed[:at], account); ok {
			t.Fatalf("a cut carrier opens: %+v", again)
		}
	})
}

func TestWhatIsNoCarrierIsNotOpened(t *testing.T) {
	for _, value := range []string{"", "sv1.", "sv1.a.", "sv1.a.AAAA", "sv1.z.AAAA", "gAAAAABo", "EqQBCkYI", "sv2.a.AQAAAA", "sv1.a.!!!!"} {
		if c, ok := openCarrier([]byte(value), "acme"); ok {
			t.Errorf("%q opens as %+v", value, c)
		}
	}
}
