package search

import (
	"context"
	"math"
	"time"
)

// purgeDelay is how long words of an erased turn may stay in the files of the index, where no search finds them.
// Removing them rewrites whole files, which is too expensive for every turn.
const purgeDelay = 10 * time.Minute

// purgeInTime rewrites the files of the index some time after turns were removed.
func (x *Index) purgeInTime(ctx context.Context) {
	tick := time.NewTicker(purgeDelay)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := x.Purge(ctx); err != nil && ctx.Err() == nil {
			x.log.Error("words of erased turns are still in the files of the search index; it is tried again", "error", err)
		}
	}
}

// Purge removes what is left of erased turns from the files of the index. It returns when that is done.
func (x *Index) Purge(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.life, cancel)()
	if _, err := x.takeUpSessionsBefore(ctx, math.MaxInt); err != nil { // what was written about them tells of the erased, too
		return err
	}
	if err := x.verifiedOnce(ctx); err != nil {
		return err
	}
	x.purging.Lock()
	defer x.purging.Unlock()
	release, err := x.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := x.lexical.Purge(ctx); err != nil {
		return unreadable(err)
	}
	return nil
}
