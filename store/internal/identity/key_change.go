package identity

import (
	"cmp"
	"context"
	"crypto/sha256"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Update changes a key's label, expiry, limits, models, recall and trust in traces. Other changes by set are ignored.
func (s Keys) Update(id string, set func(*Key)) (Key, error) {
	return s.keys.changeKey(id, func(k *keyRecord) error {
		if !k.Revoked.IsZero() {
			return codec.Errorf(codec.KindConflict, "key %q was revoked, and a revoked key cannot be changed", id)
		}
		return k.set(set)
	})
}

// Revoke makes a service key permanently invalid at once. Revoking it again changes nothing.
func (s Keys) Revoke(id string) error {
	_, err := s.keys.changeKey(id, func(k *keyRecord) error {
		if k.Revoked.IsZero() {
			k.Revoked = s.keys.now().UTC()
		}
		return nil
	})
	return err
}

// Rotate creates a key like the one with the id, which stays valid for overlap, or until its own expiry if that is
// earlier. The month's used tokens are carried over. The secret is returned only this once.
func (s Keys) Rotate(id string, overlap time.Duration) (secret string, fresh Key, err error) {
	if overlap < 0 {
		return "", Key{}, codec.Invalid("overlap", "an overlap is 0 or more")
	}
	secret = newSecret()
	hash := sha256.Sum256([]byte(secret))
	now := s.keys.now().UTC()
	var next keyRecord
	err = s.keys.alter(func() ([]keyRecord, error) {
		old, err := s.keys.changeable(id)
		if err != nil {
			return nil, err
		}
		if !old.valid(now) {
			return nil, codec.Errorf(codec.KindConflict, "key %q is no longer valid; make a new one with: mneme key create", id)
		}
		if err := old.checkRecall(); err != nil {
			return nil, err
		}
		next = old
		next.Hash, next.ID, next.Created, next.Replaces = hash[:], newKeyID(), now, old.ID
		next.Origin = cmp.Or(old.Origin, old.ID)
		next.use = newKeyUse(useRecord{Month: now.Format(monthFormat), Tokens: old.use.Tokens(now)})
		next.use.changed.Store(true)
		if end := now.Add(overlap); old.Expires.IsZero() || end.Before(old.Expires) {
			old.Expires = end
		}
		return []keyRecord{next, old}, nil
	})
	if err != nil {
		return "", Key{}, err
	}
	if followed, _ := s.keys.changeable(next.ID); followed.use != nil && followed.use != next.use {
		followed.use.AddTokens(now, next.use.Tokens(now)) // a shared key has no use yet
	}
	return secret, next.shown(), nil
}

// alter stores the keys that change returns, together, and then makes them effective. It may call change again.
func (t *KeyTable) alter(change func() ([]keyRecord, error)) error {
	if err := t.accounts.terms.own(); err != nil {
		return err
	}
	if shared := t.accounts.terms.shared.Load(); shared != nil {
		return shared.change(context.Background(), func() ([]RosterChange, error) {
			keys, err := change()
			if err != nil {
				return nil, err
			}
			return shared.keys(keys)
		})
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	keys, err := change()
	if err != nil {
		return err
	}
	return t.putKeys(keys...)
}

// changeKey changes one key: first durably, then in effect.
func (t *KeyTable) changeKey(id string, change func(*keyRecord) error) (Key, error) {
	var k keyRecord
	err := t.alter(func() (_ []keyRecord, err error) {
		if k, err = t.changeable(id); err != nil {
			return nil, err
		}
		if err := change(&k); err != nil {
			return nil, err
		}
		return []keyRecord{k}, nil
	})
	if err != nil {
		return Key{}, err
	}
	return k.shown(), nil
}

func (t *KeyTable) changeable(id string) (keyRecord, error) {
	t.mu.RLock()
	k, ok := t.byID[id]
	t.mu.RUnlock()
	switch {
	case !ok:
		return k, codec.Errorf(codec.KindNotFound, "no key %q", id)
	case id == keyIDPrefix+staticKeyLabel:
		return k, codec.Errorf(codec.KindConflict, "this key comes from the environment: change or remove MNEME_API_KEY and restart")
	}
	return k, nil
}

// putKeys stores keys together, then makes them effective.
func (t *KeyTable) putKeys(keys ...keyRecord) error {
	err := t.db.Update(context.Background(), func(tx kv.Txn) error {
		for _, k := range keys {
			value, err := kv.EncodeRecord(k)
			if err != nil {
				return err
			}
			tx.Put(kv.NameKey(kv.SpaceKey, k.ID), value)
		}
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "the key could not be stored")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		t.put(k)
	}
	return nil
}

// named returns the identity of a key that permits nothing.
func (k *keyRecord) named() Identity {
	return Identity{Account: k.Account, KeyID: k.ID, Label: k.Label}
}

// valid reports whether the key is valid at a time.
func (k *keyRecord) valid(now time.Time) bool {
	return k.Revoked.IsZero() && (k.Expires.IsZero() || now.Before(k.Expires) || k.use.holders.Load() > 0)
}

// set applies the allowed changes to a key.
func (k *Key) set(change func(*Key)) error {
	asked := *k
	change(&asked)
	if len(asked.Label) > maxLabel {
		return codec.Invalid("label", "a label has at most %d characters", maxLabel)
	}
	if err := asked.Models.check(); err != nil {
		return err
	}
	if _, err := parseKeyRecall(string(asked.Recall)); err != nil {
		return err
	}
	if err := asked.checkRecall(); err != nil {
		return err
	}
	k.Label, k.Expires, k.Limits, k.Models = asked.Label, asked.Expires.UTC(), asked.Limits, asked.Models
	k.Recall, k.TrustTrace = asked.Recall, asked.TrustTrace
	return k.Limits.check()
}

// shown returns the key with its use, as lists show it.
func (k *keyRecord) shown() Key {
	shown := k.Key
	r := k.use.record()
	shown.LastUsed = r.LastUsed
	if !r.LastUsed.IsZero() && r.LastUsed.Before(k.Created) { // in the minute of its creation, which began earlier
		shown.LastUsed = k.Created
	}
	shown.Month, shown.MonthTokens = r.Month, r.Tokens
	return shown
}

// Origin returns the first key of a chain of rotations, or the key itself. All keys of a chain share one budget.
func (s Keys) Origin(key string) string {
	s.keys.mu.RLock()
	defer s.keys.mu.RUnlock()
	if k, ok := s.keys.byID[key]; ok && k.Origin != "" {
		return k.Origin
	}
	return key
}
