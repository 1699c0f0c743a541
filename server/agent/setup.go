package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// Setup connects an agent to a server permanently, in its own configuration files.
type Setup struct {
	Name  string
	files func(Homes, Server) []change
	note  string // what the user still has to do
}

// Homes are the directories in which agents look for their configuration.
type Homes struct {
	User   string                      // the home directory
	Lookup func(string) (string, bool) // reads the environment
	System string                      // as runtime.GOOS names it
}

// UserHomes returns those of this process.
func UserHomes() (Homes, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return Homes{}, errors.New("there is no home directory to find the agent's configuration in; set HOME")
	}
	return Homes{User: home, Lookup: os.LookupEnv, System: runtime.GOOS}, nil
}

// in returns a path below the directory in a variable, or else below one in the home directory.
func (h Homes) in(variable string, other []string, path ...string) string {
	if dir, _ := h.Lookup(variable); variable != "" && filepath.IsAbs(dir) {
		return filepath.Join(append([]string{dir}, path...)...)
	}
	return filepath.Join(slices.Concat([]string{h.User}, other, path)...)
}

// settings returns a path below the directory for programs' settings.
func (h Homes) settings(path ...string) string {
	switch h.System {
	case "windows":
		return h.in("AppData", []string{"AppData", "Roaming"}, path...)
	case "darwin":
		return h.in("", []string{"Library", "Application Support"}, path...)
	}
	return h.in("XDG_CONFIG_HOME", []string{".config"}, path...)
}

// change is the change to one file.
type change struct {
	file string
	edit editor
}

// editor changes a text and undoes its change in a text that has changed since.
type editor interface {
	// apply returns the changed text, and what revert needs. text is nil if there is no file.
	apply(text []byte) (changed []byte, done []Edit, err error)
}

// Edit is one change to a text: of a member of JSON, or of a part of a text.
type Edit struct {
	Pointer string `json:"pointer,omitempty"` // RFC 6901; "": a part of a text
	Before  []byte `json:"before,omitempty"`  // the old value; nil: none
	After   []byte `json:"after"`
}

// Record is what a setup has changed, for [Undo].
type Record struct {
	Agent string       `json:"agent"`
	Key   string       `json:"key,omitempty"` // id of the key made for it
	Files []FileRecord `json:"files"`
}

// FileRecord is the change to one file.
type FileRecord struct {
	File    string      `json:"file"`
	Existed bool        `json:"existed"`
	Mode    fs.FileMode `json:"mode,omitempty"` // of an existing file
	Before  []byte      `json:"before,omitempty"`
	After   []byte      `json:"after"`
	Edits   []Edit      `json:"edits"`
	Made    []string    `json:"made,omitempty"` // created directories, innermost first
}

var setups = []Setup{
	{Name: "claude", files: setUpClaude},
	{Name: "codex", files: setUpCodex},
	{Name: "opencode", files: setUpOpencode},
	{Name: "cursor", files: setUpCursor, note: "Cursor has the memory now. Its models are led elsewhere in its settings alone: under Models, switch on \"Override OpenAI Base URL\"; " +
		"its own servers call that URL, so it has to be one that they reach"},
	{Name: "vscode", files: setUpVSCode, note: "VS Code has the memory now. Its models are led elsewhere in its settings alone: under Manage Models, add an OpenAI-compatible endpoint"},
}

// Note returns what the user still has to do after a setup; "" for nothing.
func Note(name string) string {
	for i := range setups {
		if setups[i].Name == name {
			return setups[i].note
		}
	}
	return ""
}

// Apply connects the agent to the server. It reads all files before it writes any, and calls keep with the record
// before that, so that everything can be undone.
func Apply(name string, h Homes, s Server, keep func(Record) error) (Record, error) {
	i := slices.IndexFunc(setups, func(s Setup) bool { return s.Name == name })
	if i < 0 {
		return Record{}, fmt.Errorf("no agent %q can be set up", name)
	}
	record := Record{Agent: name}
	for _, c := range setups[i].files(h, s) {
		f, err := prepare(c)
		if err != nil {
			return Record{}, err
		}
		record.Files = append(record.Files, f)
	}
	if err := keep(record); err != nil {
		return Record{}, err
	}
	for i := range record.Files {
		if err := record.Files[i].write(); err != nil {
			return record, errors.Join(err, takeBack(record.Files[:i]))
		}
	}
	return record, nil
}

func takeBack(files []FileRecord) (err error) {
	for i := range files {
		_, undone := files[i].undo()
		err = errors.Join(err, undone)
	}
	return err
}

// prepare computes the new content of a file.
func prepare(c change) (f FileRecord, err error) {
	f.File = c.file
	if real, err := filepath.EvalSymlinks(c.file); err == nil {
		f.File = real // a link, as for dotfiles, stays one
	}
	text, err := os.ReadFile(f.File)
	switch {
	case err == nil:
		info, err := os.Stat(f.File)
		if err != nil {
			return f, err
		}
		f.Existed, f.Mode, f.Before = true, info.Mode().Perm(), text
	case !errors.Is(err, fs.ErrNotExist):
		return f, fmt.Errorf("%s cannot be read, and is left as it is: %w", f.File, err)
	default:
		for dir := filepath.Dir(f.File); ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
				break
			}
			f.Made = append(f.Made, dir)
		}
	}
	f.After, f.Edits, err = c.edit.apply(text)
	if err != nil {
		return f, fmt.Errorf("%s is left as it is: %w", f.File, err)
	}
	return f, nil
}

// write writes the new text, readable only by this user, because it holds a key.
func (f *FileRecord) write() error {
	if err := os.MkdirAll(filepath.Dir(f.File), 0o700); err != nil {
		return err
	}
	return replace(f.File, f.After, 0o600)
}

// Undo undoes a setup, and reports on each file. An unchanged file is restored byte for byte; from a changed one, only
// what setup wrote is removed.
func Undo(r Record) (said []string, err error) {
	for i := range r.Files {
		text, undone := r.Files[i].undo()
		said, err = append(said, text), errors.Join(err, undone)
	}
	return said, err
}

func (f *FileRecord) undo() (said string, err error) {
	now, err := os.ReadFile(f.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return f.File + " is no longer there", nil
	case err != nil:
		return "", err
	case f.Existed && bytes.Equal(now, f.Before):
		return f.File + " is as it was", nil
	case bytes.Equal(now, f.After) && f.Existed:
		return f.File + " is as it was", replace(f.File, f.Before, f.Mode)
	case bytes.Equal(now, f.After):
		if err := os.Remove(f.File); err != nil {
			return "", err
		}
		for _, dir := range f.Made {
			_ = os.Remove(dir) // stays unless it is empty
		}
		return f.File + " is removed", nil
	}
	reverted, left, err := revert(now, f.Edits)
	if err != nil {
		return "", fmt.Errorf("%s was changed since, and what setup wrote is not found in it; remove it by hand: %w", f.File, err)
	}
	mode := f.Mode
	if !f.Existed {
		mode = 0o600
	}
	said = f.File + " was changed since; what setup wrote is out of it"
	if left > 0 {
		said = fmt.Sprintf("%s was changed since; what setup wrote is out of it, but for %d values that others have set", f.File, left)
	}
	return said, replace(f.File, reverted, mode)
}

// replace replaces a file as a whole.
func replace(file string, text []byte, mode fs.FileMode) error {
	fresh, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = fresh.Write(text)
	if err = errors.Join(err, fresh.Sync(), fresh.Close()); err == nil {
		err = os.Chmod(fresh.Name(), mode)
	}
	if err == nil {
		err = os.Rename(fresh.Name(), file)
	}
	if err != nil {
		_ = os.Remove(fresh.Name())
	}
	return err
}
