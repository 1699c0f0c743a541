package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/volume"
)

const (
	masterKeyFile  = "master.key"
	nextKeyFile    = "master.key.next"  // there from before the first value is sealed under it until it takes the place of the other
	masterKeyProof = "mneme master key" // see sealer.proof
)

// openSealer finds the master key, and the one before it where a change has not come to its end.
func openSealer(opts Options) (*sealer, error) {
	if opts.MasterKey != nil {
		return newSealer(opts.MasterKey, opts.PreviousMasterKey)
	}
	key, err := masterKey(opts.Dir)
	if err != nil {
		return nil, err
	}
	next, err := readKey(filepath.Join(opts.Dir, nextKeyFile))
	if errors.Is(err, fs.ErrNotExist) {
		return newSealer(key, nil)
	}
	if err != nil {
		return nil, err
	}
	return newSealer(next, key)
}

// proof seals a constant. Each store keeps one, so that a wrong master key is noticed when the store is opened.
func (s *sealer) proof() []byte {
	if s == nil { // of a store that is being restored, whose key nobody knows yet
		return nil
	}
	return s.seal(masterKeyProof, masterKeyProof)
}

// proves reports whether the proof was made with this master key, or with the previous one.
func (s *sealer) proves(proof []byte) bool {
	_, err := s.open(proof, masterKeyProof)
	return err == nil
}

func wrongMasterKey(dir string) error {
	return fmt.Errorf("the master key is not the one the store in %s was created with: put the original %s back, or give the original key",
		dir, masterKeyFile)
}

// masterKey reads the master key's file, 64 hexadecimal digits, or makes it for a new store.
func masterKey(dir string) ([]byte, error) {
	path := filepath.Join(dir, masterKeyFile)
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if _, err := os.Stat(filepath.Join(dir, databaseDir)); err == nil {
		return nil, fmt.Errorf("%s is missing, and the store beside it was created with it: put it back", path)
	}
	return writeKey(path)
}

func readKey(path string) ([]byte, error) {
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

// writeKey makes a key and its file.
func writeKey(path string) ([]byte, error) {
	key := make([]byte, masterKeySize)
	_, _ = rand.Read(key) // never fails: crypto/rand ends the program instead
	return key, writeKeyFile(path, key)
}

func writeKeyFile(path string, key []byte) error {
	if err := writeSynced(path, append(hex.AppendEncode(nil, key), '\n')); err != nil {
		return fmt.Errorf("write the master key: %w", err)
	}
	return nil
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
	return renameSynced(path+".new", path)
}

// renameSynced renames so that a loss of power leaves the one name or the other.
func renameSynced(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return volume.SyncDir(filepath.Dir(to))
}

// RotateMasterKey makes a new master key and seals every credential under it. Requests go on meanwhile. Until every
// credential is sealed with the new key, both keys are kept, so that whatever interrupts it, nothing is lost: it then comes to its end
// when the store is next opened. A key that was given from outside is changed from outside, with
// [Options.PreviousMasterKey].
//
// Backups are not touched: they need the key of their time.
func (s Upkeep) RotateMasterKey() error {
	if s.opts.MasterKey != nil {
		return codec.Errorf(codec.KindConflict,
			"the master key comes from the environment: set MNEME_MASTER_KEY to a new one and MNEME_PREVIOUS_MASTER_KEY to this one, and restart")
	}
	s.sealing.Lock()
	defer s.sealing.Unlock()
	next := filepath.Join(s.opts.Dir, nextKeyFile)
	if s.seal.previous == nil { // else an earlier rotation failed on the way, and is brought to its end
		key, err := writeKey(next)
		if err != nil {
			return kv.StorageError(err, "the new master key could not be written; the old one stays in use")
		}
		aead, err := newAEAD(key)
		if err != nil {
			return err
		}
		s.seal = &sealer{aead: aead, previous: s.seal.aead}
	}
	return s.finishRotation()
}

// finishRotation seals with the present master key what the previous one has sealed, and then forgets that key. The caller holds sealing, or
// is the only one.
func (s *core) finishRotation() error {
	err := s.update(context.Background(), func(g *gathering, w *write) error {
		return s.eachSealed(g.read(), func(key []byte, place string) error {
			sealed := g.get(key)
			if sealed == nil { // removed by an operation before this one
				return nil
			}
			fresh, err := s.seal.reseal(sealed, place)
			if err != nil {
				return kv.StorageError(err, "the credential of account %s cannot be opened with the master key; remove it, or set it again",
					strings.ReplaceAll(place, "\x00", " for "))
			}
			if fresh != nil {
				g.put(w, key, fresh)
			}
			return nil
		})
	})
	if err == nil {
		err = s.db.Sync() // the old key is not to be gone while a new value is not on disk
	}
	if err != nil {
		return kv.AsStorageError(err, "not every credential could be sealed under the new master key; both keys are kept, and it goes on with the next start")
	}
	rotated := &sealer{aead: s.seal.aead}
	if err := writeStopNote(s.opts.Dir, &stopNote{Proof: rotated.proof()}); err != nil {
		return kv.StorageError(err, "the new master key could not be noted; it is tried again with the next start")
	}
	if s.opts.MasterKey == nil {
		if err := renameSynced(filepath.Join(s.opts.Dir, nextKeyFile), filepath.Join(s.opts.Dir, masterKeyFile)); err != nil {
			return kv.StorageError(err, "the new master key could not take the place of the old one; it is tried again with the next start")
		}
	}
	s.seal = rotated
	return nil
}

// eachSealed visits the key of every sealed value and what it is bound to: the credentials, and at last the proof of the
// master key.
func (s *core) eachSealed(tx *badger.Txn, visit func(key []byte, place string) error) error {
	for _, a := range s.accounts.all() {
		if err := eachCredential(tx, &a, visit); err != nil {
			return err
		}
	}
	return visit(kv.NameKey(kv.SpaceMeta, "master"), masterKeyProof)
}

func eachCredential(tx *badger.Txn, a *accountRecord, visit func(key []byte, place string) error) error {
	prefix := kv.SpaceKeyOf(kv.SpaceCredential, a.Number)
	it := tx.NewIterator(badger.IteratorOptions{Prefix: prefix})
	defer it.Close()
	for it.Rewind(); it.Valid(); it.Next() {
		key := it.Item().KeyCopy(nil)
		if err := visit(key, credentialPlace(a.Name, string(key[len(prefix):]))); err != nil {
			return err
		}
	}
	return nil
}
