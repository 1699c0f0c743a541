package search

import (
	"context"
	"time"
)

// purgeDelay is how long words of a turn that was erased may stay in the files of the index, where nothing finds them.
// That takes writing whole files again, and so not with every turn.
const purgeDelay = 10 * time.Minute

// purgeInTime writes the files of the index again some time after turns were taken out of it.
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

// Purge takes what is left of erased turns out of the files of the index. It returns when that has been done.
func (x *Index) Purge(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.life, cancel)()
	if err := x.renewSessions(ctx); err != nil {
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

// renewSessions indexes all sessions that have changed: one that has lost a turn is in the index with what that said until
// then, and nothing but the turn tells that files hold what was erased.
func (x *Index) renewSessions(ctx context.Context) error {
	for changed := x.changedBefore(); ; {
		if taken, err := x.takeUpSessions(ctx, changed); err != nil || taken < sessionBatch {
			return err
		}
	}
}
