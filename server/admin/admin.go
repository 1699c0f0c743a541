// Package admin is the management of a store: accounts, service keys, provider credentials, and a look at exchanges.
//
// It is an HTTP and JSON interface with one [Handler]. A running server offers it on a unix socket in its data
// directory, which only the owner of the directory can open, so whoever reaches the socket is the operator and sees
// every account. [Open] gives the command line a client of it: over the socket when a server runs, and on
// the store itself, through the same handler, when none does. Over TCP the callers are holders of a key with scope
// admin, and each is confined to the account of that key ([AccountHandler]).
//
//	GET    /accounts                                  every account, with the providers it has a credential for
//	POST   /accounts                                  {"name"}
//	PUT    /accounts/{account}/credentials/{provider} {"secret"}
//	DELETE /accounts/{account}/credentials/{provider}
//	GET    /keys?account=                             revoked ones included
//	POST   /keys                                      {"account", "scopes": "write,read", "label"}; the only answer that carries a key
//	DELETE /keys/{id}                                 revoke
//	GET    /exchanges?account=&after=&limit=          newest first; after is the last id of the page before
//	POST   /reindex                                   build the search index of all accounts anew; operator only
//	GET    /exchanges/{id}                            with the raw bytes of request and answer
//	*      /v1/memory/...?account=                    the memory of one account, see package memory
//
// For the operator alone:
//
//	PUT    /accounts/{account}/retention              {"max_age" in nanoseconds, "max_bytes"}; 0 does not bound
//	DELETE /accounts/{account}/retention              the server's rule again
//	POST   /check?repair=                             lines of {"finding"}, and at the end {"report"}
//	GET    /backup?since=                             a backup, full or on top of the one with that mark
//	POST   /compact
//
// Lists come as {"data": [...], "has_more": bool}, errors as {"error": {"kind", "message", "code", "param"}}.
package admin

import (
	"time"

	"github.com/mnemeproxy/mneme/store"
)

// DefaultAccount is the account of a new store.
const DefaultAccount = "default"

// EnsureAccount gives a store without accounts the [DefaultAccount].
func EnsureAccount(st *store.Store) error {
	if len(st.Accounts()) > 0 {
		return nil
	}
	_, err := st.CreateAccount(DefaultAccount)
	return err
}

// Account is an account as lists show it.
type Account struct {
	Name        string    `json:"name"`
	Created     time.Time `json:"created"`
	Credentials []string  `json:"credentials"` // names of providers; never the secrets
}

// NewAccount asks for an account.
type NewAccount struct {
	Name string `json:"name"`
}

// NewKey asks for a service key.
type NewKey struct {
	Account string       `json:"account"`
	Scopes  store.Scopes `json:"scopes"`
	Label   string       `json:"label,omitempty"`
}

// CreatedKey is a new service key with its secret, which cannot be had again.
type CreatedKey struct {
	store.Key
	Secret string `json:"key"`
}

// Credential carries an account's own credential for a provider.
type Credential struct {
	Secret string `json:"secret"`
}

// List is a page of things.
type List[T any] struct {
	Data    []T  `json:"data"`
	HasMore bool `json:"has_more"`
}
