package catalog

import "time"

// statistics say what an account's turns hold.
type statistics struct {
	read   time.Time
	turns  uint64            // of the account; 0: too few for statistics, or unknown
	common map[string]uint64 // turns that hold a lexeme, of the common ones
}
