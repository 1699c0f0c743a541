package server

// beginWork waits for a large body's turn. The room that is set aside is its own until endWork; what it needs beyond that
// it takes.
func (x *exchange) beginWork() error {
	size := int64(len(x.request.body))
	if size < largeBody {
		return nil
	}
	select {
	case x.server.working <- struct{}{}:
	case <-x.ctx.Done():
		return x.ctx.Err()
	}
	beyond := max(0, workingCopies*size-roomForWork(x.server.opts.InFlightBytes, x.server.opts.BodyBytes))
	if err := x.request.share.Take(beyond); err != nil {
		<-x.server.working
		return err
	}
	x.request.working, x.request.beyond = true, beyond
	return nil
}

func (x *exchange) endWork() {
	if x.request.working {
		x.request.share.Give(x.request.beyond)
		x.request.working, x.request.beyond = false, 0
		<-x.server.working
	}
}
