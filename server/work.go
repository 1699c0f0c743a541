package server

import "context"

// beginWork waits for a large body's turn. The room that is set aside is its own until endWork; what it needs beyond that
// it takes.
func (s *proxy) beginWork(ctx context.Context, r *request) error {
	size := int64(len(r.body))
	if size < largeBody {
		return nil
	}
	select {
	case s.working <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	beyond := max(0, workingCopies*size-roomForWork(s.opts.InFlightBytes, s.opts.BodyBytes))
	if err := r.share.Take(beyond); err != nil {
		<-s.working
		return err
	}
	r.working, r.beyond = true, beyond
	return nil
}

func (s *proxy) endWork(r *request) {
	if r.working {
		r.share.Give(r.beyond)
		r.working, r.beyond = false, 0
		<-s.working
	}
}
