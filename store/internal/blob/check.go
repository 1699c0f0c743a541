package blob

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Checker checks that the objects of an account match their keys, and computes how many bytes they stand for: call it
// with each block, then with each node, then with skeletons.
type Checker struct {
	tx      *badger.Txn
	account kv.AccountNumber
	find    func(subject, problem string)

	sizes map[kv.ObjectRef]int64 // bytes that blocks and nodes stand for; -1: unavailable
	used  map[kv.ObjectRef]struct{}
}

// NewChecker returns a checker that reports faults to find.
func NewChecker(tx *badger.Txn, account kv.AccountNumber, find func(subject, problem string)) *Checker {
	return &Checker{tx: tx, account: account, find: find, sizes: make(map[kv.ObjectRef]int64), used: make(map[kv.ObjectRef]struct{})}
}

// Unreferenced returns how many of the checked objects nothing refers to.
func (c *Checker) Unreferenced() int64 { return int64(len(c.sizes) - len(c.used)) }

// Block checks one block.
func (c *Checker) Block(item *badger.Item) error {
	ref, ok := kv.SplitObjectKey(item.Key())
	if !ok {
		c.find("block", fmt.Sprintf("malformed key %x", item.Key()))
		return nil
	}
	c.sizes[ref] = -1
	r := Reader{From: Stored{c.tx}, Account: c.account, Limit: MaxDecoded}
	raw, err := r.appendBlock(nil, ref.Hash, inNode)
	if err != nil {
		c.find(fmt.Sprintf("block %x", ref.Hash), err.Error())
		return nil
	}
	c.sizes[ref] = int64(len(raw))
	if item.UserMeta() != markPieces {
		return nil
	}
	return item.Value(func(value []byte) error {
		named, err := References(nil, c.account, value)
		for _, inside := range named {
			c.used[inside] = struct{}{}
		}
		return err
	})
}

// Node checks one node and, before it, its predecessors.
func (c *Checker) Node(item *badger.Item) error {
	ref, ok := kv.SplitObjectKey(item.Key())
	if !ok {
		c.find("node", fmt.Sprintf("malformed key %x", item.Key()))
		return nil
	}
	c.measureNode(ref)
	return nil
}

// Skeleton returns the size of the body that a skeleton stands for.
func (c *Checker) Skeleton(skeleton []byte) (size int64, err error) {
	list, err := piecesOf(skeleton)
	if err != nil {
		return 0, err
	}
	return c.measure(list)
}

// measureNode returns the number of bytes a node stands for, -1 if unavailable. Chains are long: it walks to the first
// node of known size, and back.
func (c *Checker) measureNode(ref kv.ObjectRef) int64 {
	type step struct {
		ref  kv.ObjectRef
		list []byte
	}
	var (
		walk  []step
		total int64
		r     = Reader{From: Stored{c.tx}, Account: c.account}
	)
	for at := ref; ; {
		if size, done := c.sizes[at]; done {
			total = size
			break
		}
		list, err := r.node(at.Hash)
		if err != nil {
			c.find(fmt.Sprintf("node %x", at.Hash), err.Error())
			total = -1
			break
		}
		c.sizes[at] = -1 // ends the walk at a node that leads back to itself
		p := pieces{rest: list}
		if more := p.next() && p.err == nil && p.kind == pieceNode; !more {
			walk = append(walk, step{at, list})
			break
		}
		walk = append(walk, step{at, p.rest})
		at = kv.Node(c.account, p.hash)
		c.used[at] = struct{}{}
	}
	for i := len(walk) - 1; i >= 0; i-- {
		size, err := c.measure(walk[i].list)
		if err != nil {
			c.find(fmt.Sprintf("node %x", walk[i].ref.Hash), err.Error())
		}
		if total >= 0 && err == nil {
			total += size
		} else {
			total = -1
		}
		c.sizes[walk[i].ref] = total
	}
	return total
}

// measure returns the number of bytes that a list of pieces stands for, and marks what it refers to as used.
func (c *Checker) measure(list []byte) (total int64, err error) {
	p := pieces{rest: list}
	for p.next() {
		switch p.kind {
		case pieceLiteral:
			total += int64(len(p.literal))
			continue
		case pieceCommaBlock:
			total++
		}
		if p.err != nil {
			return 0, p.err
		}
		ref := kv.Block(c.account, p.hash)
		if p.kind == pieceNode {
			ref.Space = kv.SpaceNode
		}
		c.used[ref] = struct{}{}
		size, there := c.sizes[ref]
		if !there || size < 0 {
			return 0, fmt.Errorf("what it refers to is missing or damaged: %c %x", ref.Space, ref.Hash)
		}
		total += size
	}
	return total, p.err
}

var errDamaged = errors.New("the block is damaged: its bytes have another hash")

// CheckBlock checks that a block that is not stored yet matches its hash. look returns the values of blocks that it
// refers to; its error is passed on.
func CheckBlock(ref kv.ObjectRef, value []byte, look func(kv.ObjectRef) ([]byte, error)) error {
	raw, err := decodeBlock(value, ref.Account, look)
	if err == nil && kv.Hash(blake3.Sum256(raw)) != ref.Hash {
		err = errDamaged
	}
	return err
}

// decodeBlock returns the bytes of a block, including those of the blocks it refers to.
func decodeBlock(value []byte, account kv.AccountNumber, look func(kv.ObjectRef) ([]byte, error)) (raw []byte, err error) {
	if !isPieces(value) {
		return AppendDecoded(nil, value)
	}
	for p := (pieces{rest: value[1:]}); p.next(); {
		switch {
		case p.err != nil:
			return nil, p.err
		case p.kind == pieceLiteral:
			raw = append(raw, p.literal...)
			continue
		case p.kind == pieceNode:
			return nil, errPieces
		case p.kind == pieceCommaBlock:
			raw = append(raw, ',')
		}
		inner, err := look(kv.Block(account, p.hash))
		if err != nil {
			return nil, err
		}
		if raw, err = AppendDecoded(raw, inner); err != nil {
			return nil, err
		}
	}
	return raw, nil
}
