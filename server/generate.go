package server

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
)

// generate has the model answer. If its provider cannot, and nothing has reached the client yet, it asks the first
// fallback that can. If none can, the client gets the error of the model that it asked for.
func (x *exchange) generate() error {
	if failed := x.ask(); failed != nil {
		return x.fallBack(failed)
	}
	return nil
}

// fallBack asks the fallbacks in turn, if there are any for that failure.
func (x *exchange) fallBack(failed error) error {
	if !x.mayFallBack() || !router.FallsBack(asError(failed)) {
		return failed
	}
	asked, replied := x.route.placement, x.attempts.replied
	x.attempts.fail(x.trace, asError(failed))
	for _, placement := range x.router.Fallbacks(asked) {
		if !x.route.mayAsk(placement.Provider, asked.Provider) {
			continue
		}
		x.proxy.telemetry.Fallback(asked.Provider.Name(), placement.Provider.Name())
		x.reset(placement)
		x.route.fallback = true
		err := x.ask()
		if err == nil || x.ctx.Err() != nil || asError(err).Kind == codec.KindStorage {
			return err
		}
		if e := asError(err); e.Provider != "" { // not if this server refused
			x.attempts.fail(x.trace, e)
		}
	}
	x.reset(asked)
	x.route.fallback, x.attempts.replied = false, replied
	return failed
}

// ask has the placed model answer, in its own format.
func (x *exchange) ask() error {
	if x.route.format != x.request.surface {
		t := &translated{x: x}
		return t.run()
	}
	return x.passThrough()
}
