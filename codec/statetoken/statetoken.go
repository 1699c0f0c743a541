// Package statetoken carries the reasoning state of one provider's model inside the slot that another format has for
// its own state: a signature or encrypted content. Clients store and resend such values without reading them. The token
// is opened again when the conversation returns to the family that made the state; no other provider ever sees it
// (docs/wire/translation.md#5).
package statetoken

import (
	"crypto/sha256"
	"encoding/base64"
	"hash/crc32"

	"github.com/mnemeproxy/mneme/codec"
)

// Token is state and what is known of it. On the wire it is
//
//	sv1.<family>.<base64url of: version, model, account, kind, raw value, checksum>
//
// Nothing in it is secret: the values are opaque already. The checksum finds values that a client has changed.
type Token struct {
	Family codec.Family
	Kind   Kind
	Model  [4]byte // hash of the model that made it, from [Hash]; for [codec.FamilyDetails] of the host and the model
	Raw    []byte  // string body
}

// Kind says what a token proves.
type Kind uint8

const (
	Reasoning Kind = iota + 1 // the reasoning it stands on
	Redacted                  // reasoning that only its provider can read
	Call                      // the call that follows it
	Summary                   // of a conversation that was compacted; not of a provider, but of this program
)

// Prefix is how every token begins.
const Prefix = "sv1."

// Foreign stands where a format wants a proof that only its own provider can make, and nobody has state to carry. It is
// recognized as a token, and Open refuses it.
const Foreign = Prefix + "x."

// Mark finds tokens in a body: they stand alone in their strings.
var Mark = []byte(`"` + Prefix)

const (
	version = 1
	header  = 1 + 4 + 4 + 1 // version, model, account, kind
	sumSize = 4
)

var familyLetters = [...]byte{codec.FamilyOther: 'x', codec.FamilyAnthropic: 'a', codec.FamilyOpenAI: 'o', codec.FamilyGoogle: 'g', codec.FamilyDetails: 'd'}

// Hash is the short form in which a token names its model and its owner.
func Hash(text string) [4]byte {
	sum := sha256.Sum256([]byte(text))
	return [4]byte(sum[:4])
}

// Append writes the token for an account. Its alphabet is legal in every string and needs no escaping.
func (t *Token) Append(dst []byte, account string) []byte {
	owner := Hash(account)
	payload := make([]byte, 0, header+len(t.Raw)+sumSize)
	payload = append(payload, version)
	payload = append(payload, t.Model[:]...)
	payload = append(payload, owner[:]...)
	payload = append(payload, byte(t.Kind))
	payload = append(payload, t.Raw...)
	sum := crc32.ChecksumIEEE(payload)
	payload = append(payload, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
	dst = append(dst, Prefix...)
	dst = append(dst, familyLetters[t.Family], '.')
	return base64.RawURLEncoding.AppendEncode(dst, payload)
}

// Is reports whether a value claims to be a token.
func Is(value []byte) bool {
	return len(value) > len(Prefix)+2 && string(value[:len(Prefix)]) == Prefix && value[len(Prefix)+1] == '.'
}

// Open reads a token of the account. Anything else, a changed or a foreign one among them, is not ok.
func Open(value []byte, account string) (t Token, ok bool) {
	if !Is(value) {
		return Token{}, false
	}
	letter := value[len(Prefix)]
	payload, err := base64.RawURLEncoding.AppendDecode(nil, value[len(Prefix)+2:])
	if err != nil || len(payload) < header+sumSize || payload[0] != version {
		return Token{}, false
	}
	content, tail := payload[:len(payload)-sumSize], payload[len(payload)-sumSize:]
	sum := uint32(tail[0])<<24 | uint32(tail[1])<<16 | uint32(tail[2])<<8 | uint32(tail[3])
	if crc32.ChecksumIEEE(content) != sum || [4]byte(content[5:9]) != Hash(account) {
		return Token{}, false
	}
	for family, known := range familyLetters {
		if known == letter {
			t.Family = codec.Family(family)
			t.Model = [4]byte(content[1:5])
			t.Kind = Kind(content[9])
			t.Raw = content[header:]
			return t, true
		}
	}
	return Token{}, false
}
