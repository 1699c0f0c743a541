package identity

import "testing"

func TestATokenOpensForItsPurposeAndInItsStoreAlone(t *testing.T) {
	s := openHarness(t, options{}).credentials
	token := s.SealToken("secret", "cookie")
	if text, ok := s.OpenToken(token, "cookie"); !ok || text != "secret" {
		t.Errorf("%q %t", text, ok)
	}
	for name, other := range map[string]string{"another purpose": token, "an altered one": token[:len(token)-2] + "AA", "nothing": "", "no token": "%%%"} {
		purpose := "cookie"
		if name == "another purpose" {
			purpose = "link"
		}
		if text, ok := s.OpenToken(other, purpose); ok {
			t.Errorf("%s opens: %q", name, text)
		}
	}
	if _, ok := openHarness(t, options{}).credentials.OpenToken(token, "cookie"); ok {
		t.Error("a token of another store opens")
	}
}
