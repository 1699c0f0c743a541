package identity

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// AuditEntry is one act of administration.
type AuditEntry struct {
	ID      string          `json:"id"`
	Time    time.Time       `json:"time"`
	Actor   string          `json:"actor"`             // id of the key used, or [Operator]
	Action  string          `json:"action"`            // noun and verb, "key.create"
	Account string          `json:"account,omitempty"` // the account concerned; "" for all, or none
	Subject string          `json:"subject,omitempty"` // id or name of the object
	Asked   json.RawMessage `json:"asked,omitempty"`   // the request, if it holds no secret
	Outcome AuditOutcome    `json:"outcome"`
	Reason  string          `json:"reason,omitempty"` // kind of the error of a refusal
}

// Operator is the actor of acts on the machine itself, over the socket in the data directory or on the store.
const Operator = "operator"

// AuditOutcome is the result of an act.
type AuditOutcome string

// Results of acts. An act that the process did not outlive stays begun: it may have been done.
const (
	AuditBegun   AuditOutcome = "begun"
	AuditDone    AuditOutcome = "done"
	AuditRefused AuditOutcome = "refused"
)

const (
	auditPrefix = "audt_"
	auditAge    = 2 * 365 * 24 * time.Hour // the default for keeping entries
	maxAudit    = 100_000                  // entries kept; account administrators could add any number
	maxAsked    = 4 << 10                  // bytes of Asked; longer ones are left out
)

// AuditLog is the audit record.
type AuditLog struct {
	db     kv.DB
	log    *slog.Logger
	age    time.Duration
	ids    kv.IDSource
	shared atomic.Pointer[sharedAudit] // nil: the entries are in this store
}

type sharedAudit struct{ Authority }

// Share has all entries written to an authority, and read there. nil ends that.
func (s *AuditLog) Share(a Authority) {
	if a == nil {
		s.shared.Store(nil)
		return
	}
	s.shared.Store(&sharedAudit{a})
}

// NewAuditLog returns a log that keeps entries for age; 0: two years.
func NewAuditLog(db kv.DB, age time.Duration, log *slog.Logger) *AuditLog {
	if age <= 0 {
		age = auditAge
	}
	return &AuditLog{db: db, log: log, age: age}
}

// Audited performs an administrative act and records it: once before it is done, so that nothing is done unrecorded,
// and then with its result. The act may complete the entry's account and subject.
func (s *AuditLog) Audited(e AuditEntry, act func(*AuditEntry) error) error {
	id := s.ids.Next(time.Now())
	e.ID, e.Time, e.Outcome = id.Text(auditPrefix), time.Now().UTC(), AuditBegun
	if len(e.Asked) > maxAsked {
		e.Asked = nil
	}
	if err := s.putAudit(id, &e); err != nil {
		return kv.AsStorageError(err, "the audit record cannot be kept, and without it nothing is done")
	}
	err := act(&e)
	e.Outcome = AuditDone
	if err != nil {
		e.Outcome, e.Reason = AuditRefused, codec.KindInternal.String()
		if known := (*codec.Error)(nil); errors.As(err, &known) {
			e.Reason = known.Kind.String()
		}
	}
	if failed := s.putAudit(id, &e); failed != nil {
		s.log.Error("what became of an act of administration could not be kept", "entry", e.ID, "action", e.Action, "outcome", e.Outcome, "error", failed)
	}
	return err
}

func auditKey(id kv.TimeID) []byte { return append([]byte{kv.SpaceAudit}, id[:]...) }

func (s *AuditLog) putAudit(id kv.TimeID, e *AuditEntry) error {
	value, err := kv.EncodeRecord(e)
	if err != nil {
		return err
	}
	if shared := s.shared.Load(); shared != nil {
		return shared.PutAudit(context.Background(), id.Text(auditPrefix), e.Account, value)
	}
	return s.db.Update(context.Background(), func(tx kv.Txn) error {
		tx.Put(auditKey(id), value)
		return nil
	})
}

// page is Audit where the entries are shared.
func (s *sharedAudit) page(q AuditQuery, limit int) (page AuditPage, err error) {
	entries, err := s.Audits(context.Background(), q.Account, q.After, limit+1)
	if err != nil {
		return page, err
	}
	page = AuditPage{Data: []AuditEntry{}, HasMore: len(entries) > limit}
	for _, value := range entries[:min(limit, len(entries))] {
		var e AuditEntry
		if err := kv.DecodeRecord(value, &e); err != nil {
			return page, kv.StorageError(err, "the audit record cannot be read")
		}
		page.Data = append(page.Data, e)
	}
	return page, nil
}

// AuditQuery asks for entries, newest first.
type AuditQuery struct {
	Account string // only entries about this account; "": all
	After   string // only entries older than the one with this id; the last id of the previous page
	Limit   int    // 1 to 1000; 0: 20
}

// AuditPage is an answer to an [AuditQuery].
type AuditPage struct {
	Data    []AuditEntry
	HasMore bool
}

// Audit lists acts of administration.
func (s *AuditLog) Audit(q AuditQuery) (AuditPage, error) {
	w, err := kv.NewWindow(q.After, "", q.Limit, false, auditPrefix)
	if err != nil {
		return AuditPage{}, err
	}
	if shared := s.shared.Load(); shared != nil {
		return shared.page(q, w.Limit)
	}
	page, failed := AuditPage{Data: []AuditEntry{}}, error(nil)
	err = s.db.View(func(tx *badger.Txn) error {
		w.Walk(tx, []byte{kv.SpaceAudit}, func(_ kv.TimeID, item *badger.Item) bool {
			var e AuditEntry
			if failed = item.Value(func(value []byte) error { return kv.DecodeRecord(value, &e) }); failed != nil {
				return false
			}
			if q.Account != "" && e.Account != q.Account {
				return true
			}
			if page.HasMore = len(page.Data) == w.Limit; !page.HasMore {
				page.Data = append(page.Data, e)
			}
			return !page.HasMore
		})
		return failed
	})
	if err != nil {
		return AuditPage{}, kv.StorageError(err, "the audit record cannot be read; run mneme check")
	}
	return page, nil
}

// Expire deletes entries that are too old or too many.
func (s *AuditLog) Expire(ctx context.Context, now time.Time) error {
	oldest := kv.TimeIDAt(now.Add(-s.age))
	if shared := s.shared.Load(); shared != nil {
		return shared.ExpireAudits(ctx, oldest.Text(auditPrefix), maxAudit)
	}
	var gone [][]byte
	kept := 0
	w, err := kv.NewWindow("", "", 0, false, "")
	if err != nil {
		return err
	}
	err = s.db.View(func(tx *badger.Txn) error {
		w.Walk(tx, []byte{kv.SpaceAudit}, func(id kv.TimeID, _ *badger.Item) bool {
			if kept++; kept > maxAudit || string(id[:]) < string(oldest[:]) {
				gone = append(gone, auditKey(id))
			}
			return ctx.Err() == nil
		})
		return ctx.Err()
	})
	if err != nil || len(gone) == 0 {
		return err
	}
	return s.db.Update(ctx, func(tx kv.Txn) error {
		for _, key := range gone {
			tx.Put(key, nil)
		}
		return nil
	})
}
