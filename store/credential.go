package store

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
)

const (
	masterKeyFile  = "master.key"
	masterKeySize  = 32
	masterKeyProof = "mneme master key" // sealed in every store, so that a wrong master key is noticed when it is opened
	maxCredential  = 8 << 10
)

// sealer encrypts with AES-256-GCM under the master key. A sealed value is version, nonce, ciphertext and tag.
type sealer struct{ aead cipher.AEAD }

func newSealer(opts Options) (*sealer, error) {
	key := opts.MasterKey
	if key == nil {
		var err error
		if key, err = masterKey(opts.Dir); err != nil {
			return nil, err
		}
	}
	if len(key) != masterKeySize {
		return nil, fmt.Errorf("the master key has %d bytes, it must have %d", len(key), masterKeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &sealer{aead: aead}, nil
}

// masterKey reads the master key's file, 64 hexadecimal digits, or makes it for a new store.
func masterKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, masterKeyFile)
	text, err := os.ReadFile(path)
	if err == nil {
		key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
		if err != nil || len(key) != masterKeySize {
			return nil, fmt.Errorf("%s is damaged: it must hold %d hexadecimal digits", path, 2*masterKeySize)
		}
		return key, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "badger")); err == nil {
		return nil, fmt.Errorf("%s is missing, and the store beside it was created with it: put it back", path)
	}
	key := make([]byte, masterKeySize)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the program instead
	if err := writeSynced(path, append(hex.AppendEncode(nil, key), '\n')); err != nil {
		return nil, fmt.Errorf("write the master key: %w", err)
	}
	return key, nil
}

// writeSynced makes a file of mode 0600 that is there whole or not at all.
func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

const sealVersion = 1

// seal binds the secret to its place: account and provider are authenticated with it.
func (s *sealer) seal(secret, place string) []byte {
	nonce := make([]byte, s.aead.NonceSize())
	_, _ = rand.Read(nonce) // never fails: crypto/rand ends the program instead
	sealed := append([]byte{sealVersion}, nonce...)
	return s.aead.Seal(sealed, nonce, []byte(secret), []byte(place))
}

func (s *sealer) open(sealed []byte, place string) (string, error) {
	n := s.aead.NonceSize()
	if len(sealed) < 1+n || sealed[0] != sealVersion {
		return "", errors.New("not a sealed value of this version")
	}
	secret, err := s.aead.Open(nil, sealed[1:1+n], sealed[1+n:], []byte(place))
	return string(secret), err
}

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func credentialKey(account accountNumber, provider string) []byte {
	return append(spaceKeyOf(spaceCredential, account), provider...)
}

// credentialPlace is what a sealed credential is bound to.
func credentialPlace(account, provider string) string { return account + "\x00" + provider }

// SetCredential keeps the account's own credential for a provider, encrypted, in place of an earlier one.
func (s *Store) SetCredential(account, provider, secret string) error {
	number, ok := s.accounts.number(account)
	switch {
	case !ok:
		return codec.Errorf(codec.KindNotFound, "no account %q", account)
	case !providerName.MatchString(provider):
		return codec.Invalid("provider", "%q is not a provider's name", provider)
	case secret == "" || len(secret) > maxCredential:
		return codec.Invalid("secret", "a credential has 1 to %d characters", maxCredential)
	}
	sealed := s.seal.seal(secret, credentialPlace(account, provider))
	err := s.update(context.Background(), func(g *gathering, w *write) error {
		g.put(w, credentialKey(number, provider), sealed)
		return nil
	})
	if err != nil {
		return asStorageError(err, "the credential could not be stored")
	}
	return nil
}

// RemoveCredential forgets the account's credential for a provider; [codec.KindNotFound] if there is none.
func (s *Store) RemoveCredential(account, provider string) error {
	number, ok := s.accounts.number(account)
	if !ok {
		return codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	err := s.update(context.Background(), func(g *gathering, w *write) error {
		key := credentialKey(number, provider)
		if g.get(key) == nil {
			return codec.Errorf(codec.KindNotFound, "account %q has no credential for %q", account, provider)
		}
		g.put(w, key, nil)
		return nil
	})
	if err != nil {
		return asStorageError(err, "the credential could not be removed")
	}
	return nil
}

// Credential gives the account's credential for a provider; ok is false if there is none.
func (s *Store) Credential(account, provider string) (secret string, ok bool, err error) {
	number, known := s.accounts.number(account)
	if !known {
		return "", false, nil
	}
	var sealed []byte
	err = s.view(func(tx *badger.Txn) (err error) {
		sealed, err = getValue(tx, credentialKey(number, provider))
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return "", false, nil
	}
	if err == nil {
		secret, err = s.seal.open(sealed, credentialPlace(account, provider))
	}
	if err != nil {
		return "", false, errStorage(err, "the credential of account %q for %q cannot be read: set it again", account, provider)
	}
	return secret, true, nil
}

// Credentials lists the names of the providers that the account has a credential for.
func (s *Store) Credentials(account string) ([]string, error) {
	number, ok := s.accounts.number(account)
	if !ok {
		return nil, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	var names []string
	err := s.view(func(tx *badger.Txn) error {
		prefix := spaceKeyOf(spaceCredential, number)
		it := tx.NewIterator(badger.IteratorOptions{Prefix: prefix})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			names = append(names, string(it.Item().Key()[len(prefix):]))
		}
		return nil
	})
	if err != nil {
		return nil, errStorage(err, "the credentials of account %q cannot be listed", account)
	}
	return names, nil
}
