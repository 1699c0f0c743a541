package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

const masterKeySize = 32

// sealer encrypts with AES-256-GCM under the master key. A sealed value is version, nonce, ciphertext and tag.
type sealer struct {
	aead     cipher.AEAD
	previous cipher.AEAD // opens what was sealed before the master key was changed; nil but for that time
}

// newSealer returns a sealer. A nil previous means that there is no previous key.
func newSealer(key, previous []byte) (*sealer, error) {
	aead, err := newAEAD(key)
	if err != nil || previous == nil {
		return &sealer{aead: aead}, err
	}
	before, err := newAEAD(previous)
	return &sealer{aead, before}, err
}

func newAEAD(key []byte) (cipher.AEAD, error) {
	if len(key) != masterKeySize {
		return nil, fmt.Errorf("the master key has %d bytes, it must have %d", len(key), masterKeySize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
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
	if err != nil && s.previous != nil {
		secret, err = s.previous.Open(nil, sealed[1:1+n], sealed[1+n:], []byte(place))
	}
	return string(secret), err
}

// reseal returns the value sealed under the master key; nil if it already is.
func (s *sealer) reseal(sealed []byte, place string) ([]byte, error) {
	if _, err := (&sealer{aead: s.aead}).open(sealed, place); err == nil {
		return nil, nil
	}
	secret, err := s.open(sealed, place)
	if err != nil {
		return nil, err
	}
	return s.seal(secret, place), nil
}

// proof seals a constant.
func (s *sealer) proof() []byte { return s.seal(masterKeyProof, masterKeyProof) }
