package server

import (
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
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

// find finds the provider and the format to speak to it.
func (r *route) find(by *router.Router, request *request) error {
	if err := request.caller.requireModels(&request.envelope, request.body); err != nil {
		return err
	}
	var placement router.Placement
	var refused *codec.Error
	if at := request.at; at != nil {
		placement, refused = by.PlaceAt(at, request.envelope.Model)
	} else {
		placement, refused = by.Place(request.envelope.Model)
	}
	if refused != nil {
		return refused
	}
	r.to(placement, request)
	return nil
}

// to leads a request to another model.
func (r *route) to(placement router.Placement, request *request) {
	r.placement, r.uncounted = placement, false
	r.format = placement.Provider.FormatFor(request.surface, placement.Model)
	r.header = upstreamHeader(placement.Provider, request)
}

// upstreamHeader copies the client's headers that the provider may see.
func upstreamHeader(provider *router.Provider, r *request) (header router.Header) {
	r.in.EachHeader(func(name, value []byte) { // hertz has made the names canonical
		if provider.PassesUpstream(string(name)) { // most do not pass, and cost no copy
			header = append(header, router.Field{Name: string(name), Value: string(value)})
		}
	})
	return header
}

// affinity returns a hash of the key that keeps a conversation in one place, see request.affinity; 0 if there is no
// choice.
func (r *route) affinity(request *request) uint64 {
	if request.surface == codec.Embeddings || !r.placement.Provider.Pooled() {
		return 0
	}
	return router.Affinity(request.caller.Account, request.affinity())
}

func (r *route) fromProvider(e *codec.Error) *codec.Error {
	e.Provider = r.placement.Provider.Name()
	return e
}

// providerError returns an error that says what the provider did.
func (r *route) providerError(format string, args ...any) *codec.Error {
	return r.fromProvider(codec.Errorf(codec.KindUpstream, "%s %s.", r.placement.Provider.Name(), fmt.Sprintf(format, args...)))
}

// decodeError reads a provider's error answer.
func (r *route) decodeError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	return r.fromProvider(crossing.ProviderCodec(r.format).DecodeError(status, retryAfter, body))
}

// isAuthorOf reports whether the provider is the author of the surface's format, who alone compacts conversations and counts
// tokens in it.
func (r *route) isAuthorOf(surface codec.Format) bool {
	return r.format == surface && r.placement.Provider.Family() == crossing.Traits(surface).Author
}
