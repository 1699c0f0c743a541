package identity

import (
	"sync"

	"github.com/mnemeproxy/mneme/codec"
)

// Hold keeps a key valid beyond its expiry, unless it is revoked, until release is called. It also covers times in
// which the expiry cannot be extended, such as the sleep of this machine. It ends with the store.
func (s Keys) Hold(id string) (release func(), err error) {
	k, err := s.keys.changeable(id)
	if err != nil {
		return nil, err
	}
	if !k.Revoked.IsZero() {
		return nil, codec.Errorf(codec.KindConflict, "key %q was revoked, and a revoked key cannot be held", id)
	}
	k.use.holders.Add(1)
	return sync.OnceFunc(func() { k.use.holders.Add(-1) }), nil
}
