package blob

import (
	"encoding/binary"
	"errors"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Version is the first byte of skeletons and nodes.
const Version = 1

// A piece is one byte for its kind, and its arguments. Numbers are unsigned varints.
const (
	pieceLiteral    = 0 // length, bytes
	pieceBlock      = 1 // hash: the bytes of a block
	pieceCommaBlock = 2 // hash: a comma and the bytes of a block
	pieceNode       = 3 // hash: the bytes of a node's whole sequence
)

// pieces reads a list of pieces. Literal and rest point into the list.
type pieces struct {
	rest    []byte
	kind    byte
	literal []byte
	hash    kv.Hash
	err     error
}

var errPieces = errors.New("malformed list of pieces")

// next reads the next piece. A malformed list ends with one piece with err set.
func (p *pieces) next() bool {
	if p.err != nil || len(p.rest) == 0 {
		return false
	}
	p.kind = p.rest[0]
	p.rest = p.rest[1:]
	switch p.kind {
	case pieceLiteral:
		n, width := binary.Uvarint(p.rest)
		if width <= 0 || n > uint64(len(p.rest)-width) {
			p.err = errPieces
			return true
		}
		p.literal, p.rest = p.rest[width:width+int(n)], p.rest[width+int(n):]
	case pieceBlock, pieceCommaBlock, pieceNode:
		if len(p.rest) < len(p.hash) {
			p.err = errPieces
			return true
		}
		p.hash, p.rest = kv.Hash(p.rest[:len(p.hash)]), p.rest[len(p.hash):]
	default:
		p.err = errPieces
	}
	return true
}

// References appends the objects that a skeleton, a node, or a block of pieces refers to: a list of pieces after one
// byte.
func References(dst []kv.ObjectRef, account kv.AccountNumber, value []byte) ([]kv.ObjectRef, error) {
	value, err := PlainSkeleton(value)
	if err != nil || len(value) == 0 {
		return dst, errPieces
	}
	p := pieces{rest: value[1:]}
	for p.next() {
		switch {
		case p.err != nil:
			return dst, p.err
		case p.kind == pieceNode:
			dst = append(dst, kv.Node(account, p.hash))
		case p.kind != pieceLiteral:
			dst = append(dst, kv.Block(account, p.hash))
		}
	}
	return dst, nil
}

// ReferencesOf appends the objects that a stored node or block refers to. Most blocks refer to none.
func ReferencesOf(dst []kv.ObjectRef, ref kv.ObjectRef, value []byte) ([]kv.ObjectRef, error) {
	if ref.Space == kv.SpaceBlock && !isPieces(value) {
		return dst, nil
	}
	return References(dst, ref.Account, value)
}

// IsSkeleton reports whether value is a readable skeleton or node: they look alike.
func IsSkeleton(value []byte) bool {
	_, err := References(nil, 0, value)
	return err == nil && value[0] == Version
}

func isPieces(value []byte) bool { return len(value) > 0 && value[0] == encodingPieces }
