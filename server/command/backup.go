package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store"
)

// Backup is "mneme backup FILE".
type Backup struct {
	Target `embed:""`
	File   string `arg:"" help:"File to write; - is standard output."`
	On     string `placeholder:"FILE" help:"Write an incremental backup on this one."`

	Overwrite bool `help:"Replace FILE if it exists."`
}

// Run writes a snapshot of the store while the server keeps running.
func (c *Backup) Run(ctx context.Context, s *Env) error {
	if _, err := os.Lstat(c.File); err == nil && c.File != "-" && !c.Overwrite {
		return fmt.Errorf("%s already exists, and later backups may be based on it; name another file, or add --overwrite", c.File)
	}
	var since uint64
	if c.On != "" {
		header, err := readBackupHeader(c.On)
		if err != nil {
			return err
		}
		since = header.Mark
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		backup, err := client.Upkeep().Backup(ctx, since)
		if err != nil {
			return err
		}
		defer backup.Close()
		size, err := s.writeFile(ctx, c.File, "backing up", backup)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "mneme: %s written; it does not contain the master key, so keep a copy of that too\n", amount(size))
		return nil
	})
}

func readBackupHeader(name string) (header store.BackupHeader, err error) {
	file, err := os.Open(name)
	if err != nil {
		return header, err
	}
	defer file.Close()
	if err := json.NewDecoder(file).Decode(&header); err != nil || header.Mark == 0 {
		return header, fmt.Errorf("%s is not a mneme backup", name)
	}
	return header, nil
}

// Restore is "mneme restore FILE...".
type Restore struct {
	StoreFlags `embed:""`
	File       []string `arg:"" help:"A full backup, then its incremental ones in order."`
}

// Run restores backups into a data directory without a store.
func (c *Restore) Run(ctx context.Context, s *Env) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	opts, err := storeOptions(&cfg, nil)
	if err != nil {
		return err
	}
	if admin.Running(ctx, cfg.Data) {
		return fmt.Errorf("a server runs on the data in %s; stop it, or restore into another directory with --data", cfg.Data)
	}
	removeIndex := func() error { // an old index would contain other turns
		if err := os.RemoveAll(indexDir(&cfg)); err != nil {
			return fmt.Errorf("remove the search index of the former data: %w", err)
		}
		return nil
	}
	for _, name := range c.File {
		if err := restore(ctx, s, opts, name, removeIndex); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	fmt.Fprintf(s.Err, "mneme: restored into %s\n", cfg.Data)
	if _, err := os.Stat(filepath.Join(cfg.Data, "master.key")); err != nil && opts.MasterKey == nil {
		fmt.Fprintf(s.Err, "mneme: put the master key that the backed up store had into %s before it is used\n", filepath.Join(cfg.Data, "master.key"))
	}
	return nil
}

func restore(ctx context.Context, s *Env, opts store.Options, name string, removeIndex func() error) error {
	backup, err := s.shownReader(name, "restoring")
	if unopened := (*fs.PathError)(nil); errors.As(err, &unopened) {
		return unopened.Err // the caller names the file
	}
	if err != nil {
		return err
	}
	defer backup.Close()
	_, err = store.Restore(ctx, opts, backup, removeIndex)
	return err
}
