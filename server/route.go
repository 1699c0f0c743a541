package server

import (
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
)

// route is where a request goes. It changes as a whole, when a fallback is asked.
type route struct {
	placement router.Placement
	format    codec.Format // spoken with the provider
	header    http.Header  // the client's headers that may go upstream
	own       bool         // the provider credential is the client's own
	fallback  bool         // placement is asked in place of another

	askedUsage bool // of the provider, by this side: the chunk that comes for it is not for the client

	fallbacks []router.Placement // that may be
}

// place finds the provider and the format to speak with it.
func (x *exchange) place() error {
	if err := x.request.caller.requireModels(&x.request.envelope, x.request.body); err != nil {
		return err
	}
	placement, refused := x.router.Place(x.request.envelope.Model)
	if refused != nil {
		return refused
	}
	x.routeTo(placement)
	return nil
}

func (x *exchange) routeTo(placement router.Placement) {
	x.route.placement = placement
	x.route.format = placement.Provider.FormatFor(x.request.surface, placement.Model)
	x.route.header = x.upstreamHeader()
}

// upstreamHeader copies the client's headers that the provider may see.
func (x *exchange) upstreamHeader() http.Header {
	header := make(http.Header)
	provider := x.route.placement.Provider
	x.request.in.EachHeader(func(name, value []byte) { // hertz has made the names canonical
		if provider.PassesUpstream(string(name)) { // most do not, and cost no copy
			key := string(name)
			header[key] = append(header[key], string(value))
		}
	})
	return header
}

// affinity names what is to be served in one place, see request.affinity; 0 where there is no choice.
func (x *exchange) affinity() uint64 {
	if x.request.surface == codec.Embeddings || !x.route.placement.Provider.Pooled() {
		return 0
	}
	return router.Affinity(x.request.caller.Account, x.request.affinity())
}
