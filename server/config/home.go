package config

import (
	"os"
	"path/filepath"
	"runtime"
)

// StandardData is the default data directory, in the home of the user who starts the program. An existing store in
// [DefaultData], where earlier versions kept it, takes precedence. Without a user, as in many containers, it is
// DefaultData.
func StandardData(lookup func(string) (string, bool)) string {
	home := dataHome(runtime.GOOS, lookup)
	if home == "" || holdsStore(DefaultData) {
		return DefaultData
	}
	return home
}

// dataHome returns the user's data directory for this program; "" if the environment names no user.
func dataHome(system string, lookup func(string) (string, bool)) string {
	variable := func(name string) string {
		value, _ := lookup(name)
		return value
	}
	below := func(base string, names ...string) string {
		if !filepath.IsAbs(base) {
			return ""
		}
		return filepath.Join(append([]string{base}, names...)...)
	}
	switch system {
	case "windows":
		return below(variable("LocalAppData"), "mneme", "data")
	case "darwin", "ios":
		return below(variable("HOME"), "Library", "Application Support", "mneme", "data")
	}
	if dir := below(variable("XDG_DATA_HOME"), "mneme"); dir != "" {
		return dir
	}
	return below(variable("HOME"), ".local", "share", "mneme")
}

// configHome returns the directory of a user's configuration file; "" if the environment names no user.
func configHome(system string, lookup func(string) (string, bool)) string {
	variable := func(name string) string {
		value, _ := lookup(name)
		return value
	}
	var base string
	switch system {
	case "windows":
		base = variable("AppData")
	case "darwin", "ios":
		base = variable("HOME")
		if base != "" {
			base = filepath.Join(base, "Library", "Application Support")
		}
	default:
		base = variable("XDG_CONFIG_HOME")
		if base == "" && variable("HOME") != "" {
			base = filepath.Join(variable("HOME"), ".config")
		}
	}
	if !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(base, "mneme")
}

// Home returns the directory of a user's own settings of this program; "" if the environment names no user.
func Home() string { return configHome(runtime.GOOS, os.LookupEnv) }

// userFile returns the user's configuration file, or "" if there is none.
func userFile(lookup func(string) (string, bool)) string {
	home := configHome(runtime.GOOS, lookup)
	if home == "" {
		return ""
	}
	name := filepath.Join(home, "mneme.yaml")
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return name
}

// holdsStore reports whether a directory is a store, and does not merely have its name.
func holdsStore(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, "badger"))
	return err == nil && info.IsDir()
}
