package files

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/mnemeproxy/mneme/store/volume"
)

// Damage is a fault in a file of the store.
type Damage struct {
	File    string    `json:"file"` // in the store directory
	Problem string    `json:"problem"`
	Found   time.Time `json:"found"`
	Kept    string    `json:"kept,omitempty"` // where in the store directory the original is kept; "": in its place
	Lost    []string  `json:"lost,omitempty"` // what was lost, as far as known

	Settled time.Time `json:"settled,omitzero"` // when a check found that nothing is lost by it any more
}

const (
	// DamagedDir has the original files, and a note on each.
	DamagedDir = "damaged"

	leftoverDir = "leftover" // in the store's directory: tables left by a killed process, until the store is closed

	// MaxNamed is how many losses a damage lists.
	MaxNamed = 1000
)

func newDamage(file, format string, args ...any) *Damage {
	return &Damage{File: file, Problem: fmt.Sprintf(format, args...), Found: time.Now().UTC()}
}

// String returns the file and its fault.
func (d *Damage) String() string { return d.File + ": " + d.Problem }

// DamageError is the error for a store that cannot be opened because of damage.
type DamageError struct {
	Dir    string
	Damage []Damage
}

func (e *DamageError) Error() string {
	d := e.Damage[0]
	more := ""
	if n := len(e.Damage) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("%s is damaged: %s%s; nothing was changed. Put the file back, restore a backup with mneme restore, or salvage what is readable with mneme recover",
		filepath.Join(e.Dir, d.File), d.Problem, more)
}

// keep keeps the original file. Its replacement must be another file, not new content.
func (d *Damage) keep(dir string) error {
	return d.keepBy(dir, func(from, to string) error {
		if os.Link(from, to) == nil { // some file systems have no links
			return nil
		}
		return copyFile(from, to)
	})
}

// keepCopy is keep for a file of the open database, which truncates files before it removes them.
func (d *Damage) keepCopy(dir string) error { return d.keepBy(dir, copyFile) }

func (d *Damage) keepBy(dir string, put func(from, to string) error) error {
	if err := os.MkdirAll(filepath.Join(dir, DamagedDir), 0o700); err != nil {
		return err
	}
	kept := filepath.Join(DamagedDir, d.Found.Format("20060102T150405.000")+"-"+filepath.Base(d.File))
	if err := put(filepath.Join(dir, d.File), filepath.Join(dir, kept)); err != nil {
		return err
	}
	d.Kept = kept
	return nil
}

// note records a damage until a check settles it, or an operator removes the note.
func (d *Damage) note(dir string) error {
	for _, other := range Damages(dir) {
		if other.File == d.File && other.Problem == d.Problem {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, DamagedDir), 0o700); err != nil {
		return err
	}
	name := d.Found.Format("20060102T150405.000") + "-" + filepath.Base(d.File) + ".json"
	return d.write(filepath.Join(dir, DamagedDir, name))
}

func (d *Damage) write(path string) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return volume.WriteSynced(path, append(text, '\n'))
}

// Damages returns the recorded damage to files of the store in dir that is not settled. A note stays until a check
// settles it, or until it is removed from the directory "damaged", which has the original files.
func Damages(dir string) (all []Damage) {
	for _, n := range damageNotes(dir) {
		if n.Settled.IsZero() {
			all = append(all, n.Damage)
		}
	}
	return all
}

// damageNote is a recorded damage, in a file.
type damageNote struct {
	Damage
	path string
}

func damageNotes(dir string) (all []damageNote) {
	notes, _ := filepath.Glob(filepath.Join(dir, DamagedDir, "*.json"))
	for _, path := range notes {
		n := damageNote{path: path}
		text, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(text, &n.Damage) != nil {
			name, _ := filepath.Rel(dir, path)
			n.Damage = Damage{File: name, Problem: "this note on damage cannot be read"}
		}
		all = append(all, n)
	}
	return all
}

// report records a damage of the store in dir.
func (d *Damage) report(dir string, log *slog.Logger) {
	log.Error("the store is damaged", "file", d.File, "problem", d.Problem, "kept", d.Kept, "lost", d.Lost)
	if err := d.note(dir); err != nil {
		log.Error("a damage of the store could not be noted", "file", d.File, "error", err)
	}
}
