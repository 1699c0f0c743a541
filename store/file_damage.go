package store

import "github.com/mnemeproxy/mneme/store/internal/files"

// Damage is a fault in a file of the store.
type Damage = files.Damage

// DamageError says why a store cannot be opened.
type DamageError = files.DamageError

// Damages returns the recorded damage to files of the store in dir. A record stays until it is removed from the
// directory "damaged", which has the original files.
func Damages(dir string) []Damage { return files.Damages(dir) }

// Examine checks the files of the store in dir without changing anything. It returns the present faults and the
// recorded ones; for a store in use, which checks its own files, only the latter.
func Examine(dir string) ([]Damage, error) { return files.Inspect(dir) }
