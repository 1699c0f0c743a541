package store

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/store/redact"
)

// Options configure [Open]. The zero value of every field but Dir is the default.
type Options struct {
	Dir        string       // store directory, created with mode 0700
	Durability Durability   // what an acknowledged exchange survives
	OnPressure Pressure     // what happens when the store cannot take more
	MasterKey  []byte       // 32 bytes; nil: read from, or created in, Dir/master.key (mode 0600)
	Log        *slog.Logger // nil: discard
	Node       uint16       // number in a cluster, which the ids of exchanges name; 0: in none

	// PreviousMasterKey opens what was sealed before MasterKey was changed, and is sealed under that at the opening.
	// nil: it was not. Without MasterKey it means nothing.
	PreviousMasterKey []byte

	// Digest says what an exchange says, in no format's shape. It runs in the goroutine that finishes a small exchange, and for
	// the others behind the requests, one at a time in the order they ended; and may be called again for the same one.
	// The exchange's session is not set, and its bytes are valid during the call. Of an exchange with Items.From above 0
	// it says what the request's items from there on say, and has nothing but those. nil: nothing is digested.
	Digest func(*Exchange) (Digest, error)

	// Summaries says that somebody writes summaries of sessions: those that grow are noted for it.
	Summaries bool

	Retention Retention     // for accounts without rules of their own
	AuditAge  time.Duration // how long acts of administration are kept, the newest 100,000 at most; 0: two years

	Clock func() time.Time // for the life and use of service keys, and for how long usage is given again; nil: time.Now

	// Redact masks credentials in everything that is stored. nil: bytes are stored as they came.
	Redact *redact.Redactor

	// Stream begins to read a streamed answer of a surface, so that Redact finds what is spread over its events.
	// nil: only what stands in one piece is found.
	Stream func(surface string) StreamReader

	AnswerBytes int64 // of one answer that are recorded, what is beyond them passes only; 0: 64 MiB
	QueueBytes  int64 // bytes that may wait for the writer before OnPressure applies; 0: 64 MiB
	MinFreeDisk int64 // free bytes on the volume below which nothing new is begun; 0: what the database may need, see FORMAT.md; negative: no gate
}

// Durability says what an acknowledged exchange survives.
type Durability uint8

const (
	Process Durability = iota // the end of the process, kill -9 included
	Power                     // the loss of power: every commit is synced
)

// String is the name used in configuration.
func (d Durability) String() string {
	if d == Power {
		return "power"
	}
	return "process"
}

// ParseDurability reads a name as [Durability.String] writes it.
func ParseDurability(name string) (Durability, error) {
	switch name {
	case "process":
		return Process, nil
	case "power":
		return Power, nil
	}
	return Process, fmt.Errorf("unknown durability %q (known: process, power)", name)
}

// Pressure says what happens to an exchange when the store cannot take it now.
type Pressure uint8

const (
	Wait Pressure = iota // a full queue slows the request down; a full disk refuses it
	Shed                 // the exchange passes without a record, and is counted
)

// String is the name used in configuration.
func (p Pressure) String() string {
	if p == Shed {
		return "shed"
	}
	return "wait"
}

// ParsePressure reads a name as [Pressure.String] writes it.
func ParsePressure(name string) (Pressure, error) {
	switch name {
	case "wait":
		return Wait, nil
	case "shed":
		return Shed, nil
	}
	return Wait, fmt.Errorf("unknown pressure rule %q (known: wait, shed)", name)
}
