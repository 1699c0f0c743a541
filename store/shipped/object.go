package shipped

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// ObjectRef identifies a block or node of an account.
type ObjectRef = kv.ObjectRef

// Objects are blocks and nodes in their stored form.
type Objects map[ObjectRef][]byte

// Use passes a value to read.
func (o Objects) Use(ref ObjectRef, read func(value []byte) error) error {
	value, err := o.get(ref)
	if err != nil {
		return err
	}
	return read(value)
}

func (o Objects) get(ref kv.ObjectRef) ([]byte, error) {
	value, ok := o[ref]
	if !ok {
		return nil, badger.ErrKeyNotFound
	}
	return value, nil
}

// ObjectsOf returns the blocks and nodes of an entry.
func ObjectsOf(account record.AccountNumber, e *ship.Entry) Objects {
	own := make(Objects, len(e.Objects))
	for i := range e.Objects {
		o := &e.Objects[i]
		ref := kv.Block(account, o.Hash)
		if o.Node {
			ref.Space = kv.SpaceNode
		}
		own[ref] = o.Value
	}
	return own
}

// Named appends the references in a skeleton, a node, or a block; it returns an error for anything else.
func Named(dst []ObjectRef, ref ObjectRef, value []byte) ([]ObjectRef, error) {
	return blob.ReferencesOf(dst, ref, value)
}

// Skeleton returns the reference under which [Named] reads the skeleton of a request.
func Skeleton(account record.AccountNumber) ObjectRef { return kv.Node(account, kv.Hash{}) }

// IsNode reports whether an object is a node, not a block.
func IsNode(ref ObjectRef) bool { return ref.Space == kv.SpaceNode }
