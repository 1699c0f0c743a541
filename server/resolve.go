package server

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/store"
)

// prepare translates the client's body. Where a client of Responses counts on its answers being kept, and refers to them
// by their ids, they are taken from the record.
func (x *exchange) prepare(dst []byte) (*crossing.Exchange, []byte, error) {
	settings := x.crossingSettings()
	crossed, body, err := crossing.Prepare(dst, x.surface, x.format, x.body, settings)
	if err == nil || x.surface != codec.Responses || asError(err).Kind != codec.KindInvalidRequest {
		return crossed, body, err
	}
	resolved, names, unresolved := x.resolve()
	if unresolved != nil {
		return nil, nil, unresolved
	}
	if len(names) == 0 {
		return nil, nil, err
	}
	settings.Pieces, settings.Prints, settings.Resolved = nil, nil, names
	settings.Read = false // an answer that broke off may be anything
	return crossing.Prepare(dst, x.surface, x.format, resolved, settings)
}

// resolve puts into the body what it refers to. Room for as much as may be read of the record is reserved meanwhile, and then
// for what came of it.
func (x *exchange) resolve() (body []byte, names []string, err error) {
	most := x.server.opts.BodyBytes
	if err := x.server.reserve(most); err != nil {
		return nil, nil, err
	}
	body, names, err = responses.Resolve(x.body, int(most), recorded{x.server.store, x.caller.Account})
	x.server.budget.give(most)
	if err != nil || len(names) == 0 {
		return nil, nil, err
	}
	if err := x.server.reserve(int64(len(body))); err != nil {
		return nil, nil, err
	}
	x.reserved += int64(len(body))
	return body, names, nil
}

// recorded finds what an account was answered by the ids that translated answers get: those of an exchange, and of its
// items, hold the exchange's own.
type recorded struct {
	store   *store.Store
	account string
}

func (r recorded) Response(id string) (request, answer []byte, err error) {
	x, err := r.exchange(id)
	if err != nil {
		return nil, nil, err
	}
	return x.RawRequest, x.RawResponse, nil
}

func (r recorded) Item(id string) (answer []byte, err error) {
	x, err := r.exchange(id)
	if err != nil {
		return nil, err
	}
	return x.RawResponse, nil
}

// exchangeIDLength is that of an exchange's id behind its prefix.
const exchangeIDLength = 26

func (r recorded) exchange(id string) (*store.Exchange, error) {
	_, own, _ := strings.Cut(id, "_")
	if len(own) < exchangeIDLength {
		return nil, codec.Errorf(codec.KindNotFound, "not an id of this proxy")
	}
	x, err := r.store.Exchange(r.account, "exch_"+own[:exchangeIDLength])
	if err == nil && x.Surface != codec.Responses.String() {
		err = codec.Errorf(codec.KindNotFound, "an answer of another surface")
	}
	return x, err
}
