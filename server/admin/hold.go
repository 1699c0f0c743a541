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

// A program that is given a key of its own has it held by the process that started it. The key is then valid for as long as the
// holder's connection to the server is open, and is revoked when that closes, as it does however the holder ends. It has
// an expiry besides, for a server that ends first: the holder comes back to the next one.

// HeldKeyLasts is for how long a key that is held stays valid when the server ends, and heldKeyRenewed how often that is
// counted again.
const (
	HeldKeyLasts   = time.Hour
	heldKeyRenewed = HeldKeyLasts / 4
)

// holdAgain is how long a holder waits before it looks for a server that went away.
const holdAgain = 250 * time.Millisecond

// Hold holds a key until ctx is done, over any number of servers, or until it is revoked. Then the key is revoked,
// unless ctx ended while there was no server.
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

// hold answers at once, and the answer lasts for as long as the key is held.
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
	_ = http.NewResponseController(w).Flush() // a holder that is gone by now ends the context
	renewal := time.NewTicker(heldKeyRenewed)
	defer renewal.Stop()
	for {
		select {
		case <-renewal.C:
			_ = e.putOffExpiry(id) // while the disk is full, it is valid for being held
		case <-closing(r):
			return e.putOffExpiry(id)
		case <-r.Context().Done():
			if isClosed(closing(r)) {
				return e.putOffExpiry(id)
			}
			e.letGo(id)
			return nil
		}
	}
}

func (e endpoints) putOffExpiry(id string) error {
	_, err := e.engine.Keys.Update(id, func(k *store.Key) { k.Expires = time.Now().Add(HeldKeyLasts) })
	return err
}

// letGo revokes a key that nobody holds any more. What cannot be revoked expires.
func (e endpoints) letGo(id string) {
	key, found := e.key(id)
	if !found || !key.Revoked.IsZero() {
		return
	}
	entry := store.AuditEntry{Actor: store.Operator, Action: acts["DELETE /keys/{id}"].name, Account: key.Account, Subject: id}
	_ = e.engine.AuditLog.Audited(entry, func(*store.AuditEntry) error { return e.engine.Keys.Revoke(id) })
}
