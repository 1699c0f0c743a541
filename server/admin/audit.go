package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
)

// act is an endpoint that changes something and is recorded in the audit log.
type act struct {
	name   string // noun and verb
	secret bool   // the body holds a secret and is not kept
}

// acts are the audited endpoints.
var acts = map[string]act{
	"POST /accounts":                                    {name: "account.create"},
	"PATCH /accounts/{account}":                         {name: "account.update"},
	"DELETE /accounts/{account}":                        {name: "account.delete"},
	"PUT /accounts/{account}/credentials/{provider}":    {name: "credential.set", secret: true},
	"DELETE /accounts/{account}/credentials/{provider}": {name: "credential.remove"},
	"PUT /accounts/{account}/retention":                 {name: "retention.set"},
	"DELETE /accounts/{account}/retention":              {name: "retention.reset"},
	"POST /master-key/rotate":                           {name: "master-key.rotate"},
	"POST /keys":                                        {name: "key.create"},
	"PATCH /keys/{id}":                                  {name: "key.update"},
	"POST /keys/{id}/rotate":                            {name: "key.rotate"},
	"DELETE /keys/{id}":                                 {name: "key.revoke"},
}

// audited wraps an endpoint so that each call is recorded.
func (e endpoints) audited(a act, serve endpoint) endpoint {
	return func(c caller, r *http.Request) (answer any, err error) {
		entry := store.AuditEntry{
			Actor: c.actor(), Action: a.name, Account: c.account,
			Subject: cmp.Or(r.PathValue("id"), r.PathValue("provider")),
		}
		if c.isOperator() {
			key, _ := e.key(r.PathValue("id"))
			entry.Account = cmp.Or(r.PathValue("account"), key.Account)
		}
		if !a.secret {
			if entry.Asked, err = readAsked(r); err != nil {
				return nil, err
			}
		}
		err = e.engine.AuditLog.Audited(entry, func(entry *store.AuditEntry) error {
			answer, err = serve(c, r)
			complete(entry, answer)
			return err
		})
		return answer, err
	}
}

// auditedKeys records an entry for each key that one act creates.
func (e endpoints) auditedKeys(c caller, asked []api.NewKey, act func() ([]api.CreatedKey, error)) (made []api.CreatedKey, err error) {
	if len(asked) == 0 {
		return act()
	}
	first, rest := asked[0], asked[1:]
	entry := store.AuditEntry{Actor: c.actor(), Action: "key.create", Account: cmp.Or(first.Account, c.account)}
	if entry.Asked, err = json.Marshal(first); err != nil {
		return nil, err
	}
	err = e.engine.AuditLog.Audited(entry, func(entry *store.AuditEntry) error {
		made, err = e.auditedKeys(c, rest, act)
		if err == nil {
			entry.Subject = made[len(made)-len(asked)].ID
		}
		return err
	})
	return made, err
}

// readAsked returns the body, which can be read again. The endpoint refuses invalid JSON.
func readAsked(r *http.Request) (json.RawMessage, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, codec.Errorf(codec.KindTooLarge, "the body cannot be read, or has more than %d bytes", maxBody)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var asked bytes.Buffer
	if json.Compact(&asked, body) == nil {
		return asked.Bytes(), nil
	}
	return nil, nil
}

// complete adds what is known only afterwards.
func complete(e *store.AuditEntry, answer any) {
	switch made := answer.(type) {
	case api.CreatedKey:
		e.Account = made.Account
		e.Subject = cmp.Or(e.Subject, made.ID) // of a rotation: the replaced key; its successor names it
	case api.Account:
		e.Account = made.Name
	case store.AccountDeletion:
		if made.DryRun {
			e.Asked = json.RawMessage(`{"dry_run":true}`) // otherwise it would look as if the account were gone
		}
	}
}

// key finds a key by its id.
func (e endpoints) key(id string) (store.Key, bool) {
	for _, k := range e.engine.Keys.List("") {
		if k.ID == id {
			return k, true
		}
	}
	return store.Key{}, false
}

func (e endpoints) audit(c caller, r *http.Request) (any, error) {
	query := r.URL.Query()
	account, err := c.within(query.Get("account"))
	if err != nil {
		return nil, err
	}
	q := store.AuditQuery{Account: account, After: query.Get("after")}
	if text := query.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 {
			return nil, codec.Invalid("limit", "%q is not a number above 0", text)
		}
	}
	page, err := e.engine.AuditLog.Audit(q)
	if err != nil {
		return nil, err
	}
	labels := make(map[string]string)
	for _, k := range e.engine.Keys.List(account) {
		labels[k.ID] = k.Label
	}
	shown := make([]api.AuditEntry, len(page.Data))
	for i, entry := range page.Data {
		shown[i] = api.AuditEntry{AuditEntry: entry, ActorLabel: labels[entry.Actor], SubjectLabel: labels[entry.Subject]}
	}
	return api.Page[api.AuditEntry]{Data: shown, HasMore: page.HasMore}, nil
}
