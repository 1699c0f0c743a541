package ship

import "google.golang.org/protobuf/encoding/protowire"

// Find asks a node for an exchange of an account, by its id or by the provider's id of its answer. The node replies
// with a frame of [KindFound] whose log is the nonce, with one entry or none.
type Find struct {
	Nonce    LogID
	Account  string
	Exchange string
	Response string // "": by Exchange
}

// Fields of a Find.
const (
	findNonce    = 1
	findAccount  = 2
	findExchange = 3
	findResponse = 4
)

// Seal encodes and signs a question.
func (f *Find) Seal(k *Key) []byte {
	body := appendBytes(nil, findNonce, f.Nonce[:])
	body = appendBytes(body, findAccount, []byte(f.Account))
	body = appendBytes(body, findExchange, []byte(f.Exchange))
	return k.Seal(KindFind, appendBytes(body, findResponse, []byte(f.Response)))
}

// OpenFind verifies and decodes a message of [Find.Seal].
func OpenFind(k *Key, message []byte) (f Find, err error) {
	err = k.eachField(KindFind, message, func(field protowire.Number, _ uint64, value []byte) error {
		switch field {
		case findNonce:
			return fixed(f.Nonce[:], value)
		case findAccount:
			f.Account = string(value)
		case findExchange:
			f.Exchange = string(value)
		case findResponse:
			f.Response = string(value)
		}
		return nil
	})
	return f, err
}
