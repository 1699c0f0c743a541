// Package kv is the lowest layer of the store: its keys, the ids in them, and how records are looked up and walked in
// Badger. It knows what each key is for, but not what the records say. FORMAT.md describes both.
package kv

import "encoding/binary"

// The first byte of a key says what kind of record it leads to. Keys of an account's own data go on with the
// account's number (four bytes, big endian), so that one account's data is one range per kind. FORMAT.md lists them.
const (
	SpaceMeta          = 'm' // m <name>                              store-wide facts
	SpaceAccount       = 'A' // A <account name>                      account
	SpaceKey           = 'K' // K <key id>                            service key
	SpaceKeyUse        = 'U' // U <key id>                            use of a service key
	SpaceCredential    = 'C' // C <account> <provider>                sealed provider credential
	SpaceExchange      = 'x' // x <account> <exchange>                exchange record
	SpaceOpen          = 'o' // o <account> <exchange>                open exchanges that began in one commit
	SpaceRequest       = 'q' // q <account> <exchange>                skeleton of the request body
	SpaceResponse      = 'r' // r <account> <exchange> <part>         response bytes
	SpaceBlock         = 'b' // b <account> <hash>                    block
	SpaceNode          = 'n' // n <account> <hash>                    node
	SpaceSession       = 's' // s <account> <session>                 session
	SpaceMember        = 't' // t <account> <session> <exchange>      the exchange belongs to the session
	SpaceBelongs       = 'g' // g <account> <exchange>                the session it belongs to
	SpaceLink          = 'l' // l <account> <kind> <evidence>         the session that evidence of a kind leads to
	SpaceOutbox        = 'd' // d <account> <exchange>                before format 4: the exchange has yet to be digested
	SpaceTurn          = 'u' // u <account> <exchange>                turn
	SpaceHistory       = 'h' // h <account> <session> <history>       the exchange that this history leads to
	SpaceMove          = 'j' // j <account> <session>                 exchanges of the session are on their way to another
	SpaceLedger        = 'p' // p <account> <slot>                    what a model wants back with the next request
	SpaceRecollection  = 'R' // R <account> <place>                   what was recalled there
	SpaceQuoted        = 'Q' // Q <account> <exchange> <place>        the recollection there goes with the exchange
	SpaceChange        = 'i' // i <e or stage> <number>               turns and sessions that stages have yet to look at
	SpaceSessionChange = 'y' // y <account> <session>                 before format 3: the session has changed
	SpaceSummary       = 'z' // z <account> <session>                 what a model has written about the session
	SpaceUnsummarized  = 'k' // k <account> <session>                 the session has grown since a model wrote about it
	SpaceSummaryTokens = 'f' // f <account>                           what summaries have cost today
	SpaceRollup        = 'c' // c <account> <hour> <who and what>      what the exchanges of an hour used and cost
	SpaceVector        = 'v' // v <account> <generation> <exchange>   vector of the turn
	SpaceAudit         = 'a' // a <entry>                             act of administration
	SpaceErasure       = 'e' // e <account> <erasure>                 receipt of an erasure
	SpaceDeletion      = 'w' // w <account>                           a deleted account whose data has yet to go
	SpaceTomb          = 'T' // T <account> <exchange>                was erased, and is not to arrive again
	SpaceErased        = 'E' // E <number>                            was erased, and is to be erased where it was recorded
	SpaceShip          = 'S' // S <number>                            an exchange that the centre has yet to confirm
	SpaceGiven         = 'G' // G <name>                              an entry of the centre's roster that was taken over
)

// AccountNumber stands for an account in keys. Numbers are given out once and never again.
type AccountNumber uint32

// SpaceKeyOf is the beginning of the keys of one kind of an account, with room for the rest.
func SpaceKeyOf(space byte, account AccountNumber) []byte {
	key := make([]byte, 5, 40)
	key[0] = space
	binary.BigEndian.PutUint32(key[1:], uint32(account))
	return key
}

// SplitAccountKey takes a key apart that is [SpaceKeyOf] alone.
func SplitAccountKey(key []byte) (AccountNumber, bool) {
	if len(key) != 5 {
		return 0, false
	}
	return AccountNumber(binary.BigEndian.Uint32(key[1:])), true
}

// ExchangeKey is the key of what there is once for an exchange.
func ExchangeKey(space byte, account AccountNumber, id ExchangeID) []byte {
	return append(SpaceKeyOf(space, account), id[:]...)
}

// SplitExchangeKey takes a key apart that ends with an exchange's id, of any kind.
func SplitExchangeKey(key []byte) (account AccountNumber, id ExchangeID, ok bool) {
	if len(key) != 1+4+len(id) {
		return 0, id, false
	}
	copy(id[:], key[5:])
	return AccountNumber(binary.BigEndian.Uint32(key[1:])), id, true
}

// PartKey is the key of what there are several of for an exchange.
func PartKey(space byte, account AccountNumber, id ExchangeID, part uint32) []byte {
	return binary.BigEndian.AppendUint32(ExchangeKey(space, account, id), part)
}

// Hash is a BLAKE3 hash of 32 bytes: of a block's bytes, or for a node, of its sequence.
type Hash [32]byte

// ObjectRef names a block or node.
type ObjectRef struct {
	Space   byte // SpaceBlock or SpaceNode
	Account AccountNumber
	Hash    Hash
}

// Block names a block.
func Block(account AccountNumber, h Hash) ObjectRef { return ObjectRef{SpaceBlock, account, h} }

// Node names a node.
func Node(account AccountNumber, h Hash) ObjectRef { return ObjectRef{SpaceNode, account, h} }

// Key is the key that the object is stored under.
func (r ObjectRef) Key() []byte { return append(SpaceKeyOf(r.Space, r.Account), r.Hash[:]...) }

// Short is an object's place in sets of a sweep. Two objects that share one only keep each other alive.
func (r ObjectRef) Short() uint64 { return binary.LittleEndian.Uint64(r.Hash[:8]) ^ uint64(r.Space) }

// SplitObjectKey takes a key apart as [ObjectRef.Key] makes it.
func SplitObjectKey(key []byte) (ref ObjectRef, ok bool) {
	if len(key) != 1+4+len(ref.Hash) {
		return ref, false
	}
	ref.Space = key[0]
	ref.Account = AccountNumber(binary.BigEndian.Uint32(key[1:]))
	copy(ref.Hash[:], key[5:])
	return ref, true
}

// SessionKey is the key of a session's record.
func SessionKey(account AccountNumber, id SessionID) []byte {
	return append(SpaceKeyOf(SpaceSession, account), id[:]...)
}

// SplitSessionKey takes a key apart that ends with a session's id, of any kind.
func SplitSessionKey(key []byte) (account AccountNumber, id SessionID, ok bool) {
	account, of, ok := SplitExchangeKey(key) // ids have one length
	return account, SessionID(of), ok
}

// MemberKey says that an exchange belongs to a session.
func MemberKey(account AccountNumber, session SessionID, id ExchangeID) []byte {
	return append(MemberPrefix(account, session), id[:]...)
}

// SplitMemberKey takes a key apart as [MemberKey] makes it.
func SplitMemberKey(key []byte) (account AccountNumber, session SessionID, id ExchangeID, ok bool) {
	if len(key) != 1+4+len(session)+len(id) {
		return 0, session, id, false
	}
	return AccountNumber(binary.BigEndian.Uint32(key[1:])), SessionID(key[5:]), ExchangeID(key[5+len(session):]), true
}

// MemberPrefix is the beginning of the keys of a session's members.
func MemberPrefix(account AccountNumber, session SessionID) []byte {
	return append(SpaceKeyOf(SpaceMember, account), session[:]...)
}

// HistoryKey is the key of the exchange that a history leads to within a session.
func HistoryKey(account AccountNumber, session SessionID, h [16]byte) []byte {
	return append(append(SpaceKeyOf(SpaceHistory, account), session[:]...), h[:]...)
}

// NameKey is the key of what there is once for a name in the whole store.
func NameKey(space byte, name string) []byte {
	return append([]byte{space}, name...)
}
