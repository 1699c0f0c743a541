package identity

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/crc32"
	"log/slog"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Scopes are what a service key may do.
type Scopes uint8

const (
	ScopeWrite    Scopes = 1 << iota // call providers; every request is captured
	ScopeRead                        // read the account's memory
	ScopeErase                       // erase from it
	ScopeAdmin                       // change the account's settings
	ScopeOperator                    // everything that the server's own command line can do, in every account

	// AllScopes are those of one account.
	AllScopes = ScopeWrite | ScopeRead | ScopeErase | ScopeAdmin
)

var scopeNames = [...]string{"write", "read", "erase", "admin", "operator"}

// Has reports whether every scope of want is there.
func (s Scopes) Has(want Scopes) bool { return s&want == want }

// String lists the scopes, as in "write,read".
func (s Scopes) String() string {
	var names []string
	for i, name := range scopeNames {
		if s.Has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// ParseScopes reads a list as [Scopes.String] writes it; spaces around commas are allowed.
func ParseScopes(text string) (Scopes, error) {
	var scopes Scopes
	for name := range strings.SplitSeq(text, ",") {
		i := slices.Index(scopeNames[:], strings.TrimSpace(name))
		if i < 0 {
			return 0, fmt.Errorf("unknown scope %q (known: %s)", strings.TrimSpace(name), strings.Join(scopeNames[:], ", "))
		}
		scopes |= 1 << i
	}
	return scopes, nil
}

// MarshalText writes the list.
func (s Scopes) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a list; an empty one is no scope.
func (s *Scopes) UnmarshalText(text []byte) (err error) {
	if *s = 0; len(text) > 0 {
		*s, err = ParseScopes(string(text))
	}
	return err
}

// Key describes a service key; its secret is not kept.
type Key struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Label   string    `json:"label,omitempty"`
	Scopes  Scopes    `json:"scopes"`
	Created time.Time `json:"created,omitzero"` // zero for the key of the environment
	Expires time.Time `json:"expires,omitzero"` // zero: never
	Revoked time.Time `json:"revoked,omitzero"`

	Limits     Limits    `json:"limits,omitzero"`
	Models     Models    `json:"models,omitempty"`      // that it may ask for; empty: all
	Recall     KeyRecall `json:"recall,omitempty"`      // whether its requests get recalled text
	TrustTrace bool      `json:"trust_trace,omitempty"` // traces of its callers are continued
	Replaces   string    `json:"replaces,omitempty"`    // id of the key that a rotation replaced with it
	Origin     string    `json:"origin,omitempty"`      // the first key of a chain of rotations; "": this one

	// Its use; not in the key's own record.
	LastUsed    time.Time `json:"last_used,omitzero"`     // to the minute; not before Created
	Month       string    `json:"month,omitempty"`        // the newest month in which tokens were used, "2006-01" in UTC
	MonthTokens int64     `json:"month_tokens,omitempty"` // used in it
}

type keyRecord struct {
	Key
	Hash []byte `json:"sha256"` // of the secret

	use   *KeyUse // shared by all copies; never nil
	given bool    // from the roster that is followed
}

// Identity is the caller that a service key identifies.
type Identity struct {
	Account    string
	KeyID      string
	Label      string // of the key
	Scopes     Scopes
	Limits     Limits // the key's own
	Models     Models // that it may ask for; must not be changed
	Recall     KeyRecall
	TrustTrace bool
	Use        *KeyUse // nil only for the zero Identity
}

const (
	keyPrefix      = "mnm_"
	keyDigits      = 43 // base62 digits of 32 random bytes
	checksumDigits = 6  // base62 digits of the CRC-32 of the text before them
	keyLength      = len(keyPrefix) + keyDigits + checksumDigits
	base62         = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	minStaticKey   = 32
	maxSecret      = 1024 // characters; anything longer is not a key
	maxLabel       = 200
	keyIDPrefix    = "key_"
	staticKeyLabel = "environment"
)

// appendBase62 appends n in exactly width digits.
func appendBase62(dst []byte, n *big.Int, width int) []byte {
	start := len(dst)
	dst = append(dst, strings.Repeat("0", width)...)
	rest, base, digit := new(big.Int).Set(n), big.NewInt(int64(len(base62))), new(big.Int)
	for i := start + width - 1; i >= start; i-- {
		rest.DivMod(rest, base, digit)
		dst[i] = base62[digit.Int64()]
	}
	return dst
}

func newSecret() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	secret := appendBase62([]byte(keyPrefix), new(big.Int).SetBytes(random[:]), keyDigits)
	return string(appendBase62(secret, checksum(secret), checksumDigits))
}

func checksum(text []byte) *big.Int {
	return new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE(text)))
}

// LooksLikeKey reports whether text has the shape of a service key, whole or damaged, without looking it up.
func LooksLikeKey(text string) bool { return strings.HasPrefix(text, keyPrefix) }

// intact reports whether a service key has the right length and checksum.
func intact(secret string) bool {
	if len(secret) != keyLength {
		return false
	}
	body := []byte(secret[:keyLength-checksumDigits])
	return string(appendBase62(nil, checksum(body), checksumDigits)) == secret[keyLength-checksumDigits:]
}

// KeyTable holds all service keys in memory. Secrets are found by the first bytes of their hash and then compared in
// constant time.
type KeyTable struct {
	db       kv.DB
	accounts *AccountTable
	now      func() time.Time
	log      *slog.Logger
	writer   useWriter

	changing sync.Mutex // held while a key is created, changed or deleted, from the check to the commit

	mu     sync.RWMutex
	byHash map[[8]byte][]keyRecord
	byID   map[string]keyRecord
	uses   map[string]*KeyUse // from when the store was opened, by key id
}

// LoadKeys reads the service keys of a store. now is the clock for their life and use; log gets write errors.
func LoadKeys(db kv.DB, accounts *AccountTable, now func() time.Time, log *slog.Logger) (*KeyTable, error) {
	t := &KeyTable{
		db: db, accounts: accounts, now: now, log: log,
		byHash: make(map[[8]byte][]keyRecord), byID: make(map[string]keyRecord),
	}
	var err error
	if t.uses, err = loadUses(db); err != nil {
		return nil, err
	}
	return t, kv.EachRecord(db, []byte{kv.SpaceKey}, func(_ []byte, record []byte) error {
		var k keyRecord
		if err := kv.DecodeRecord(record, &k); err != nil {
			return err
		}
		t.put(k)
		return nil
	})
}

// Keys manages service keys.
type Keys struct{ keys *KeyTable }

// Keys returns the operations on keys.
func (t *KeyTable) Keys() Keys { return Keys{t} }

// put adds a key or replaces the one with its id. The caller holds mu.
func (t *KeyTable) put(k keyRecord) {
	if k.use == nil {
		if k.use = t.uses[k.ID]; k.use == nil {
			k.use = newKeyUse(useRecord{})
		}
	}
	slot := [8]byte(k.Hash)
	others := slices.DeleteFunc(slices.Clone(t.byHash[slot]), func(o keyRecord) bool { return o.ID == k.ID })
	t.byHash[slot] = append(others, k)
	t.byID[k.ID] = k
}

// Without calls do with the ids of an account's keys, which are invalid from then on. If do fails they are valid again.
// No key is created or changed meanwhile.
func (t *KeyTable) Without(account string, do func(ids []string) error) error {
	t.changing.Lock()
	defer t.changing.Unlock()
	withdrawn := t.withdraw(account)
	ids := make([]string, len(withdrawn))
	for i, k := range withdrawn {
		ids[i] = k.ID
	}
	err := do(ids)
	if err != nil {
		t.restore(withdrawn)
	}
	return err
}

// withdraw removes the keys of an account from the table and returns them.
func (t *KeyTable) withdraw(account string) []keyRecord {
	t.mu.Lock()
	defer t.mu.Unlock()
	var withdrawn []keyRecord
	for id, k := range t.byID {
		if k.Account == account {
			withdrawn = append(withdrawn, k)
			t.drop(id)
		}
	}
	return withdrawn
}

// drop removes a key from the table, which makes it invalid. The caller holds mu.
func (t *KeyTable) drop(id string) {
	k, ok := t.byID[id]
	if !ok {
		return
	}
	delete(t.byID, id)
	slot := [8]byte(k.Hash)
	t.byHash[slot] = slices.DeleteFunc(slices.Clone(t.byHash[slot]), func(o keyRecord) bool { return o.ID == id })
	if len(t.byHash[slot]) == 0 {
		delete(t.byHash, slot)
	}
}

// restore restores withdrawn keys.
func (t *KeyTable) restore(keys []keyRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		t.put(k)
	}
}

func (t *KeyTable) find(hash [sha256.Size]byte) (keyRecord, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, k := range t.byHash[[8]byte(hash[:8])] {
		if subtle.ConstantTimeCompare(k.Hash, hash[:]) == 1 {
			return k, true
		}
	}
	return keyRecord{}, false
}

// Create creates a service key. The secret is returned only this once; the store keeps its hash. set may change the
// fields that [Keys.Update] may change.
func (s Keys) Create(account string, scopes Scopes, label string, set ...func(*Key)) (secret string, key Key, err error) {
	made, err := s.CreateAll([]NewKey{{Account: account, Scopes: scopes, Label: label, Set: func(k *Key) {
		for _, change := range set {
			change(k)
		}
	}}})
	if err != nil {
		return "", Key{}, err
	}
	return made[0].Secret, made[0].Key, nil
}

// NewKey asks for a service key.
type NewKey struct {
	Account string
	Scopes  Scopes
	Label   string
	Set     func(*Key) // may change the fields that [Keys.Update] may change
}

// CreatedKey is a new service key. The secret is returned only this once; the store keeps its hash.
type CreatedKey struct {
	Key
	Secret string `json:"key"`
}

// MostCreated is the largest number of keys created at once: their records fit into one transaction of the database.
const MostCreated = 1000

// CreateAll creates all of the keys, in one commit, or none.
func (s Keys) CreateAll(asked []NewKey) ([]CreatedKey, error) {
	if len(asked) > MostCreated {
		return nil, codec.Invalid("keys", "at most %d keys are made at once", MostCreated)
	}
	made, records := make([]CreatedKey, len(asked)), make([]keyRecord, len(asked))
	err := s.keys.alter(func() (_ []keyRecord, err error) {
		for i := range asked {
			if made[i].Secret, records[i], err = s.keys.newKey(&asked[i]); err != nil {
				return nil, err
			}
			made[i].Key = records[i].shown()
		}
		return records, nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// newKey makes a key that is not stored yet.
func (t *KeyTable) newKey(asked *NewKey) (secret string, record keyRecord, err error) {
	if _, ok := t.accounts.Find(asked.Account); !ok {
		return "", record, codec.Errorf(codec.KindNotFound, "no account %q", asked.Account)
	}
	if asked.Scopes == 0 || asked.Scopes&^(AllScopes|ScopeOperator) != 0 {
		return "", record, codec.Invalid("scopes", "a key needs at least one scope of %s", AllScopes|ScopeOperator)
	}
	record = keyRecord{
		Key: Key{ID: newKeyID(), Account: asked.Account, Scopes: asked.Scopes, Created: t.now().UTC()},
		use: newKeyUse(useRecord{}),
	}
	err = record.set(func(k *Key) {
		k.Label = asked.Label
		if asked.Set != nil {
			asked.Set(k)
		}
	})
	secret = newSecret()
	hash := sha256.Sum256([]byte(secret))
	record.Hash = hash[:]
	return secret, record, err
}

func newKeyID() string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return keyIDPrefix + kv.IDEncoding.EncodeToString(random[:])
}

// AddStatic makes an operator's own secret valid while the store is open; it is not stored. The account is created if
// it does not exist. The secret must have at least 32 characters.
func (s Keys) AddStatic(secret, account string, scopes Scopes) error {
	if len(secret) < minStaticKey || len(secret) > maxSecret {
		return codec.Errorf(codec.KindInvalidRequest, "a key from the environment has %d to %d characters, this one has %d", minStaticKey, maxSecret, len(secret))
	}
	if _, ok := s.keys.accounts.Find(account); !ok {
		if _, err := s.keys.accounts.Accounts().Create(account); err != nil {
			return err
		}
	}
	hash := sha256.Sum256([]byte(secret))
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.put(keyRecord{Hash: hash[:], Key: Key{
		ID: keyIDPrefix + staticKeyLabel, Account: account, Label: staticKeyLabel, Scopes: scopes,
	}})
	return nil
}

// List lists the service keys of an account, or of all accounts if account is "", oldest first, including revoked ones.
func (s Keys) List(account string) []Key {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	var keys []Key
	for k := range maps.Values(s.keys.byID) {
		if account == "" || k.Account == account {
			keys = append(keys, k.shown())
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return keys
}

// Authenticate returns the identity of a service key. The errors, all [codec.KindAuthentication], distinguish a secret
// that is not a service key, a damaged, an unknown, an expired and a revoked one. With an error, the identity has only
// the names of the key, if it is known, for logs.
func (s Keys) Authenticate(secret string) (Identity, error) {
	if len(secret) > maxSecret {
		return Identity{}, errNoKey("this is not a service key: it is too long")
	}
	k, ok := s.keys.find(sha256.Sum256([]byte(secret)))
	now := s.keys.now()
	switch {
	case ok && k.given && s.keys.accounts.terms.outdated(now):
		return k.named(), errOutdated()
	case ok && k.valid(now):
		k.use.seen(now)
		return Identity{Account: k.Account, KeyID: k.ID, Label: k.Label, Scopes: k.Scopes, Limits: k.Limits, Models: k.Models, Recall: k.Recall, TrustTrace: k.TrustTrace, Use: k.use}, nil
	case ok && k.Revoked.IsZero():
		return k.named(), errNoKey("this service key expired on %s: ask for a new one, or create one with: mneme key create", k.Expires.UTC().Format(time.RFC1123))
	case ok:
		return k.named(), errNoKey("this service key was revoked: ask for a new one, or create one with: mneme key create")
	case secret == "":
		return Identity{}, errNoKey("a service key is needed: send it as Authorization: Bearer %s… or as X-Service-API-Key", keyPrefix)
	case !LooksLikeKey(secret):
		return Identity{}, errNoKey("%s; a service key begins with %s and is made with: mneme key create", foreignKey(secret), keyPrefix)
	case !intact(secret):
		return Identity{}, errNoKey("this service key is damaged: it has %d characters and its checksum must fit; copy it again, whole", keyLength)
	}
	return Identity{}, errNoKey("this service key is unknown here: it belongs to another installation or its account was erased")
}

func errNoKey(format string, args ...any) *codec.Error {
	err := codec.Errorf(codec.KindAuthentication, format, args...)
	err.Code = "invalid_api_key"
	return err
}

// foreignKeys are the prefixes of other vendors' keys, the longer before the shorter.
var foreignKeys = []struct{ prefix, house string }{
	{"sk-ant-", "Anthropic"},
	{"sk-proj-", "OpenAI"},
	{"sk-or-", "OpenRouter"},
	{"sk-", "OpenAI or DeepSeek"},
	{"AIza", "Google"},
	{"xai-", "xAI"},
	{"gsk_", "Groq"},
	{"hf_", "Hugging Face"},
}

func foreignKey(secret string) string {
	for _, f := range foreignKeys {
		if strings.HasPrefix(secret, f.prefix) {
			return "this looks like a provider's key (" + f.house + "), not a service key"
		}
	}
	return "this is not a service key"
}
