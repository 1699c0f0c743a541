package store

import "github.com/mnemeproxy/mneme/store/internal/files"

// Damage is something that is wrong with a file of the store.
type Damage = files.Damage

// DamageError says why a store is not opened.
type DamageError = files.DamageError

// Damages gives what was found to be wrong with the files of the store in dir and was noted. A note stays until it is
// taken out of the directory "damaged", where the files lie as they were found.
func Damages(dir string) []Damage { return files.Damages(dir) }

// Examine looks at the files of the store in dir and changes nothing. It gives what is wrong with them now, and what was
// noted before; of a store that is in use, which looks after its files itself, only that.
func Examine(dir string) ([]Damage, error) { return files.Inspect(dir) }
