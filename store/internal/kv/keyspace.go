// Package kv is the lowest layer of the store: its keys, the ids in them, and how records are looked up and walked in
// Badger. It knows what each key is for, but not what the records say. FORMAT.md describes both.
package kv

import "encoding/binary"

// The first byte of a key is the kind of its record. In keys of an account's own data, the account's number follows
// (four bytes, big endian), so that an account's data is one range per kind. FORMAT.md lists them.
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
	SpaceLink          = 'l' // l <account> <kind> <evidence>         the session that evidence of a kind identifies
	SpaceTurn          = 'u' // u <account> <exchange>                turn
	SpaceHistory       = 'h' // h <account> <session> <history>       the exchange that this history identifies
	SpaceMove          = 'j' // j <account> <session>                 exchanges of the session are being moved to another
	SpaceLedger        = 'p' // p <account> <slot>                    state that a model needs back with the next request
	SpaceKept          = 'P' // P <account> <name>                    the account has made what a provider keeps by that name
	SpaceRecollection  = 'R' // R <account> <place>                   what was recalled there
	SpaceQuoted        = 'Q' // Q <account> <exchange> <place>        the recollection there belongs to the exchange
	SpaceChange        = 'i' // i <e or stage> <number>               turns and sessions that stages have yet to process
	SpaceSummary       = 'z' // z <account> <session>                 a model's summary of the session
	SpaceUnsummarized  = 'k' // k <account> <session>                 the session has grown since it was summarized
	SpaceSummaryTokens = 'f' // f <account>                           what summaries have cost today
	SpaceRollup        = 'c' // c <account> <hour> <who and what>      what the exchanges of an hour used and cost
	SpaceVector        = 'v' // v <account> <generation> <exchange>   vector of the turn
	SpaceAudit         = 'a' // a <entry>                             act of administration
	SpaceErasure       = 'e' // e <account> <erasure>                 receipt of an erasure
	SpaceDeletion      = 'w' // w <account>                           a deleted account whose data has yet to be deleted
	SpaceShip          = 'S' // S <number>                            an exchange that the centre has yet to confirm
	SpaceGiven         = 'G' // G <name>                              an entry of the centre's roster that was applied
)

// AccountNumber identifies an account in keys. Numbers are never reused.
type AccountNumber uint32

// KeyRoom is the length of the longest key whose parts have fixed lengths, or more.
const KeyRoom = 40

// SpaceKeyOf returns the common prefix of an account's keys of one kind, with capacity for the rest.
func SpaceKeyOf(space byte, account AccountNumber) []byte {
	return AppendSpaceKey(make([]byte, 0, KeyRoom), space, account)
}

// AppendSpaceKey appends a [SpaceKeyOf].
func AppendSpaceKey(dst []byte, space byte, account AccountNumber) []byte {
	return binary.BigEndian.AppendUint32(append(dst, space), uint32(account))
}

// SplitAccountKey parses a key that is just [SpaceKeyOf].
func SplitAccountKey(key []byte) (AccountNumber, bool) {
	if len(key) != 5 {
		return 0, false
	}
	return AccountNumber(binary.BigEndian.Uint32(key[1:])), true
}

// ExchangeKey returns the key of a record that an exchange has one of.
func ExchangeKey(space byte, account AccountNumber, id ExchangeID) []byte {
	return append(SpaceKeyOf(space, account), id[:]...)
}

// AppendExchangeKey appends an [ExchangeKey].
func AppendExchangeKey(dst []byte, space byte, account AccountNumber, id ExchangeID) []byte {
	return append(AppendSpaceKey(dst, space, account), id[:]...)
}

// SplitExchangeKey parses a key of any kind that ends with an exchange's id.
func SplitExchangeKey(key []byte) (account AccountNumber, id ExchangeID, ok bool) {
	if len(key) != 1+4+len(id) {
		return 0, id, false
	}
	copy(id[:], key[5:])
	return AccountNumber(binary.BigEndian.Uint32(key[1:])), id, true
}

// PartKey returns the key of a record that an exchange has several of.
func PartKey(space byte, account AccountNumber, id ExchangeID, part uint32) []byte {
	return binary.BigEndian.AppendUint32(ExchangeKey(space, account, id), part)
}

// Hash is a BLAKE3 hash of 32 bytes: of a block's bytes, or for a node, of its sequence.
type Hash [32]byte

// ObjectRef identifies a block or node.
type ObjectRef struct {
	Space   byte // SpaceBlock or SpaceNode
	Account AccountNumber
	Hash    Hash
}

// Block identifies a block.
func Block(account AccountNumber, h Hash) ObjectRef { return ObjectRef{SpaceBlock, account, h} }

// Node identifies a node.
func Node(account AccountNumber, h Hash) ObjectRef { return ObjectRef{SpaceNode, account, h} }

// Key returns the key that the object is stored under.
func (r ObjectRef) Key() []byte { return r.AppendKey(make([]byte, 0, KeyRoom)) }

// AppendKey appends a [ObjectRef.Key].
func (r ObjectRef) AppendKey(dst []byte) []byte {
	return append(AppendSpaceKey(dst, r.Space, r.Account), r.Hash[:]...)
}

// Short returns an object's element in a sweep's sets. If two objects have the same one, each merely keeps the other
// alive.
func (r ObjectRef) Short() uint64 { return binary.LittleEndian.Uint64(r.Hash[:8]) ^ uint64(r.Space) }

// SplitObjectKey parses the result of [ObjectRef.Key].
func SplitObjectKey(key []byte) (ref ObjectRef, ok bool) {
	if len(key) != 1+4+len(ref.Hash) {
		return ref, false
	}
	ref.Space = key[0]
	ref.Account = AccountNumber(binary.BigEndian.Uint32(key[1:]))
	copy(ref.Hash[:], key[5:])
	return ref, true
}

// SessionKey returns the key of a session's record.
func SessionKey(account AccountNumber, id SessionID) []byte {
	return AppendSessionKey(make([]byte, 0, KeyRoom), account, id)
}

// AppendSessionKey appends a [SessionKey].
func AppendSessionKey(dst []byte, account AccountNumber, id SessionID) []byte {
	return append(AppendSpaceKey(dst, SpaceSession, account), id[:]...)
}

// SplitSessionKey parses a key of any kind that ends with a session's id.
func SplitSessionKey(key []byte) (account AccountNumber, id SessionID, ok bool) {
	account, of, ok := SplitExchangeKey(key) // all ids have the same length
	return account, SessionID(of), ok
}

// MemberKey returns the key that records that an exchange belongs to a session.
func MemberKey(account AccountNumber, session SessionID, id ExchangeID) []byte {
	return AppendMemberKey(make([]byte, 0, KeyRoom), account, session, id)
}

// AppendMemberKey appends a [MemberKey].
func AppendMemberKey(dst []byte, account AccountNumber, session SessionID, id ExchangeID) []byte {
	return append(append(AppendSpaceKey(dst, SpaceMember, account), session[:]...), id[:]...)
}

// SplitMemberKey parses the result of [MemberKey].
func SplitMemberKey(key []byte) (account AccountNumber, session SessionID, id ExchangeID, ok bool) {
	if len(key) != 1+4+len(session)+len(id) {
		return 0, session, id, false
	}
	return AccountNumber(binary.BigEndian.Uint32(key[1:])), SessionID(key[5:]), ExchangeID(key[5+len(session):]), true
}

// MemberPrefix returns the common prefix of the keys of a session's members.
func MemberPrefix(account AccountNumber, session SessionID) []byte {
	return append(SpaceKeyOf(SpaceMember, account), session[:]...)
}

// HistoryKey returns the key of the exchange that a history identifies within a session.
func HistoryKey(account AccountNumber, session SessionID, h [16]byte) []byte {
	return AppendHistoryKey(make([]byte, 0, KeyRoom), account, session, h)
}

// AppendHistoryKey appends a [HistoryKey].
func AppendHistoryKey(dst []byte, account AccountNumber, session SessionID, h [16]byte) []byte {
	return append(append(AppendSpaceKey(dst, SpaceHistory, account), session[:]...), h[:]...)
}

// NameKey returns the key of a record that the whole store has one of per name.
func NameKey(space byte, name string) []byte {
	return append([]byte{space}, name...)
}
