package api

import (
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Account is an account in a list.
type Account struct {
	Name        string    `json:"name"`
	Created     time.Time `json:"created"`
	Credentials []string  `json:"credentials"` // names of providers; never the secrets
	store.Budget
}

// NewAccount requests an account.
type NewAccount struct {
	Name string `json:"name"`
}

// Credential carries an account's own credential for a provider.
type Credential struct {
	Secret string `json:"secret"`
}

// BudgetChange changes those parts of a [store.Budget] that are not nil.
type BudgetChange struct {
	Day   *record.USD `json:"budget_usd_day,omitempty"`
	Month *record.USD `json:"budget_usd_month,omitempty"`
	Burst *record.USD `json:"budget_usd_burst,omitempty"`

	BurstMinutes *int64 `json:"burst_minutes,omitempty"`
}

// Apply makes the requested changes.
func (c BudgetChange) Apply(b *store.Budget) {
	set(&b.Day, c.Day)
	set(&b.Month, c.Month)
	set(&b.Burst, c.Burst)
	set(&b.BurstMinutes, c.BurstMinutes)
}

// set changes a setting if a new value was given.
func set[T any](setting, asked *T) {
	if asked != nil {
		*setting = *asked
	}
}

// Holder is the holder of a key.
type Holder struct {
	Key     string       `json:"key"` // its id
	Account string       `json:"account"`
	Scopes  store.Scopes `json:"scopes"`
}

// NewKey requests a service key.
type NewKey struct {
	Account string       `json:"account"`
	Scopes  store.Scopes `json:"scopes"`
	Label   string       `json:"label,omitempty"`
	KeySettings
}

// KeyUpdate requests changes to a key.
type KeyUpdate struct {
	Label *string `json:"label,omitempty"`
	KeySettings
}

// Apply makes the requested changes.
func (u *KeyUpdate) Apply(k *store.Key) {
	set(&k.Label, u.Label)
	u.KeySettings.Apply(k)
}

// KeySettings are the settings of a key that can change; nil leaves a setting unchanged.
type KeySettings struct {
	Expires    *time.Time       `json:"expires,omitempty"` // zero: never
	Limits     *LimitChange     `json:"limits,omitempty"`
	Models     *store.Models    `json:"models,omitempty"`      // that the key may use; empty: all
	Recall     *store.KeyRecall `json:"recall,omitempty"`      // whether its requests get recalled text: on, which needs the scope read, off or default
	TrustTrace *bool            `json:"trust_trace,omitempty"` // traces of its callers are continued
}

// Apply makes the requested changes.
func (s *KeySettings) Apply(k *store.Key) {
	set(&k.Expires, s.Expires)
	set(&k.Models, s.Models)
	set(&k.Recall, s.Recall)
	set(&k.TrustTrace, s.TrustTrace)
	if l := s.Limits; l != nil {
		set(&k.Limits.RequestsPerMinute, l.RequestsPerMinute)
		set(&k.Limits.TokensPerMinute, l.TokensPerMinute)
		set(&k.Limits.Concurrent, l.Concurrent)
		set(&k.Limits.TokensPerMonth, l.TokensPerMonth)
		set(&k.Limits.Repeats, l.Repeats)
		set(&k.Limits.StalledTokens, l.StalledTokens)
		l.BudgetChange.Apply(&k.Limits.Budget)
	}
}

// LimitChange changes those [store.Limits] that are not nil.
type LimitChange struct {
	RequestsPerMinute *int64 `json:"requests_per_minute,omitempty"`
	TokensPerMinute   *int64 `json:"tokens_per_minute,omitempty"`
	Concurrent        *int64 `json:"concurrent,omitempty"`
	TokensPerMonth    *int64 `json:"tokens_per_month,omitempty"`
	Repeats           *int64 `json:"repeats,omitempty"`
	StalledTokens     *int64 `json:"stalled_tokens,omitempty"`
	BudgetChange
}

// Rotation requests a successor to a key.
type Rotation struct {
	Overlap time.Duration `json:"overlap"` // during which the old key stays valid
}

// AuditEntry is an entry of the audit record, with the labels that its keys have now.
type AuditEntry struct {
	store.AuditEntry
	ActorLabel   string `json:"actor_label,omitempty"`
	SubjectLabel string `json:"subject_label,omitempty"`
}

// CreatedKey is a new service key with its secret, which is not shown again.
type CreatedKey = store.CreatedKey

// KeyImport requests service keys, at most [store.MostCreated], which are all created or none of them.
type KeyImport struct {
	Keys []NewKey `json:"keys"`
}
