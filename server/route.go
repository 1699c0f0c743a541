package server

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
)

// route is where a request goes. A fallback replaces it as a whole.
type route struct {
	placement router.Placement
	format    codec.Format  // spoken to the provider
	header    router.Header // the client's headers that may go upstream
	own       bool          // the provider credential is the client's own
	fallback  bool          // placement replaces another model

	askedUsage bool // of the provider, by this side: the client does not get the usage chunk
	uncounted  bool // the provider refuses to be asked
}

// place finds the provider and the format to speak to it.
func (x *exchange) place() error {
	if err := x.request.caller.requireModels(&x.request.envelope, x.request.body); err != nil {
		return err
	}
	placement, refused := x.placement()
	if refused != nil {
		return refused
	}
	x.routeTo(placement)
	return nil
}

func (x *exchange) placement() (router.Placement, *codec.Error) {
	if x.request.at != nil {
		return x.router.PlaceAt(x.request.at, x.request.envelope.Model)
	}
	return x.router.Place(x.request.envelope.Model)
}

func (x *exchange) routeTo(placement router.Placement) {
	x.route.placement, x.route.uncounted = placement, false
	x.route.format = placement.Provider.FormatFor(x.request.surface, placement.Model)
	x.route.header = x.upstreamHeader()
}

// upstreamHeader copies the client's headers that the provider may see.
func (x *exchange) upstreamHeader() (header router.Header) {
	provider := x.route.placement.Provider
	x.request.in.EachHeader(func(name, value []byte) { // hertz has made the names canonical
		if provider.PassesUpstream(string(name)) { // most do not pass, and cost no copy
			header = append(header, router.Field{Name: string(name), Value: string(value)})
		}
	})
	return header
}

// affinity returns a hash of the key that keeps a conversation in one place, see request.affinity; 0 if there is no
// choice.
func (x *exchange) affinity() uint64 {
	if x.request.surface == codec.Embeddings || !x.route.placement.Provider.Pooled() {
		return 0
	}
	return router.Affinity(x.request.caller.Account, x.request.affinity())
}
