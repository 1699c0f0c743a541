package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
)

// Maintenance of the whole store is for the operator only, because it covers every account.

func requireOperator(c caller) error {
	if c.isOperator() {
		return nil
	}
	return codec.Errorf(codec.KindPermission, "this affects the whole store: run it with mneme on the server")
}

// operatorOnly serves streamed answers. serve may return an error only before the first byte.
func operatorOnly(identify func(*http.Request) (caller, error), log *slog.Logger, serve func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := identify(r)
		if err == nil {
			err = requireOperator(c)
		}
		if err == nil {
			err = serve(w, r)
		}
		if err != nil {
			writeError(w, log, err)
		}
	})
}

func (e endpoints) compact(c caller, r *http.Request) (any, error) {
	if err := requireOperator(c); err != nil {
		return nil, err
	}
	return nil, e.engine.Upkeep.Compact(r.Context())
}

func (e endpoints) rotateMasterKey(c caller, _ *http.Request) (any, error) {
	if err := requireOperator(c); err != nil {
		return nil, err
	}
	return nil, e.engine.Upkeep.RotateMasterKey()
}

func (e endpoints) check(w http.ResponseWriter, r *http.Request) error {
	repair, err := strconv.ParseBool(r.URL.Query().Get("repair"))
	if err != nil {
		return codec.Invalid("repair", "repair is true or false")
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := json.NewEncoder(w)
	report, err := e.engine.Upkeep.Check(r.Context(), repair, func(f store.Finding) { _ = lines.Encode(api.CheckLine{Finding: &f}) })
	if err != nil {
		panic(http.ErrAbortHandler) // the missing report shows that the check is incomplete
	}
	_ = lines.Encode(api.CheckLine{Report: &report})
	return nil
}

func (e endpoints) backup(w http.ResponseWriter, r *http.Request) error {
	since, err := strconv.ParseUint(r.URL.Query().Get("since"), 10, 64)
	if err != nil {
		return codec.Invalid("since", "since is the mark of a backup, or 0")
	}
	return e.engine.AuditLog.Audited(store.AuditEntry{Actor: store.Operator, Action: "backup.take"}, func(*store.AuditEntry) error {
		w.Header().Set("Content-Type", "application/octet-stream")
		if _, err := e.engine.Upkeep.Backup(r.Context(), w, since); err != nil {
			panic(http.ErrAbortHandler) // a backup without its end must not look complete
		}
		return nil
	})
}
