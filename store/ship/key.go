package ship

import (
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/zeebo/blake3"
)

// Errors of [Key.Open]. Which of them it is goes into counts and logs; none of what is refused is believed.
var (
	ErrVersion = errors.New("it is of another version")
	ErrForged  = errors.New("it is not signed with the key of this cluster, or is truncated")
)

// version is that of everything that nodes send each other. A node opens its own version alone.
const version = 1

// magic is how every message begins. Version and signature follow at known places whatever the version.
const magic = "mnsp"

const (
	prefixSize    = len(magic) + 2 // magic, version, kind
	signatureSize = 32
)

// A Kind keeps messages of one use from being taken for another's.
type Kind byte

// Kinds of messages.
const (
	KindPacket   Kind = 1 // an edge to the centre: part of a frame
	KindQuestion Kind = 2 // an edge to the centre: how far is my log?
	KindMark     Kind = 3 // the centre to an edge: so far
	KindRoster   Kind = 4 // the centre to all edges: an account, key or credential
	KindBeat     Kind = 5 // the centre to all edges: it is there
	KindFind     Kind = 6 // an edge to another node: do you have this?
	KindFound    Kind = 7 // the reply to it: part of a frame

	KindReasoning Kind = 8 // an edge to all others: the state of a model's reasoning

	KindLeaseRequest Kind = 9  // an edge to the centre: I have used so much of limits, and need more
	KindLeases       Kind = 10 // the reply to it

	KindSurvey Kind = 11 // to all nodes: how are you?
	KindNode   Kind = 12 // the reply to it

	KindErasedQuestion Kind = 13 // an edge to the centre: I have carried out so many erasures; which are next?
	KindErased         Kind = 14 // the reply to it
)

// Key signs messages between the nodes of a cluster.
type Key struct{ signing [32]byte }

// KeySize is how many bytes a cluster's key has.
const KeySize = 32

// NewKey gives the key for a cluster's secret, of [KeySize] bytes.
func NewKey(secret []byte) (*Key, error) {
	if len(secret) != KeySize {
		return nil, fmt.Errorf("the key of a cluster has %d bytes, this one has %d", KeySize, len(secret))
	}
	k := new(Key)
	blake3.DeriveKey("mneme 2026 signing of messages between nodes", secret, k.signing[:])
	return k, nil
}

func (k *Key) sign(message []byte) (signature [signatureSize]byte) {
	h, _ := blake3.NewKeyed(k.signing[:]) // fails for other lengths alone
	_, _ = h.Write(message)
	h.Sum(signature[:0])
	return signature
}

// Seal makes a message of a body.
func (k *Key) Seal(kind Kind, body []byte) []byte {
	message := make([]byte, 0, prefixSize+len(body)+signatureSize)
	message = append(append(message, magic...), version, byte(kind))
	message = append(message, body...)
	signature := k.sign(message)
	return append(message, signature[:]...)
}

// Open gives the body of a message of that kind, which points into it; else [ErrVersion] or [ErrForged].
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
