package ship

import (
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/zeebo/blake3"
)

// Errors of [Key.Open]. They differ only for counts and logs: rejected messages are never used.
var (
	ErrVersion = errors.New("it has another version")
	ErrForged  = errors.New("it is not signed with the key of this cluster, or is truncated")
)

// version is the version of all messages between nodes. A node opens only messages of its own version.
const version = 1

// magic begins every message. Version and signature are at the same place in all versions.
const magic = "mnsp"

const (
	prefixSize    = len(magic) + 2 // magic, version, kind
	signatureSize = 32
)

// A Kind prevents messages of one purpose from being taken for another's.
type Kind byte

// Kinds of messages.
const (
	KindPacket   Kind = 1 // edge to centre: part of a frame
	KindQuestion Kind = 2 // edge to centre: how far is my log?
	KindMark     Kind = 3 // centre to edge: this far
	KindRoster   Kind = 4 // centre to all edges: an account, key or credential
	KindBeat     Kind = 5 // centre to all edges: it is alive
	KindFind     Kind = 6 // edge to another node: do you have this exchange?
	KindFound    Kind = 7 // reply to KindFind: part of a frame

	KindReasoning Kind = 8 // edge to all others: a model's reasoning state

	KindLeaseRequest Kind = 9  // edge to centre: usage of limits, and need for more
	KindLeases       Kind = 10 // reply to KindLeaseRequest

	KindSurvey Kind = 11 // to all nodes: what is your state?
	KindNode   Kind = 12 // reply to KindSurvey

	KindErasedQuestion Kind = 13 // edge to centre: erasures carried out so far; which are next?
	KindErased         Kind = 14 // reply to KindErasedQuestion
)

// Key signs messages between the nodes of a cluster.
type Key struct{ signing [32]byte }

// KeySize is the size of a cluster's key in bytes.
const KeySize = 32

// NewKey returns the key for a cluster's secret of [KeySize] bytes.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != KeySize {
		return nil, fmt.Errorf("the key of a cluster has %d bytes, this one has %d", KeySize, len(secret))
	}
	k := new(Key)
	blake3.DeriveKey("mneme 2026 signing of messages between nodes", secret, k.signing[:])
	return k, nil
}

func (k *Key) sign(message []byte) (signature [signatureSize]byte) {
	h, _ := blake3.NewKeyed(k.signing[:]) // only fails for other lengths
	_, _ = h.Write(message)
	h.Sum(signature[:0])
	return signature
}

// Seal signs a body and returns the message.
func (k *Key) Seal(kind Kind, body []byte) []byte {
	message := make([]byte, 0, prefixSize+len(body)+signatureSize)
	message = append(append(message, magic...), version, byte(kind))
	message = append(message, body...)
	signature := k.sign(message)
	return append(message, signature[:]...)
}

// Open returns the body of a message of that kind, which points into it; otherwise [ErrVersion] or [ErrForged].
func (k *Key) Open(kind Kind, message []byte) (body []byte, err error) {
	if len(message) < prefixSize+signatureSize || string(message[:len(magic)]) != magic {
		return nil, ErrForged
	}
	if message[len(magic)] != version {
		return nil, ErrVersion
	}
	signed, given := message[:len(message)-signatureSize], message[len(message)-signatureSize:]
	expected := k.sign(signed)
	if subtle.ConstantTimeCompare(expected[:], given) != 1 || Kind(message[prefixSize-1]) != kind {
		return nil, ErrForged
	}
	return signed[prefixSize:], nil
}
