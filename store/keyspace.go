package store

import "encoding/binary"

// The first byte of a key says what kind of record it leads to. Keys of an account's own data go on with the
// account's number (four bytes, big endian), so that one account's data is one range per kind. FORMAT.md lists them.
const (
	spaceMeta       = 'm' // m <name>                              store-wide facts
	spaceAccount    = 'A' // A <account name>                      account
	spaceKey        = 'K' // K <key id>                            service key
	spaceCredential = 'C' // C <account> <provider>                sealed provider credential
	spaceExchange   = 'x' // x <account> <exchange>                exchange record
	spaceOpen       = 'o' // o <account> <exchange>                present while the exchange is open
	spaceRequest    = 'q' // q <account> <exchange>                skeleton of the request body
	spaceResponse   = 'r' // r <account> <exchange> <part>         response bytes
	spaceBlock      = 'b' // b <account> <hash>                    block
	spaceNode       = 'n' // n <account> <hash>                    node
)

// accountNumber stands for an account in keys. Numbers are given out once and never again.
type accountNumber uint32

func spaceKeyOf(space byte, account accountNumber) []byte {
	key := make([]byte, 5, 40)
	key[0] = space
	binary.BigEndian.PutUint32(key[1:], uint32(account))
	return key
}

func exchangeKey(space byte, account accountNumber, id exchangeID) []byte {
	return append(spaceKeyOf(space, account), id[:]...)
}

func partKey(space byte, account accountNumber, id exchangeID, part uint32) []byte {
	return binary.BigEndian.AppendUint32(exchangeKey(space, account, id), part)
}

// objectRef names a block or node.
type objectRef struct {
	space   byte // spaceBlock or spaceNode
	account accountNumber
	hash    hash
}

func (r objectRef) key() []byte { return append(spaceKeyOf(r.space, r.account), r.hash[:]...) }

func nameKey(space byte, name string) []byte {
	return append([]byte{space}, name...)
}
