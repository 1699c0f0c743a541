package admin

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// A program with a key of its own has it held by the process that started it. The key is valid while the holder's
// connection to the server is open, and is revoked when that closes, however the holder ends. It also has an expiry, in
// case the server ends first: the holder then reconnects to the next one.

// HeldKeyLasts is how long a held key stays valid after the server ends, and heldKeyRenewed is how often its expiry is
// extended.
const (
	HeldKeyLasts   = time.Hour
	heldKeyRenewed = HeldKeyLasts / 4
)

// holdAgain is how long a holder waits before it looks for a lost server again.
const holdAgain = 250 * time.Millisecond

// Hold holds a key until ctx is done or the key is revoked, across server restarts. Then the key is revoked, unless
// there was no server when ctx ended.
func (c KeyClient) Hold(ctx context.Context, id string) {
	for ctx.Err() == nil {
		held, err := c.open(ctx, http.MethodPost, "/keys/"+id+"/hold", nil)
		if err == nil {
			_, _ = io.Copy(io.Discard, held) // returns when the server ends, or ctx
			_ = held.Close()
		}
		var refused *codec.Error
		if errors.As(err, &refused) && (refused.Kind == codec.KindConflict || refused.Kind == codec.KindNotFound) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(holdAgain):
		}
	}
}

// hold answers at once, and its answer lasts as long as the key is held.
func (e endpoints) hold(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	release, err := e.engine.Keys.Hold(id)
	if err != nil {
		return err
	}
	defer release()
	if err := e.putOffExpiry(id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(w).Flush() // if the holder is already gone, the context ends
	renewal := time.NewTicker(heldKeyRenewed)
	defer renewal.Stop()
	for {
		select {
		case <-renewal.C:
			_ = e.putOffExpiry(id) // while the disk is full, being held keeps it valid
		case <-closing(r):
			return e.putOffExpiry(id)
		case <-r.Context().Done():
			if isClosed(closing(r)) {
				return e.putOffExpiry(id)
			}
			e.revokeHeld(id)
			return nil
		}
	}
}

func (e endpoints) putOffExpiry(id string) error {
	_, err := e.engine.Keys.Update(id, func(k *store.Key) { k.Expires = time.Now().Add(HeldKeyLasts) })
	return err
}

// revokeHeld revokes a key that is no longer held. If that fails, the key expires.
func (e endpoints) revokeHeld(id string) {
	key, found := e.key(id)
	if !found || !key.Revoked.IsZero() {
		return
	}
	entry := store.AuditEntry{Actor: store.Operator, Action: acts["DELETE /keys/{id}"].name, Account: key.Account, Subject: id}
	_ = e.engine.AuditLog.Audited(entry, func(*store.AuditEntry) error { return e.engine.Keys.Revoke(id) })
}
