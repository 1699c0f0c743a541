package http1

import (
	"net/textproto"
	"testing"

	"pgregory.net/rapid"
)

func TestNamesAreCanonicalAsTheLibrarySays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.StringMatching(`[A-Za-z0-9_.-]{0,12}`), rapid.StringN(0, 8, -1)).Draw(t, "name")
		key, ok := canonical(name)
		if ok != isToken(name) {
			t.Fatalf("%q is a name: %v", name, ok)
		}
		if want := textproto.CanonicalMIMEHeaderKey(name); ok && key != want {
			t.Fatalf("%q becomes %q, not %q", name, key, want)
		}
	})
}
