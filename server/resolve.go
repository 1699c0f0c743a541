package server

import (
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// follow finds the session that the request continues if another node of the cluster answered in it.
func (r *request) follow(elsewhere func(account, id string) (*record.Exchange, error), o *record.Opening) {
	if elsewhere == nil || !isOwnAnswer(o.PreviousResponse) {
		return
	}
	p := &r.previous
	p.id, _ = exchangeOf(o.PreviousResponse)
	if p.found, p.err = elsewhere(o.Account, p.id); p.found != nil {
		o.Follows = p.found.Session
	}
}

// answersOnRecord finds all that a request may refer to. If something was recalled for it, requests on record are restored
// as they were sent, unless the key may not read the memory.
func (s *proxy) answersOnRecord(r *request, recalled bool) *recorded {
	stored := &recorded{answers: s.engine.Archive, account: r.caller.Account, previous: r.previous, continues: r.continues, most: min(s.opts.BodyBytes, s.held.Limit()/2)}
	if recalled && r.caller.Scopes.Has(store.ScopeRead) {
		stored.asSent = func(of *record.Exchange) []byte { return s.recall.asSent(r.surface, r.caller.Account, of) }
	}
	return stored
}

// resolveOwn returns the client's body for a provider of its own format: ids from translated answers mean nothing there
// and are replaced by what they name. Everything else is unchanged; names is nil if there was nothing to replace.
func (x *exchange) resolveOwn() (body []byte, names []string, err error) {
	if !storesAnswers(x.request.surface) || x.request.continues == nil && !responses.HasSummary(x.request.body) && !isOwnAnswer(x.request.envelope.PreviousResponse) && !x.request.mayReferToOwn() {
		return x.request.body, nil, nil
	}
	stored := x.proxy.answersOnRecord(&x.request, x.recording.recalled != nil)
	stored.leaves = true
	body, names, err = stored.resolve(&x.request)
	if err != nil || len(names) == 0 {
		return x.request.body, nil, err
	}
	return body, names, nil
}
