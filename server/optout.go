package server

import (
	"slices"
	"strings"
)

// asksOut reports whether the caller says in so many words that the exchange is to be kept off the record.
func (x *exchange) asksOut() bool {
	return strings.EqualFold(x.in.Header(headerCapture), "off")
}

// optsOut reports whether the caller wants the exchange to be kept off the record, and may. A provider that is told not to
// store an exchange is taken as a wish that nobody does.
func (x *exchange) optsOut() bool {
	return (x.asksOut() || x.envelope.StoreOff) && slices.Contains(x.server.opts.OptOut, x.caller.Account)
}
