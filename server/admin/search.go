package admin

import (
	"context"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/search"
)

// Search finds turns of an account. Where the store is open in this process the index is first let catch up.
func (c *Client) Search(ctx context.Context, account string, r *search.Request) (answer search.Answer, err error) {
	if c.store != nil {
		if err := search.Of(c.store).Wait(ctx, account); err != nil {
			return answer, err
		}
	}
	err = c.call(ctx, http.MethodPost, memoryPath(account, nil, "search"), r, &answer)
	return answer, err
}

// Reindex begins to build the search index of all accounts anew.
func (c *Client) Reindex(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/reindex", nil, nil)
}

// reindex is for the operator: the index is that of all accounts.
func (e endpoints) reindex(c caller, r *http.Request) (any, error) {
	if !c.isOperator() {
		return nil, codec.Errorf(codec.KindPermission, "the index is built anew on the server itself, with: mneme reindex")
	}
	index := search.Of(e.store)
	if index == nil {
		return nil, codec.Errorf(codec.KindNotFound, "this store is kept without a search index")
	}
	return nil, index.Rebuild(r.Context())
}
