package identity

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/volume"
)

const (
	// MasterKeyFile is the file of the master key in the store directory.
	MasterKeyFile = "master.key"

	// NextKeyFile is there from before the first value is sealed under it until it takes the place of the other.
	NextKeyFile = "master.key.next"

	masterKeyProof = "mneme master key" // see [MasterKey.Proof]
)

// MasterKey seals credentials and tokens. A nil one is of a store that is being restored, whose key is not known yet.
type MasterKey struct {
	dir   string // of the file
	given bool   // it comes from outside, and there is no file

	mu   sync.RWMutex // held for reading while seal is used, for writing while the key is changed
	seal *sealer

	before cipher.AEAD // the given key that was before this one; nil: none was given
}

// OpenMasterKey takes the master key that is given, and the one before it if that is not nil. With no key given it is the one
// of the file in dir, where a change has not come to its end with the one before it, or a new one where there is no database
// yet.
func OpenMasterKey(dir, database string, key, previous []byte) (*MasterKey, error) {
	m := &MasterKey{dir: dir, given: key != nil}
	if m.given {
		seal, err := newSealer(key, previous)
		if err == nil {
			m.seal, m.before = seal, seal.previous
		}
		return m, err
	}
	key, err := masterKey(dir, database)
	if err != nil {
		return nil, err
	}
	next, err := ReadKey(filepath.Join(dir, NextKeyFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.seal, err = newSealer(key, nil)
	case err == nil:
		m.seal, err = newSealer(next, key)
	}
	return m, err
}

// Proof seals a constant. Each store keeps one, so that a wrong master key is noticed when the store is opened.
func (m *MasterKey) Proof() []byte {
	if m == nil {
		return nil
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.seal.proof()
}

// Check compares a proof with the master key, and with the one before it.
func (m *MasterKey) Check(proof []byte) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, err := m.seal.open(proof, masterKeyProof); err != nil {
		return fmt.Errorf("the master key is not the one the store in %s was created with: put the original %s back, or give the original key",
			m.dir, MasterKeyFile)
	}
	return nil
}

// Changing reports whether there is a key before this one, under which values may still be sealed.
func (m *MasterKey) Changing() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.seal.previous != nil
}

// masterKey reads the master key's file, 64 hexadecimal digits, or makes it for a new store.
func masterKey(dir, database string) ([]byte, error) {
	path := filepath.Join(dir, MasterKeyFile)
	key, err := ReadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if _, err := os.Stat(database); err == nil {
		return nil, fmt.Errorf("%s is missing, and the store beside it was created with it: put it back", path)
	}
	return MakeKey(path)
}

// ReadKey reads the file of a master key.
func ReadKey(path string) ([]byte, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the master key: %w", err)
	}
	key, err := hex.DecodeString(string(bytes.TrimSpace(text)))
	if err != nil || len(key) != masterKeySize {
		return nil, fmt.Errorf("%s is damaged: it must hold %d hexadecimal digits", path, 2*masterKeySize)
	}
	return key, nil
}

// MakeKey makes a key and its file.
func MakeKey(path string) ([]byte, error) {
	key := make([]byte, masterKeySize)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the program instead
	return key, WriteKeyFile(path, key)
}

// WriteKeyFile writes the file of a master key, whole or not at all.
func WriteKeyFile(path string, key []byte) error {
	if err := volume.WriteSynced(path, append(hex.AppendEncode(nil, key), '\n')); err != nil {
		return fmt.Errorf("write the master key: %w", err)
	}
	return nil
}

// Rotation is what a change of the master key works with.
type Rotation struct {
	DB       kv.DB
	Accounts *AccountTable
	Sync     func() error             // what is committed is on disk then
	Note     func(proof []byte) error // notes beside the database which key it is opened with
}

// Rotate makes a new master key and seals every credential under it. Until every credential is sealed with the new key, both
// keys are kept, so that whatever interrupts it, nothing is lost: [MasterKey.Finish] brings it to its end. A key that was
// given from outside is changed from outside.
func (m *MasterKey) Rotate(r Rotation) error {
	if m.given {
		return codec.Errorf(codec.KindConflict,
			"the master key comes from the environment: set MNEME_MASTER_KEY to a new one and MNEME_PREVIOUS_MASTER_KEY to this one, and restart")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seal.previous == nil { // else an earlier rotation failed on the way, and is brought to its end
		key, err := MakeKey(filepath.Join(m.dir, NextKeyFile))
		if err != nil {
			return kv.StorageError(err, "the new master key could not be written; the old one stays in use")
		}
		aead, err := newAEAD(key)
		if err != nil {
			return err
		}
		m.seal = &sealer{aead: aead, previous: m.seal.aead}
	}
	return m.finish(r)
}

// Finish brings a change to its end: it seals with the present master key what the previous one has sealed, and then forgets
// that key.
func (m *MasterKey) Finish(r Rotation) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.finish(r)
}

// finish is Finish while mu is held.
func (m *MasterKey) finish(r Rotation) error {
	err := r.DB.Update(context.Background(), func(tx kv.Txn) error {
		return r.eachSealed(tx.Committed(), func(key []byte, place string) error {
			sealed := tx.Get(key)
			if sealed == nil { // removed by an operation before this one
				return nil
			}
			fresh, err := m.seal.reseal(sealed, place)
			if err != nil {
				return kv.StorageError(err, "the credential of account %s cannot be opened with the master key; remove it, or set it again",
					strings.ReplaceAll(place, "\x00", " for "))
			}
			if fresh != nil {
				tx.Put(key, fresh)
			}
			return nil
		})
	})
	if err == nil {
		err = r.Sync() // the old key is not to be gone while a new value is not on disk
	}
	if err != nil {
		return kv.AsStorageError(err, "not every credential could be sealed under the new master key; both keys are kept, and it goes on with the next start")
	}
	rotated := &sealer{aead: m.seal.aead}
	if err := r.Note(rotated.proof()); err != nil {
		return kv.StorageError(err, "the new master key could not be noted; it is tried again with the next start")
	}
	if !m.given {
		if err := volume.RenameSynced(filepath.Join(m.dir, NextKeyFile), filepath.Join(m.dir, MasterKeyFile)); err != nil {
			return kv.StorageError(err, "the new master key could not take the place of the old one; it is tried again with the next start")
		}
	}
	m.seal = rotated
	return nil
}

// eachSealed visits the key of every sealed value and what it is bound to: the credentials, and at last the proof of the
// master key.
func (r *Rotation) eachSealed(tx *badger.Txn, visit func(key []byte, place string) error) error {
	for _, a := range r.Accounts.All() {
		if err := eachCredential(tx, &a, visit); err != nil {
			return err
		}
	}
	return visit(ProofKey, masterKeyProof)
}

// ProofKey leads to the proof of the master key.
var ProofKey = kv.NameKey(kv.SpaceMeta, "master")

func eachCredential(tx *badger.Txn, a *AccountRecord, visit func(key []byte, place string) error) error {
	prefix := kv.SpaceKeyOf(kv.SpaceCredential, a.Number)
	for item := range kv.Items(tx, prefix, nil) {
		key := item.KeyCopy(nil)
		if err := visit(key, credentialPlace(a.Name, string(key[len(prefix):]))); err != nil {
			return err
		}
	}
	return nil
}
