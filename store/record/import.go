package record

import (
	"time"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Exported is one element of an export: a session with its summary by a model, or an exchange with its bytes. The
// session of an exchange comes before it.
type Exported struct {
	Session  *Session
	Summary  *SessionSummary // of Session; nil: there is none, or it may describe exchanges that are not exported
	Exchange *Exchange
	Damaged  *Damaged
}

// Damaged takes the place of an unreadable session or exchange in an export.
type Damaged struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

// DerivedExchangeID returns the id of an exchange from elsewhere that began at t and that names identify. It is the
// same each time.
func DerivedExchangeID(t time.Time, names ...string) string {
	return kv.ExchangeID(kv.DerivedID(t, names)).String()
}

// DerivedSessionID is [DerivedExchangeID] for a session.
func DerivedSessionID(t time.Time, names ...string) string {
	return kv.SessionID(kv.DerivedID(t, names)).String()
}

// Disown takes what an imported exchange says of keys and money here.
func (x *ExchangeInfo) Disown() {
	if x.KeyID != "" {
		x.KeyID = ImportedKey
	}
	if x.Cost != nil && !x.Cost.Notional {
		cost := *x.Cost
		cost.Notional = true
		x.Cost = &cost
	}
}

// FromHistory reports whether the exchange was imported from the history of a client, which does not say who answered.
func (x *ExchangeInfo) FromHistory() bool {
	return !x.Imported.IsZero() && x.Provider == "" && x.NativeSession != ""
}
