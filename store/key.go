package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"hash/crc32"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
)

// Scopes are what a service key may do.
type Scopes uint8

const (
	ScopeWrite Scopes = 1 << iota // call providers; every request is captured
	ScopeRead                     // read the account's memory
	ScopeErase                    // erase from it
	ScopeAdmin                    // change the account's settings

	AllScopes = ScopeWrite | ScopeRead | ScopeErase | ScopeAdmin
)

var scopeNames = [...]string{"write", "read", "erase", "admin"}

// Has tells whether every scope of want is there.
func (s Scopes) Has(want Scopes) bool { return s&want == want }

// String lists the scopes, as "write,read".
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

// Key is what is known of a service key; its secret is not kept.
type Key struct {
	ID      string    `json:"id"`
	Account string    `json:"account"`
	Label   string    `json:"label,omitempty"`
	Scopes  Scopes    `json:"scopes"`
	Created time.Time `json:"created"`
	Revoked time.Time `json:"revoked,omitzero"`
}

type keyRecord struct {
	Key
	Hash []byte `json:"sha256"` // of the secret
}

// Identity is who a service key speaks for.
type Identity struct {
	Account string
	KeyID   string
	Scopes  Scopes
}

const (
	keyPrefix      = "mnm_"
	keyDigits      = 43 // base62 digits of 32 random bytes
	checksumDigits = 6  // base62 digits of the CRC-32 of what stands before them
	keyLength      = len(keyPrefix) + keyDigits + checksumDigits
	base62         = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

	minStaticKey   = 32
	maxSecret      = 1024 // characters; what is longer is no key
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

// LooksLikeKey tells whether text has the shape of a service key, whole or damaged, without looking it up.
func LooksLikeKey(text string) bool { return strings.HasPrefix(text, keyPrefix) }

// intact tells whether a service key has the right length and checksum.
func intact(secret string) bool {
	if len(secret) != keyLength {
		return false
	}
	body := []byte(secret[:keyLength-checksumDigits])
	return string(appendBase62(nil, checksum(body), checksumDigits)) == secret[keyLength-checksumDigits:]
}

// keyTable is all service keys, in memory. Secrets are found by the first bytes of their hash and then compared in
// constant time.
type keyTable struct {
	mu     sync.RWMutex
	byHash map[[8]byte][]keyRecord
	byID   map[string]keyRecord
}

func (t *keyTable) load(db *badger.DB) error {
	t.byHash, t.byID = make(map[[8]byte][]keyRecord), make(map[string]keyRecord)
	return eachRecord(db, []byte{spaceKey}, func(_ []byte, record []byte) error {
		var k keyRecord
		if err := decodeRecord(record, &k); err != nil {
			return err
		}
		t.put(k)
		return nil
	})
}

// put adds a key or replaces the one with its id. The caller holds mu.
func (t *keyTable) put(k keyRecord) {
	slot := [8]byte(k.Hash)
	others := slices.DeleteFunc(slices.Clone(t.byHash[slot]), func(o keyRecord) bool { return o.ID == k.ID })
	t.byHash[slot] = append(others, k)
	t.byID[k.ID] = k
}

func (t *keyTable) find(hash [sha256.Size]byte) (keyRecord, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, k := range t.byHash[[8]byte(hash[:8])] {
		if subtle.ConstantTimeCompare(k.Hash, hash[:]) == 1 {
			return k, true
		}
	}
	return keyRecord{}, false
}

// CreateKey makes a service key. The secret is given this once; the store keeps its hash.
func (s *Store) CreateKey(account string, scopes Scopes, label string) (secret string, key Key, err error) {
	if _, ok := s.accounts.number(account); !ok {
		return "", Key{}, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	if scopes == 0 || scopes&^AllScopes != 0 {
		return "", Key{}, codec.Invalid("scopes", "a key needs at least one scope of %s", AllScopes)
	}
	if len(label) > maxLabel {
		return "", Key{}, codec.Invalid("label", "a label has at most %d characters", maxLabel)
	}
	secret = newSecret()
	hash := sha256.Sum256([]byte(secret))
	record := keyRecord{Hash: hash[:], Key: Key{
		ID: newKeyID(), Account: account, Label: label, Scopes: scopes, Created: time.Now().UTC(),
	}}
	if err := s.putKey(record); err != nil {
		return "", Key{}, err
	}
	return secret, record.Key, nil
}

func newKeyID() string {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return keyIDPrefix + idEncoding.EncodeToString(random[:])
}

// putKey makes a key durable and then effective.
func (s *Store) putKey(k keyRecord) error {
	record, err := encodeRecord(k)
	if err != nil {
		return err
	}
	err = s.update(context.Background(), func(g *gathering, w *write) error {
		g.put(w, nameKey(spaceKey, k.ID), record)
		return nil
	})
	if err != nil {
		return asStorageError(err, "the key could not be stored")
	}
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.put(k)
	return nil
}

// AddStaticKey makes a secret of the operator's own valid for as long as the store is open; it is not stored.
// The account is created if it does not exist. The secret has at least 32 characters.
func (s *Store) AddStaticKey(secret, account string, scopes Scopes) error {
	if len(secret) < minStaticKey || len(secret) > maxSecret {
		return codec.Errorf(codec.KindInvalidRequest, "a key from the environment has %d to %d characters, this one has %d", minStaticKey, maxSecret, len(secret))
	}
	if _, ok := s.accounts.number(account); !ok {
		if _, err := s.CreateAccount(account); err != nil {
			return err
		}
	}
	hash := sha256.Sum256([]byte(secret))
	s.keys.mu.Lock()
	defer s.keys.mu.Unlock()
	s.keys.put(keyRecord{Hash: hash[:], Key: Key{
		ID: keyIDPrefix + staticKeyLabel, Account: account, Label: staticKeyLabel, Scopes: scopes, Created: time.Now().UTC(),
	}})
	return nil
}

// Keys lists the service keys of an account, or of all with account "", oldest first, revoked ones included.
func (s *Store) Keys(account string) []Key {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	var keys []Key
	for k := range maps.Values(s.keys.byID) {
		if account == "" || k.Account == account {
			keys = append(keys, k.Key)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return keys
}

// RevokeKey makes a service key invalid at once and for good. Revoking it again changes nothing.
func (s *Store) RevokeKey(id string) error {
	s.keys.mu.RLock()
	k, ok := s.keys.byID[id]
	s.keys.mu.RUnlock()
	switch {
	case !ok:
		return codec.Errorf(codec.KindNotFound, "no key %q", id)
	case id == keyIDPrefix+staticKeyLabel:
		return codec.Errorf(codec.KindConflict, "this key comes from the environment: remove MNEME_API_KEY and restart")
	case !k.Revoked.IsZero():
		return nil
	}
	k.Revoked = time.Now().UTC()
	return s.putKey(k)
}

// Authenticate tells whom a service key speaks for. The errors, all [codec.KindAuthentication], tell apart what is
// no service key at all, a damaged one, an unknown one and a revoked one.
func (s *Store) Authenticate(secret string) (Identity, error) {
	if len(secret) > maxSecret {
		return Identity{}, errNoKey("this is not a service key: it is too long")
	}
	k, ok := s.keys.find(sha256.Sum256([]byte(secret)))
	switch {
	case ok && k.Revoked.IsZero():
		return Identity{Account: k.Account, KeyID: k.ID, Scopes: k.Scopes}, nil
	case ok:
		return Identity{}, errNoKey("this service key was revoked: ask for a new one, or create one with: mneme key create")
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

// foreignKeys are the beginnings by which other houses' keys are known, the longer before the shorter.
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
