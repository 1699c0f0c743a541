package files

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// checkNotes reports the damage that was noted. What nothing is lost by is reported once, and then settled. A note whose
// lost values are all readable, superseded or erased is settled without a report.
func (d *Database) checkNotes(ctx context.Context, found func(Damage)) error {
	notes := slices.DeleteFunc(damageNotes(d.dir), func(n damageNote) bool { return !n.Settled.IsZero() })
	var unreadable map[string]bool
	if slices.ContainsFunc(notes, func(n damageNote) bool { return n.ofValues() }) {
		var err error
		if unreadable, err = d.unreadableSubjects(ctx); err != nil {
			return err
		}
	}
	for _, n := range notes {
		told := n.Damage
		if told.Kept != "" {
			told.Problem += "; the file as it was found is " + told.Kept
		}
		if !n.losesNothing(unreadable) {
			told.Problem += ". This stays noted until the note is taken out of the directory " + DamagedDir
			found(told)
			continue
		}
		if len(n.Lost) == 0 {
			told.Problem += ". Nothing is lost by it, and the next check does not report it"
			found(told)
		}
		n.Settled = time.Now().UTC()
		if err := n.write(n.path); err != nil {
			return err
		}
	}
	return nil
}

// ofValues reports whether a note is on a value log.
func (n *damageNote) ofValues() bool { return filepath.Ext(n.File) == ".vlog" }

// losesNothing reports whether no data is lost by a noted damage. unreadable are the subjects of unreadable values.
func (n *damageNote) losesNothing(unreadable map[string]bool) bool {
	switch {
	case n.ofValues() && len(n.Lost) > 0 && len(n.Lost) < MaxNamed:
		return !slices.ContainsFunc(n.Lost, func(subject string) bool { return unreadable[subject] })
	case n.ofValues():
		return len(unreadable) == 0
	case filepath.Ext(n.File) == ".mem":
		return !strings.Contains(n.Problem, lossOfCommits)
	}
	return slices.Contains(withoutData, filepath.Base(n.File))
}

// withoutData are the files that lose no data when they are mended or made again. A damaged manifest is only mended if it
// lists all tables.
var withoutData = []string{registryFile, discardFile, stopNoteFile, commitsFile, badger.ManifestFilename}

// unreadableSubjects returns what unreadable values belong to. It reads all values in value logs.
func (d *Database) unreadableSubjects(ctx context.Context) (map[string]bool, error) {
	subjects := make(map[string]bool)
	d.judging.Store(true)
	defer d.judging.Store(false)
	smallest := d.Opts().ValueThreshold / 2 // sizes of values in logs are approximate
	err := d.View(func(tx *badger.Txn) error {
		return kv.EachItem(ctx, tx, nil, func(item *badger.Item) error {
			if item.ValueSize() >= smallest && !readable(item) {
				subjects[kv.SubjectOf(item.Key())] = true
			}
			return nil
		})
	})
	return subjects, err
}
