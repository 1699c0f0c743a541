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
//	GET    /exchanges/{id}                            with the raw bytes of request and answer
//
// Lists come as {"data": [...], "has_more": bool}, errors as {"error": {"kind", "message", "code", "param"}}.
package admin

import (
	"encoding/base64"
	"time"
	"unicode/utf8"

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

// Exchange is an exchange with its bytes. Where they are UTF-8 they stand as text; where they are not they stand in
// base64, and the encoding member beside them says so.
type Exchange struct {
	store.ExchangeInfo
	RawRequest          string `json:"raw_request"`
	RawRequestEncoding  string `json:"raw_request_encoding,omitempty"`
	RawResponse         string `json:"raw_response"`
	RawResponseEncoding string `json:"raw_response_encoding,omitempty"`
}

const base64Encoding = "base64"

// NewExchange puts an exchange into its JSON form.
func NewExchange(x *store.Exchange) Exchange {
	e := Exchange{ExchangeInfo: x.ExchangeInfo}
	e.RawRequest, e.RawRequestEncoding = encodeRaw(x.RawRequest)
	e.RawResponse, e.RawResponseEncoding = encodeRaw(x.RawResponse)
	return e
}

// Request gives the request's own bytes.
func (e *Exchange) Request() ([]byte, error) { return decodeRaw(e.RawRequest, e.RawRequestEncoding) }

// Response gives the answer's own bytes, or the part of them that had arrived.
func (e *Exchange) Response() ([]byte, error) { return decodeRaw(e.RawResponse, e.RawResponseEncoding) }

func encodeRaw(raw []byte) (text, encoding string) {
	if utf8.Valid(raw) {
		return string(raw), ""
	}
	return base64.StdEncoding.EncodeToString(raw), base64Encoding
}

func decodeRaw(text, encoding string) ([]byte, error) {
	if encoding == base64Encoding {
		return base64.StdEncoding.DecodeString(text)
	}
	return []byte(text), nil
}
