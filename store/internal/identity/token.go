package identity

import "encoding/base64"

// SealToken seals a text to be kept outside, such as a browser's cookie. It opens for the same purpose alone, and
// until the master key is changed.
func (s *Credentials) SealToken(text, purpose string) string {
	s.master.mu.RLock()
	defer s.master.mu.RUnlock()
	return base64.RawURLEncoding.EncodeToString(s.master.seal.seal(text, tokenPlace(purpose)))
}

// OpenToken returns the text of a token; ok is false if it is not of this store and purpose.
func (s *Credentials) OpenToken(token, purpose string) (text string, ok bool) {
	sealed, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "", false
	}
	s.master.mu.RLock()
	defer s.master.mu.RUnlock()
	text, err = s.master.seal.open(sealed, tokenPlace(purpose))
	return text, err == nil
}

// tokenPlace is no place of a credential: those have an account's name and a provider's in them.
func tokenPlace(purpose string) string { return "token " + purpose }
