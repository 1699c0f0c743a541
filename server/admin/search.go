package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/search"
)

// Search finds turns of an account. If the store is open in this process, the index catches up first.
func (c MemoryClient) Search(ctx context.Context, account string, r *search.Request) (answer search.Answer, err error) {
	if c.engine != nil {
		if err := c.engine.Searcher.Wait(ctx, account); err != nil {
			return answer, err
		}
	}
	err = c.call(ctx, http.MethodPost, memoryPath(account, nil, "search"), r, &answer)
	return answer, err
}

// Recall asks what earlier sessions say about a question. If the store is open in this process, the index catches up
// first.
func (c MemoryClient) Recall(ctx context.Context, account string, r *api.RecallRequest) (answer api.Recalled, err error) {
	if c.engine != nil {
		if err := c.engine.Searcher.Wait(ctx, account); err != nil {
			return answer, err
		}
	}
	err = c.call(ctx, http.MethodPost, memoryPath(account, nil, "recall"), r, &answer)
	return answer, err
}

// RecallHook forwards the body of a client's hook, and returns the answer for the client.
func (c MemoryClient) RecallHook(ctx context.Context, account string, body json.RawMessage) (answer json.RawMessage, err error) {
	err = c.call(ctx, http.MethodPost, memoryPath(account, nil, "recall"), body, &answer)
	return answer, err
}

// What can be rebuilt.
const (
	Words   = "words"
	Vectors = "vectors"
	All     = "all"
)

// Reindex starts to rebuild the search index of all accounts.
func (c UpkeepClient) Reindex(ctx context.Context, what string) error {
	return c.call(ctx, http.MethodPost, "/reindex?what="+url.QueryEscape(what), nil, nil)
}

// reindex is for the operator: the index is that of all accounts.
func (e endpoints) reindex(c caller, r *http.Request) (any, error) {
	if !c.isOperator() {
		return nil, codec.Errorf(codec.KindPermission, "the index is rebuilt on the server itself, with: mneme reindex")
	}
	what := cmp.Or(r.URL.Query().Get("what"), Words)
	if what != Words && what != Vectors && what != All {
		return nil, codec.Invalid("what", "what can be rebuilt is words, vectors or all")
	}
	if what != Vectors {
		if err := e.engine.Upkeep.RebuildWords(r.Context()); err != nil {
			return nil, err
		}
	}
	if what == Words {
		return nil, nil
	}
	return nil, e.engine.Upkeep.RebuildVectors(r.Context())
}
