package cluster

import (
	"context"
	"errors"

	"github.com/mnemeproxy/mneme/store"
)

// deliver copies what the centre's own store records into the archive, until ctx is done. It reads a log like an
// edge's, which does not have to travel.
func (c *Centre) deliver(ctx context.Context, own Log) {
	said := ""
	for ctx.Err() == nil {
		err := c.deliverAll(ctx, own)
		if err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			c.options.Log.Warn("exchanges recorded by this centre cannot be stored in its archive; retrying", "cause", err)
		}
		if err == nil {
			said = ""
		}
		sleep(ctx, pause)
	}
}

// deliverAll delivers the entries of the log in order, until something fails or the archive's mark does not match the
// log.
func (c *Centre) deliverAll(ctx context.Context, own Log) error {
	if err := own.Begin(ctx); err != nil {
		return err
	}
	mark, tail, err := c.archive.Mark(own.Log())
	if err != nil {
		return err
	}
	same := true
	if mark > own.Confirmed() && mark <= own.Last() {
		if same, err = own.Holds(mark, tail); err != nil {
			return err
		}
	}
	if !same || mark < own.Confirmed() || mark > own.Last() { // one of the two was restored from a backup
		return own.Repeat(ctx)
	}
	if err := own.Confirm(ctx, mark); err != nil {
		return err
	}
	own.Forget()
	for ctx.Err() == nil {
		f, err := own.Next(ctx, mark)
		if err != nil {
			return err
		}
		if f.Last == 0 {
			select {
			case <-ctx.Done():
			case <-own.Changed():
			}
			continue
		}
		taken, err := c.archive.Take(ctx, &f, c.refuse)
		if errors.Is(err, store.ErrIncomplete) {
			own.Forget()
			continue
		}
		if err != nil || !taken {
			return err
		}
		if err := own.Confirm(ctx, f.Last); err != nil {
			return err
		}
		mark = f.Last
	}
	return nil
}
