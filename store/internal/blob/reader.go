package blob

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Source has the blocks and nodes of bodies.
type Source interface {
	// Use passes a value to read, which must neither keep nor change it.
	Use(ref kv.ObjectRef, read func(value []byte) error) error
}

// Stored is the stored objects in a transaction.
type Stored struct{ Tx *badger.Txn }

// Use passes a value to read; it returns [badger.ErrKeyNotFound] if there is none.
func (s Stored) Use(ref kv.ObjectRef, read func(value []byte) error) error {
	item, err := s.Tx.Get(ref.Key())
	if err != nil {
		return err
	}
	return item.Value(read)
}

// Reader assembles bodies.
type Reader struct {
	From    Source
	Account kv.AccountNumber
	Limit   int // the largest body, in bytes
}

var (
	errTooLong = errors.New("the pieces have more bytes than the record says")
	errVersion = errors.New("skeleton of an unknown version")
)

// AppendBody appends the body that a skeleton describes.
func (r *Reader) AppendBody(dst, skeleton []byte) ([]byte, error) {
	list, err := piecesOf(skeleton)
	if err != nil {
		return nil, err
	}
	return r.appendPieces(dst, list, inSkeleton)
}

// depth is the kind of a list of pieces, which decides what it may refer to.
type depth int

const (
	inBlock    depth = iota // only blocks that are not lists themselves
	inNode                  // any block
	inSkeleton              // any block, and nodes
)

// AppendBlocks appends the bytes of blocks, one after the other.
func (r *Reader) AppendBlocks(dst []byte, blocks []kv.Hash) (_ []byte, err error) {
	for _, h := range blocks {
		if dst, err = r.appendBlock(dst, h, inSkeleton); err != nil {
			return nil, err
		}
		if len(dst) > r.Limit {
			return nil, errTooLong
		}
	}
	return dst, nil
}

func (r *Reader) appendPieces(dst, list []byte, at depth) (_ []byte, err error) {
	for p := (pieces{rest: list}); p.next(); {
		switch {
		case p.err != nil:
			return nil, p.err
		case p.kind == pieceLiteral:
			dst = append(dst, p.literal...)
		case p.kind != pieceNode:
			if p.kind == pieceCommaBlock {
				dst = append(dst, ',')
			}
			dst, err = r.appendBlock(dst, p.hash, at)
		case at == inSkeleton:
			dst, err = r.appendNode(dst, p.hash)
		default:
			err = errors.New("a node where only blocks may stand")
		}
		if err != nil {
			return nil, err
		}
		if len(dst) > r.Limit {
			return nil, errTooLong
		}
	}
	return dst, nil
}

// appendNode appends the whole sequence of a node: it walks to the front, then reads toward the end.
func (r *Reader) appendNode(dst []byte, h kv.Hash) ([]byte, error) {
	var lists [][]byte
	for more := true; more; {
		if len(lists) > r.Limit { // each node stands for at least one byte
			return nil, errTooLong
		}
		list, err := r.node(h)
		if err != nil {
			return nil, err
		}
		p := pieces{rest: list}
		if more = p.next() && p.kind == pieceNode; more {
			h, list = p.hash, p.rest
		}
		lists = append(lists, list)
	}
	for i := len(lists) - 1; i >= 0; i-- {
		var err error
		if dst, err = r.appendPieces(dst, lists[i], inNode); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// node returns the pieces of a node.
func (r *Reader) node(h kv.Hash) (list []byte, err error) {
	var value []byte
	err = r.From.Use(kv.Node(r.Account, h), func(v []byte) error {
		value = bytes.Clone(v)
		return nil
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("node %x: %w", h, err)
	case len(value) == 0 || value[0] != Version:
		return nil, fmt.Errorf("node %x: unknown version", h)
	}
	return value[1:], nil
}

// appendBlock appends the bytes of a block and checks them against its hash.
func (r *Reader) appendBlock(dst []byte, h kv.Hash, at depth) ([]byte, error) {
	start := len(dst)
	err := r.From.Use(kv.Block(r.Account, h), func(value []byte) (err error) {
		if at != inBlock && len(value) > 0 && value[0] == encodingPieces {
			dst, err = r.appendPieces(dst, value[1:], inBlock)
		} else {
			dst, err = AppendDecoded(dst, value)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("block %x: %w", h, err)
	}
	if kv.Hash(blake3.Sum256(dst[start:])) != h {
		return nil, fmt.Errorf("block %x is damaged: its bytes have another hash", h)
	}
	return dst, nil
}
