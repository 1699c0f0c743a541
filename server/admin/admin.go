// Package admin manages a store: accounts, service keys and provider credentials. It also shows exchanges.
//
// It is an HTTP and JSON interface with one [Handler]. A running server offers it on a unix socket in its data
// directory, which only the owner of the directory can open, so a caller that reaches the socket is the operator and
// sees every account. [Open] returns a client for the command line: over the socket if a server runs, otherwise on the
// store itself, through the same handler. Over TCP, callers hold a key with scope admin and are confined to the account
// of that key ([AccountHandler]). Conversations also need the scope for them: read for exchanges and the memory, write
// to change it, erase to erase from it. A key of scope admin may make another with any scope; the audit record says so.
//
//	GET    /accounts                                  every account, with the providers it has a credential for
//	POST   /accounts                                  {"name"}
//	PUT    /accounts/{account}/credentials/{provider} {"secret"}
//	DELETE /accounts/{account}/credentials/{provider}
//	GET    /keys?account=                             revoked ones included
//	POST   /keys                                      {"account", "scopes": "write,read", "label", "expires", "limits", "models", "recall", "trust_trace"}
//	POST   /keys/import                               {"keys": [...]}: all of them or none, in one commit
//	PATCH  /keys/{id}                                 {"label", "expires", "limits", "models", "recall", "trust_trace"}, each optional
//	POST   /keys/{id}/rotate                          {"overlap" in nanoseconds}: a new key like it, which then expires
//	DELETE /keys/{id}                                 revoke
//	GET    /audit?account=&after=&limit=              acts of administration, newest first; an admin key sees its own account's
//	GET    /exchanges?account=&after=&limit=          newest first; after is the last id of the previous page
//	GET    /usage?account=&by=&since=&until=          tokens and costs, see package memory
//	PATCH  /accounts/{account}                        {"budget_usd_day", "budget_usd_month", "budget_usd_burst", "burst_minutes"}, operator only
//	POST   /reindex                                   rebuild the search index of all accounts; operator only
//	GET    /exchanges/{id}                            with the raw bytes of request and answer
//	*      /v1/memory/...?account=                    the memory of one account, see package memory
//
// For the operator only:
//
//	PUT    /accounts/{account}/retention              {"max_age" in nanoseconds, "max_bytes"}; 0 means no bound
//	DELETE /accounts/{account}/retention              back to the server's rule
//	POST   /keys/{id}/hold                            keep it valid while the caller is connected, then revoke it
//	POST   /check?repair=                             lines of {"finding"}, and at the end {"report"}
//	GET    /backup?since=                             a backup, full or incremental to the one with that mark
//	POST   /compact
//	POST   /master-key/rotate                         replace it, and seal every credential under the new one
//
// Over TCP only:
//
//	GET    /key                                       the request's own key: {"key", "account", "scopes"}
//
// A key of scope operator does over TCP everything that can be done on the socket. The server's main address has all of
// it below [Prefix].
//
// A key is shown only in the answer that creates it. Limits are {"requests_per_minute", "tokens_per_minute",
// "concurrent", "tokens_per_month", "repeats", "stalled_tokens", "budget_usd_day", "budget_usd_month",
// "budget_usd_burst", "burst_minutes"}; 0 means the server's limit, -1
// means no limit.
//
// Lists come as {"data": [...], "has_more": bool}, errors as {"error": {"kind", "message", "code", "param"}}.
package admin

// Prefix is where the server's main address serves the management API; package server calls it ManagementPrefix.
const Prefix = "/v1/admin"

// DefaultAccount is the account of a new store.
const DefaultAccount = "default"

// EnsureAccount creates the [DefaultAccount] if there is no account.
func EnsureAccount(a Accounts) error {
	if len(a.List()) > 0 {
		return nil
	}
	_, err := a.Create(DefaultAccount)
	return err
}
