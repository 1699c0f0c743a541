package files

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// examineTables reads the logs of memory tables and the untrusted tables, and compares the tables with the manifest.
func (s *Survey) examineTables(tables, memories []string) error {
	manifest, err := salvage.ReadManifest(s.path(badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		s.refuse(badger.ManifestFilename, "it is missing, and says which files are the store's data")
		return nil
	}
	if err != nil {
		s.refuse(badger.ManifestFilename, "%v", err)
		return nil
	}
	unlisted, err := s.findUnlisted(tables, manifest)
	if err != nil {
		return err
	}
	for _, name := range memories {
		if err := s.examineMemory(name, unlisted); err != nil {
			return err
		}
	}
	tables = slices.DeleteFunc(tables, func(name string) bool { return slices.Contains(s.Leftover, name) })
	if err := s.examineListed(tables); err != nil {
		return err
	}
	if err := s.searchListed(tables, unlisted, manifest); err != nil {
		return err
	}
	if name := unlisted.rest(); name != "" {
		s.refuse(badger.ManifestFilename, "it does not list %s, which holds data that is nowhere else", name)
	}
	for _, was := range s.changed {
		if filepath.Ext(was.Name) != ".vlog" {
			s.refuse(was.Name, "it is not as it was when the store was closed")
		}
	}
	if manifest.Cut > 0 {
		s.replace(badger.ManifestFilename, copyFile, "its last %d bytes are incomplete; all tables are accounted for", manifest.Cut)
	}
	return nil
}

// findUnlisted compares the tables with those of the manifest. It returns those that the manifest neither lists nor calls
// removed.
func (s *Survey) findUnlisted(tables []string, manifest *salvage.Manifest) (*unlistedTables, error) {
	unlisted := newUnlistedTables()
	known := make(map[uint64]bool)
	for _, name := range tables {
		number, _ := fileNumber(name)
		known[uint64(number)] = true
		if _, listed := manifest.Tables[uint64(number)]; listed {
			continue
		}
		s.Leftover = append(s.Leftover, name)
		if _, removed := manifest.Removed[uint64(number)]; removed {
			continue
		}
		if err := unlisted.add(s.path(name), name); err != nil {
			return nil, err
		}
	}
	for number := range manifest.Tables {
		if !known[number] {
			s.refuse(fmt.Sprintf("%06d.sst", number), "it is missing")
		}
	}
	return unlisted, nil
}

// examineListed reads the tables of the manifest that are not trusted.
func (s *Survey) examineListed(tables []string) error {
	for _, name := range tables {
		if s.passesOver(name) {
			continue
		}
		if err := s.examineTable(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *Survey) examineTable(name string) error {
	t, err := salvage.ReadTable(s.path(name), func(e *salvage.Entry) error {
		s.follow(e)
		return nil
	})
	if err != nil {
		return err
	}
	s.newest = max(s.newest, t.Newest)
	if !t.Whole() {
		s.refuse(name, "%s", t.Problem())
	}
	return nil
}

// searchListed looks for what unlisted tables hold in the listed ones. Unlisted tables are made from listed ones of two
// neighboring levels, mostly the first ones, or from the log of a memory table.
func (s *Survey) searchListed(tables []string, unlisted *unlistedTables, manifest *salvage.Manifest) error {
	level := func(name string) uint32 {
		number, _ := fileNumber(name)
		return manifest.Tables[uint64(number)]
	}
	slices.SortStableFunc(tables, func(a, b string) int { return cmp.Compare(level(a), level(b)) })
	for _, name := range tables {
		if unlisted.rest() == "" {
			break
		}
		whole, err := salvage.ReadBlocks(s.path(name), unlisted.mayHold, func(e *salvage.Entry) error {
			unlisted.strike(e)
			return nil
		})
		if err == nil && !whole {
			err = s.examineTable(name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Survey) examineMemory(name string, unlisted *unlistedTables) error {
	l, err := salvage.ReadCommits(s.path(name), func(c salvage.Commit) error {
		for i := range c.Entries {
			unlisted.strike(&c.Entries[i])
			s.follow(&c.Entries[i])
		}
		if c.Ended {
			s.newest = max(s.newest, c.Entries[0].Version)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(l.Bad) > 0 {
		s.holed = append(s.holed, name)
	}
	switch {
	case !l.Whole(), l.Size < salvage.HeaderSize:
		s.replace(name, salvage.MendCommits, "%s", logProblem(&l))
	case l.Tail == salvage.TailTorn:
		s.torn = append(s.torn, name)
	}
	return nil
}

// follow checks that there is a value where an entry leads.
func (s *Survey) follow(e *salvage.Entry) {
	p, ok := e.Pointer()
	if !ok {
		return
	}
	if p.File > s.maxValue { // Badger would reuse its number for a new file, and entries would lead into that
		s.refuse(fmt.Sprintf("%06d.vlog", p.File), "it is missing")
		return
	}
	f, there := s.values[p.File]
	from, to := int64(p.Offset), int64(p.Offset)+int64(p.Size)
	if there && to <= f.size && !slices.ContainsFunc(f.bad, func(b salvage.Stretch) bool { return from < b.To && to > b.From }) {
		return
	}
	if p.File == s.maxValue && to > f.size { // what Badger would truncate as unfinished was finished
		s.replace(fmt.Sprintf("%06d.vlog", p.File), salvage.MendValues, "it ends at byte %d, and later values are missing", f.size)
	}
	s.dangling = append(s.dangling, dangling{slices.Clone(e.Key), e.Version, p.File})
}
