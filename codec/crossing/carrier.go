package crossing

import (
	"crypto/sha256"
	"encoding/base64"
	"hash/crc32"

	"github.com/mnemeproxy/mneme/codec"
)

// A carrier holds reasoning state of one provider's model in the slot that another format has for its own: a signature
// or encrypted content. Clients keep and send back such values without reading them. When the conversation returns to
// the family that made the state, the carrier is opened again; any other provider never sees it.
//
//	sv1.<family>.<base64url of: version, model, account, kind, raw value, checksum>
//
// Nothing in it is secret: the values are opaque already. The checksum finds values that a client has changed.
type carrier struct {
	family codec.Family
	kind   carrierKind
	model  [4]byte // hash of the model that made it
	raw    []byte  // string body
}

type carrierKind uint8

const (
	carriesReasoning carrierKind = iota + 1 // proof of the reasoning it stands on
	carriesRedacted                         // reasoning that only its provider can read
	carriesCall                             // proof of the call that follows it
)

const (
	carrierPrefix  = "sv1."
	carrierVersion = 1
	carrierHeader  = 1 + 4 + 4 + 1 // version, model, account, kind
	carrierSum     = 4
)

var familyLetters = [...]byte{codec.FamilyOther: 'x', codec.FamilyAnthropic: 'a', codec.FamilyOpenAI: 'o', codec.FamilyGoogle: 'g'}

func shortHash(text string) [4]byte {
	sum := sha256.Sum256([]byte(text))
	return [4]byte(sum[:4])
}

// seal appends a carrier. Its alphabet is legal in every string and needs no escaping.
func (c *carrier) seal(dst []byte, account string) []byte {
	owner := shortHash(account)
	payload := make([]byte, 0, carrierHeader+len(c.raw)+carrierSum)
	payload = append(payload, carrierVersion)
	payload = append(payload, c.model[:]...)
	payload = append(payload, owner[:]...)
	payload = append(payload, byte(c.kind))
	payload = append(payload, c.raw...)
	sum := crc32.ChecksumIEEE(payload)
	payload = append(payload, byte(sum>>24), byte(sum>>16), byte(sum>>8), byte(sum))
	dst = append(dst, carrierPrefix...)
	dst = append(dst, familyLetters[c.family], '.')
	return base64.RawURLEncoding.AppendEncode(dst, payload)
}

// isCarrier reports whether a value claims to be a carrier.
func isCarrier(value []byte) bool {
	return len(value) > len(carrierPrefix)+2 && string(value[:len(carrierPrefix)]) == carrierPrefix && value[len(carrierPrefix)+1] == '.'
}

// open reads a carrier of the account. Anything else, a changed or a foreign one among them, is not ok.
func openCarrier(value []byte, account string) (c carrier, ok bool) {
	if !isCarrier(value) {
		return carrier{}, false
	}
	letter := value[len(carrierPrefix)]
	payload, err := base64.RawURLEncoding.AppendDecode(nil, value[len(carrierPrefix)+2:])
	if err != nil || len(payload) < carrierHeader+carrierSum || payload[0] != carrierVersion {
		return carrier{}, false
	}
	content, tail := payload[:len(payload)-carrierSum], payload[len(payload)-carrierSum:]
	sum := uint32(tail[0])<<24 | uint32(tail[1])<<16 | uint32(tail[2])<<8 | uint32(tail[3])
	if crc32.ChecksumIEEE(content) != sum || [4]byte(content[5:9]) != shortHash(account) {
		return carrier{}, false
	}
	for family, known := range familyLetters {
		if known == letter {
			c.family = codec.Family(family)
			c.model = [4]byte(content[1:5])
			c.kind = carrierKind(content[9])
			c.raw = content[carrierHeader:]
			return c, true
		}
	}
	return carrier{}, false
}
