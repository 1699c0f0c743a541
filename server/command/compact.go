package command

import (
	"context"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store/volume"
)

// Compact is "mneme compact".
type Compact struct {
	Target `embed:""`
}

// Run returns the space of erased data to the volume, at the cost of rewriting most of the store.
func (c *Compact) Run(ctx context.Context, s *Env) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	before, here := sizeOf(cfg.Data), true
	err = c.manage(ctx, mustExist, func(client *admin.Client) error {
		done := s.waiting("compacting")
		defer done()
		here = client.Holder() == nil
		return client.Upkeep().Compact(ctx)
	})
	if err != nil {
		return err
	}
	if !here {
		fmt.Fprintln(s.Out, "the data of the server is compacted")
		return nil
	}
	fmt.Fprintf(s.Out, "the data in %s takes %s; before it took %s\n", cfg.Data, amount(sizeOf(cfg.Data)), amount(before))
	return nil
}

// sizeOf returns how much the files of a directory take on the volume, which is less than their lengths, because the
// database preallocates files. Files that disappear meanwhile do not count.
func sizeOf(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, unseen error) error {
		if unseen == nil && !entry.IsDir() {
			if file, err := entry.Info(); err == nil {
				size += volume.Taken(file)
			}
		}
		return nil
	})
	return size
}
