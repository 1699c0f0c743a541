package api

import (
	"time"

	"github.com/mnemeproxy/mneme/store"
)

// Account is an account as lists show it.
type Account struct {
	Name        string    `json:"name"`
	Created     time.Time `json:"created"`
	Credentials []string  `json:"credentials"` // names of providers; never the secrets
	store.Budget
}

// NewAccount asks for an account.
type NewAccount struct {
	Name string `json:"name"`
}

// Credential carries an account's own credential for a provider.
type Credential struct {
	Secret string `json:"secret"`
}

// BudgetChange changes a [store.Budget], as far as its members are not nil.
type BudgetChange struct {
	Day   *store.USD `json:"budget_usd_day,omitempty"`
	Month *store.USD `json:"budget_usd_month,omitempty"`
}

// Apply sets what is asked for.
func (c BudgetChange) Apply(b *store.Budget) {
	set(&b.Day, c.Day)
	set(&b.Month, c.Month)
}

// set changes a setting that is asked for.
func set[T any](setting, asked *T) {
	if asked != nil {
		*setting = *asked
	}
}

// Holder is who holds a key.
type Holder struct {
	Key     string       `json:"key"` // its id
	Account string       `json:"account"`
	Scopes  store.Scopes `json:"scopes"`
}

// NewKey asks for a service key.
type NewKey struct {
	Account string       `json:"account"`
	Scopes  store.Scopes `json:"scopes"`
	Label   string       `json:"label,omitempty"`
	KeySettings
}

// KeyUpdate asks for changes to a key.
type KeyUpdate struct {
	Label *string `json:"label,omitempty"`
	KeySettings
}

// Apply sets what is asked for.
func (u *KeyUpdate) Apply(k *store.Key) {
	set(&k.Label, u.Label)
	u.KeySettings.Apply(k)
}

// KeySettings are what may change about a key; nil leaves a setting as it is.
type KeySettings struct {
	Expires    *time.Time       `json:"expires,omitempty"` // zero: never
	Limits     *LimitChange     `json:"limits,omitempty"`
	Models     *store.Models    `json:"models,omitempty"`      // that it may ask for; none: all
	Recall     *store.KeyRecall `json:"recall,omitempty"`      // whether its requests are given what is recalled: on, off or default
	TrustTrace *bool            `json:"trust_trace,omitempty"` // traces of its callers are continued
}

// Apply sets what is asked for.
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
		l.BudgetChange.Apply(&k.Limits.Budget)
	}
}

// LimitChange changes [store.Limits], each as far as it is not nil.
type LimitChange struct {
	RequestsPerMinute *int64 `json:"requests_per_minute,omitempty"`
	TokensPerMinute   *int64 `json:"tokens_per_minute,omitempty"`
	Concurrent        *int64 `json:"concurrent,omitempty"`
	TokensPerMonth    *int64 `json:"tokens_per_month,omitempty"`
	BudgetChange
}

// Rotation asks for a successor to a key.
type Rotation struct {
	Overlap time.Duration `json:"overlap"` // for which the old key stays valid
}

// CreatedKey is a new service key with its secret, which cannot be had again.
type CreatedKey = store.CreatedKey

// KeyImport asks for service keys that are made together, or not at all; at most [store.MostCreated].
type KeyImport struct {
	Keys []NewKey `json:"keys"`
}
