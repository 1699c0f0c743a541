package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router/neterr"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Client manages a store: in a server on this machine, in this process, or in a remote server.
type Client struct{ *connection }

// AccountClient manages accounts.
type AccountClient struct{ *connection }

// KeyClient manages service keys.
type KeyClient struct{ *connection }

// MemoryClient reads and edits what was recorded.
type MemoryClient struct{ *connection }

// UpkeepClient maintains the store as a whole.
type UpkeepClient struct{ *connection }

// Accounts manages accounts.
func (c *Client) Accounts() AccountClient { return AccountClient{c.connection} }

// Keys manages service keys.
func (c *Client) Keys() KeyClient { return KeyClient{c.connection} }

// Memory reads and edits what was recorded.
func (c *Client) Memory() MemoryClient { return MemoryClient{c.connection} }

// Upkeep maintains the store.
func (c *Client) Upkeep() UpkeepClient { return UpkeepClient{c.connection} }

// connection is a connection to a store.
type connection struct {
	http   http.Client
	origin string
	engine *Engine     // nil if a server has it open
	local  *inProcess  // as above
	key    string      // sent to a remote server
	holder *api.Holder // of key; nil on this machine
}

// localOrigin stands for the store of this machine.
const localOrigin = "http://mneme"

// How long Open waits for a server that is starting or stopping, or for another command, and how often it checks. Every
// command except the server holds the store for milliseconds.
const (
	openTimeout  = 10 * time.Second
	openInterval = 50 * time.Millisecond
)

// Open connects to the memory in a data directory: through the server that has it open, else by open, which is called
// again while it returns [store.ErrInUse]. If the directory does not exist, the error wraps fs.ErrNotExist, unless
// create is set.
func Open(ctx context.Context, dataDir string, open func() (Engine, error), create bool) (*Client, error) {
	if !create {
		if _, err := os.Stat(dataDir); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("no data in %s: %w", dataDir, fs.ErrNotExist)
		}
	}
	deadline := time.Now().Add(openTimeout)
	for {
		client, err := dialClient(ctx, dataDir)
		if client != nil || err != nil {
			return client, err
		}
		m, err := open()
		if err == nil {
			return inProcessClient(m, create)
		}
		if !errors.Is(err, store.ErrInUse) || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(openInterval):
		}
	}
}

func inProcessClient(m Engine, create bool) (*Client, error) {
	if create {
		if err := EnsureAccount(m.Accounts); err != nil {
			return nil, errors.Join(err, m.Close())
		}
	}
	log := slog.New(slog.DiscardHandler) // the person at the command line gets the error itself
	local := &inProcess{handler: Handler(m, log)}
	return &Client{&connection{http: http.Client{Transport: local}, origin: localOrigin, engine: &m, local: local}}, nil
}

// dialClient returns nil and no error if no server listens.
func dialClient(ctx context.Context, dataDir string) (*Client, error) {
	conn, err := dial(ctx, dataDir)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, neterr.Refused):
		return nil, nil // never started, stopped, or killed
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("%s belongs to another user; run this as the user that runs the server", filepath.Join(dataDir, SocketName))
	case err != nil:
		return nil, fmt.Errorf("reach the server over %s: %w", filepath.Join(dataDir, SocketName), err)
	}
	_ = conn.Close()
	return &Client{&connection{origin: localOrigin, http: http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, dataDir) },
		DisableKeepAlives: true,
	}}}}, nil
}

// InProcess reports whether no server runs and the memory is open in this process.
func (c *Client) InProcess() bool { return c.engine != nil }

// Close ends the client, and closes the store if it is open in this process.
func (c *Client) Close() error {
	c.http.CloseIdleConnections()
	if c.engine == nil {
		return nil
	}
	c.local.wait()
	return c.engine.Close()
}

// List lists all accounts by name.
func (c AccountClient) List(ctx context.Context) ([]api.Account, error) {
	if c.holder != nil && c.holder.Scopes&(store.ScopeAdmin|store.ScopeOperator) == 0 {
		return []api.Account{{Name: c.holder.Account}}, nil
	}
	var list api.Page[api.Account]
	err := c.call(ctx, http.MethodGet, "/accounts", nil, &list)
	return list.Data, err
}

// Create creates an account.
func (c AccountClient) Create(ctx context.Context, name string) (api.Account, error) {
	var account api.Account
	err := c.call(ctx, http.MethodPost, "/accounts", api.NewAccount{Name: name}, &account)
	return account, err
}

// SetCredential sets an account's own credential for a provider.
func (c AccountClient) SetCredential(ctx context.Context, account, provider, secret string) error {
	return c.call(ctx, http.MethodPut, credentialPath(account, provider), api.Credential{Secret: secret}, nil)
}

// RemoveCredential removes it.
func (c AccountClient) RemoveCredential(ctx context.Context, account, provider string) error {
	return c.call(ctx, http.MethodDelete, credentialPath(account, provider), nil, nil)
}

// SetRetention sets an account's own retention rule; nil restores the server's.
func (c AccountClient) SetRetention(ctx context.Context, account string, r *store.Retention) error {
	path := "/accounts/" + url.PathEscape(account) + "/retention"
	if r == nil {
		return c.call(ctx, http.MethodDelete, path, nil, nil)
	}
	return c.call(ctx, http.MethodPut, path, r, nil)
}

// Update sets an account's budgets.
func (c AccountClient) Update(ctx context.Context, account string, asked api.BudgetChange) (store.Account, error) {
	var a store.Account
	err := c.call(ctx, http.MethodPatch, "/accounts/"+url.PathEscape(account), asked, &a)
	return a, err
}

// Usage returns the usage and cost of exchanges. The query is that of GET /usage.
func (c MemoryClient) Usage(ctx context.Context, query url.Values) (u api.Usage, err error) {
	err = c.call(ctx, http.MethodGet, "/usage?"+query.Encode(), nil, &u)
	return u, err
}

// Delete deletes an account with everything it owns; with dryRun it reports what would be deleted.
func (c AccountClient) Delete(ctx context.Context, account string, dryRun bool) (store.AccountDeletion, error) {
	path := "/accounts/" + url.PathEscape(account)
	if dryRun {
		path += "?dry_run=true"
	}
	var d store.AccountDeletion
	err := c.call(ctx, http.MethodDelete, path, nil, &d)
	return d, err
}

func credentialPath(account, provider string) string {
	return "/accounts/" + url.PathEscape(account) + "/credentials/" + url.PathEscape(provider)
}

// List lists the service keys of an account, or of all accounts if account is "".
func (c KeyClient) List(ctx context.Context, account string) ([]store.Key, error) {
	var list api.Page[store.Key]
	err := c.call(ctx, http.MethodGet, "/keys?"+url.Values{"account": {account}}.Encode(), nil, &list)
	return list.Data, err
}

// Create creates a service key.
func (c KeyClient) Create(ctx context.Context, asked api.NewKey) (api.CreatedKey, error) {
	var created api.CreatedKey
	err := c.call(ctx, http.MethodPost, "/keys", asked, &created)
	return created, err
}

// Import creates all keys or none.
func (c KeyClient) Import(ctx context.Context, asked []api.NewKey) ([]api.CreatedKey, error) {
	var made api.Page[api.CreatedKey]
	err := c.call(ctx, http.MethodPost, "/keys/import", api.KeyImport{Keys: asked}, &made)
	return made.Data, err
}

// Update changes a service key.
func (c KeyClient) Update(ctx context.Context, id string, asked api.KeyUpdate) (store.Key, error) {
	var key store.Key
	err := c.call(ctx, http.MethodPatch, "/keys/"+url.PathEscape(id), asked, &key)
	return key, err
}

// Rotate creates a successor of a service key.
func (c KeyClient) Rotate(ctx context.Context, id string, asked api.Rotation) (api.CreatedKey, error) {
	var created api.CreatedKey
	err := c.call(ctx, http.MethodPost, "/keys/"+url.PathEscape(id)+"/rotate", asked, &created)
	return created, err
}

// Revoke makes a service key invalid at once.
func (c KeyClient) Revoke(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/keys/"+url.PathEscape(id), nil, nil)
}

// Audit returns a page of at most limit audit entries, newest first, older than the one with the id after.
func (c *Client) Audit(ctx context.Context, account, after string, limit int) (api.Page[api.AuditEntry], error) {
	query := url.Values{"account": {account}, "after": {after}, "limit": {strconv.Itoa(limit)}}
	var page api.Page[api.AuditEntry]
	err := c.call(ctx, http.MethodGet, "/audit?"+query.Encode(), nil, &page)
	return page, err
}

// Exchanges returns a page of at most limit exchanges, newest first, that follow the one with the id after.
func (c MemoryClient) Exchanges(ctx context.Context, account, after string, limit int) (api.Page[record.ExchangeInfo], error) {
	if c.confined() {
		return c.ownExchanges(ctx, account, after, limit)
	}
	query := url.Values{"account": {account}, "after": {after}, "limit": {strconv.Itoa(limit)}}
	var page api.Page[record.ExchangeInfo]
	err := c.call(ctx, http.MethodGet, "/exchanges?"+query.Encode(), nil, &page)
	return page, err
}

// Exchange returns one exchange with its bytes.
func (c MemoryClient) Exchange(ctx context.Context, id string) (api.Exchange, error) {
	var x api.Exchange
	path := "/exchanges/" + url.PathEscape(id)
	if c.confined() {
		path = memoryPath(c.holder.Account, url.Values{"include": {"raw_request,raw_response"}}, "exchanges", id)
	}
	err := c.call(ctx, http.MethodGet, path, nil, &x)
	return x, err
}

// call sends one request and decodes the answer into answer unless that is nil. A refusal by the server is a
// *codec.Error.
func (c *connection) call(ctx context.Context, method, path string, body, answer any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	received, err := c.open(ctx, method, path, sent)
	if err != nil {
		return err
	}
	defer received.Close()
	if answer == nil {
		return nil
	}
	if err := json.NewDecoder(received).Decode(answer); err != nil {
		return lost(err)
	}
	return nil
}

// open sends one request and returns the body of the answer as a stream; the caller closes it.
func (c *connection) open(ctx context.Context, method, path string, body io.Reader) (io.ReadCloser, error) {
	if body == nil {
		body = http.NoBody
	}
	target, err := c.target(path)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, err
	}
	if c.key != "" {
		request.Header.Set("Authorization", "Bearer "+c.key)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, lost(err)
	}
	if response.StatusCode < http.StatusMultipleChoices {
		return response.Body, nil
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostOfError))
	if err != nil {
		return nil, lost(err)
	}
	return nil, readError(response.StatusCode, text)
}

// mostOfError is how much of an error's body is read.
const mostOfError = 1 << 20

// lost returns the error for a request without a complete answer.
func lost(cause error) error {
	if errors.Is(cause, context.Canceled) {
		return cause
	}
	err := codec.Errorf(codec.KindUpstream, "the connection to the server was lost before it answered; check whether it did what was asked, then try again")
	err.Cause = cause
	return err
}
