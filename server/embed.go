package server

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
)

// embed serves the embeddings surface: the client's bytes where the provider speaks it, after the size that the client
// asks for has been checked.
func (x *exchange) embed() error {
	if _, refused := x.server.router.Embedder(x.placement); refused != nil {
		return refused
	}
	if x.format != codec.Embeddings {
		return codec.Invalid("model", "%s has embeddings in another format only, which is not translated.", x.placement.Provider.Name())
	}
	reply, err := x.callFor(router.Embed, x.envelope.Splice(nil, x.body, x.placement.Model))
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if refused := x.ownCredentialRefused(reply.Status); refused != nil {
		return refused
	}
	return x.whole(reply)
}
