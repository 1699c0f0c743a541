// Package admin is the management of a store: accounts, service keys, provider credentials, and a look at exchanges.
//
// It is an HTTP and JSON interface with one [Handler]. A running server offers it on a unix socket in its data
// directory, which only the owner of the directory can open, so a caller that reaches the socket is the operator and sees
// every account. [Open] gives the command line a client of it: over the socket when a server runs, and on
// the store itself, through the same handler, when none does. Over TCP the callers are holders of a key with scope
// admin, and each is confined to the account of that key ([AccountHandler]). What was said there is for those whose key
// has the scope for it as well: read for exchanges and the memory, write and erase to change and erase of it. A key of
// scope admin may make another with any scope, of which the audit record tells.
//
//	GET    /accounts                                  every account, with the providers it has a credential for
//	POST   /accounts                                  {"name"}
//	PUT    /accounts/{account}/credentials/{provider} {"secret"}
//	DELETE /accounts/{account}/credentials/{provider}
//	GET    /keys?account=                             revoked ones included
//	POST   /keys                                      {"account", "scopes": "write,read", "label", "expires", "limits", "models", "recall", "trust_trace"}
//	POST   /keys/import                               {"keys": [...]}: all of them or none, in one commit
//	PATCH  /keys/{id}                                 {"label", "expires", "limits", "models", "recall", "trust_trace"}, each of them as far as it is to change
//	POST   /keys/{id}/rotate                          {"overlap" in nanoseconds}: a new key like it, which then expires
//	DELETE /keys/{id}                                 revoke
//	GET    /audit?account=&after=&limit=              acts of administration, newest first; of an admin key: of its account
//	GET    /exchanges?account=&after=&limit=          newest first; after is the last id of the page before
//	GET    /usage?account=&by=&since=&until=          tokens and costs, see package memory
//	PATCH  /accounts/{account}                        {"budget_usd_day", "budget_usd_month"}, operator only
//	POST   /reindex                                   rebuild the search index of all accounts; operator only
//	GET    /exchanges/{id}                            with the raw bytes of request and answer
//	*      /v1/memory/...?account=                    the memory of one account, see package memory
//
// For the operator alone:
//
//	PUT    /accounts/{account}/retention              {"max_age" in nanoseconds, "max_bytes"}; 0 does not bound
//	DELETE /accounts/{account}/retention              the server's rule again
//	POST   /keys/{id}/hold                            keep it valid until the caller is gone, and then revoke it
//	POST   /check?repair=                             lines of {"finding"}, and at the end {"report"}
//	GET    /backup?since=                             a backup, full or on top of the one with that mark
//	POST   /compact
//	POST   /master-key/rotate                         a new one, under which every credential is sealed
//
// Over TCP alone:
//
//	GET    /key                                       whose key the request has: {"key", "account", "scopes"}
//
// A key of scope operator does over TCP everything that can be done on the socket. The server's main address has all of
// it below [Prefix], too.
//
// Keys are in the answers that make them, and in no other. Limits are {"requests_per_minute", "tokens_per_minute",
// "concurrent", "tokens_per_month", "budget_usd_day", "budget_usd_month"}; 0 leaves one to the server, -1 is none.
//
// Lists come as {"data": [...], "has_more": bool}, errors as {"error": {"kind", "message", "code", "param"}}.
package admin

// Prefix is where the server's main address has the management; package server knows it as ManagementPrefix.
const Prefix = "/v1/admin"

// DefaultAccount is the account of a new store.
const DefaultAccount = "default"

// EnsureAccount makes the [DefaultAccount] where there is no account.
func EnsureAccount(a Accounts) error {
	if len(a.List()) > 0 {
		return nil
	}
	_, err := a.Create(DefaultAccount)
	return err
}
