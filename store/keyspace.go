package store

import "encoding/binary"

// The first byte of a key says what kind of record it leads to. Keys of an account's own data go on with the
// account's number (four bytes, big endian), so that one account's data is one range per kind. FORMAT.md lists them.
const (
	spaceMeta          = 'm' // m <name>                              store-wide facts
	spaceAccount       = 'A' // A <account name>                      account
	spaceKey           = 'K' // K <key id>                            service key
	spaceKeyUse        = 'U' // U <key id>                            use of a service key
	spaceCredential    = 'C' // C <account> <provider>                sealed provider credential
	spaceExchange      = 'x' // x <account> <exchange>                exchange record
	spaceOpen          = 'o' // o <account> <exchange>                open exchanges that began in one commit
	spaceRequest       = 'q' // q <account> <exchange>                skeleton of the request body
	spaceResponse      = 'r' // r <account> <exchange> <part>         response bytes
	spaceBlock         = 'b' // b <account> <hash>                    block
	spaceNode          = 'n' // n <account> <hash>                    node
	spaceSession       = 's' // s <account> <session>                 session
	spaceMember        = 't' // t <account> <session> <exchange>      the exchange belongs to the session
	spaceBelongs       = 'g' // g <account> <exchange>                the session it belongs to
	spaceLink          = 'l' // l <account> <kind> <evidence>         the session that evidence of a kind leads to
	spaceOutbox        = 'd' // d <account> <exchange>                the exchange has yet to be digested
	spaceTurn          = 'u' // u <account> <exchange>                turn
	spaceHistory       = 'h' // h <account> <session> <history>       the exchange that this history leads to
	spaceMove          = 'j' // j <account> <session>                 exchanges of the session are on their way to another
	spaceLedger        = 'p' // p <account> <slot>                    what a model wants back with the next request
	spaceRecollection  = 'R' // R <account> <place>                   what was recalled there
	spaceQuoted        = 'Q' // Q <account> <exchange> <place>        the recollection there goes with the exchange
	spaceChange        = 'i' // i <e or stage> <number>               turns and sessions that stages have yet to look at
	spaceSessionChange = 'y' // y <account> <session>                 before format 3: the session has changed
	spaceSummary       = 'z' // z <account> <session>                 what a model has written about the session
	spaceUnsummarized  = 'k' // k <account> <session>                 the session has grown since a model wrote about it
	spaceSummaryTokens = 'f' // f <account>                           what summaries have cost today
	spaceRollup        = 'c' // c <account> <hour> <who and what>      what the exchanges of an hour used and cost
	spaceVector        = 'v' // v <account> <generation> <exchange>   vector of the turn
	spaceAudit         = 'a' // a <entry>                             act of administration
	spaceErasure       = 'e' // e <account> <erasure>                 receipt of an erasure
	spaceDeletion      = 'w' // w <account>                           a deleted account whose data has yet to go
	spaceTomb          = 'T' // T <account> <exchange>                was erased, and is not to arrive again
	spaceShip          = 'S' // S <number>                            an exchange that the centre has yet to confirm
)

// accountNumber stands for an account in keys. Numbers are given out once and never again.
type accountNumber uint32

func spaceKeyOf(space byte, account accountNumber) []byte {
	key := make([]byte, 5, 40)
	key[0] = space
	binary.BigEndian.PutUint32(key[1:], uint32(account))
	return key
}

func splitAccountKey(key []byte) (accountNumber, bool) {
	if len(key) != 5 {
		return 0, false
	}
	return accountNumber(binary.BigEndian.Uint32(key[1:])), true
}

func exchangeKey(space byte, account accountNumber, id exchangeID) []byte {
	return append(spaceKeyOf(space, account), id[:]...)
}

// splitExchangeKey takes a key apart that ends with an exchange's id, of any kind.
func splitExchangeKey(key []byte) (account accountNumber, id exchangeID, ok bool) {
	if len(key) != 1+4+len(id) {
		return 0, id, false
	}
	copy(id[:], key[5:])
	return accountNumber(binary.BigEndian.Uint32(key[1:])), id, true
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

func splitObjectKey(key []byte) (ref objectRef, ok bool) {
	if len(key) != 1+4+len(ref.hash) {
		return ref, false
	}
	ref.space = key[0]
	ref.account = accountNumber(binary.BigEndian.Uint32(key[1:]))
	copy(ref.hash[:], key[5:])
	return ref, true
}

func sessionKey(account accountNumber, id sessionID) []byte {
	return append(spaceKeyOf(spaceSession, account), id[:]...)
}

// splitSessionKey takes a key apart that ends with a session's id, of any kind.
func splitSessionKey(key []byte) (account accountNumber, id sessionID, ok bool) {
	account, of, ok := splitExchangeKey(key) // ids have one length
	return account, sessionID(of), ok
}

func memberKey(account accountNumber, session sessionID, id exchangeID) []byte {
	return append(memberPrefix(account, session), id[:]...)
}

func splitMemberKey(key []byte) (account accountNumber, session sessionID, id exchangeID, ok bool) {
	if len(key) != 1+4+len(session)+len(id) {
		return 0, session, id, false
	}
	return accountNumber(binary.BigEndian.Uint32(key[1:])), sessionID(key[5:]), exchangeID(key[5+len(session):]), true
}

func memberPrefix(account accountNumber, session sessionID) []byte {
	return append(spaceKeyOf(spaceMember, account), session[:]...)
}

func historyKey(account accountNumber, session sessionID, h historyHash) []byte {
	return append(append(spaceKeyOf(spaceHistory, account), session[:]...), h[:]...)
}

func nameKey(space byte, name string) []byte {
	return append([]byte{space}, name...)
}
