package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// remoteTimeout is how long a remote server may take to identify the key.
const remoteTimeout = 10 * time.Second

// Remote connects to the server at origin, "http://host:port", as the holder of a service key. The server enforces the
// key's rights.
func Remote(ctx context.Context, origin, key string) (*Client, error) {
	c := &connection{origin: strings.TrimRight(origin, "/"), key: key, holder: &api.Holder{}}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // the key is for this server only
	if u, err := url.Parse(c.origin); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of a server; write it like http://127.0.0.1:7788", origin)
	}
	asking, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	err := c.call(asking, http.MethodGet, "/key", nil, c.holder)
	var known *codec.Error
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		return &Client{c}, nil
	case errors.As(err, &known) && known.Kind == codec.KindUpstream:
		return nil, fmt.Errorf("no server answers at %s; start one with: mneme serve, or say where it is with --url", c.origin)
	case errors.As(err, &known) && known.Kind == codec.KindAuthentication:
		return nil, fmt.Errorf("the server at %s refuses the key: %s", c.origin, known.Message)
	}
	return nil, fmt.Errorf("%s: %w", c.origin, err)
}

// Holder returns the holder of the client's key; nil for a client of this machine's store.
func (c *Client) Holder() *api.Holder { return c.holder }

// confined reports whether the client's key sees only one account.
func (c *connection) confined() bool {
	return c.holder != nil && !c.holder.Scopes.Has(store.ScopeOperator)
}

// target returns the URL of a path. The management is below [Prefix], and so is the memory of every account for
// operators; for other keys the account's own memory is at the path of its surface.
func (c *connection) target(path string) (string, error) {
	if c.holder == nil {
		return c.origin + path, nil
	}
	if !c.confined() || !strings.HasPrefix(path, memoryRoot) {
		return c.origin + Prefix + path, nil
	}
	bare, query, _ := strings.Cut(path, "?")
	asked, err := url.ParseQuery(query)
	if err != nil {
		return "", err
	}
	if account := asked.Get(accountParameter); account != c.holder.Account {
		return "", codec.Errorf(codec.KindPermission, "the key is one of account %s, and does not see account %s", c.holder.Account, account)
	}
	asked.Del(accountParameter)
	return c.origin + bare + "?" + asked.Encode(), nil
}

// ownExchanges is [MemoryClient.Exchanges] for a key that sees one account.
func (c *connection) ownExchanges(ctx context.Context, account, after string, limit int) (page api.Page[record.ExchangeInfo], err error) {
	if account == "" {
		account = c.holder.Account
	}
	const most = 100 // the largest page of the memory
	query := url.Values{"limit": {fmt.Sprint(min(limit, most))}}
	if after != "" {
		query.Set("after", after)
	}
	err = c.call(ctx, http.MethodGet, memoryPath(account, query, "exchanges"), nil, &page)
	return page, err
}
