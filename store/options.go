package store

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Options configure [Open]. The zero value of every field except Dir is the default.
type Options struct {
	Dir        string       // store directory, created with mode 0700
	Durability Durability   // what an acknowledged exchange survives
	OnPressure Pressure     // what happens if the store cannot keep up
	MasterKey  []byte       // 32 bytes; nil: read from, or created in, Dir/master.key (mode 0600)
	Log        *slog.Logger // nil: discard
	Node       uint16       // number in a cluster, contained in exchange ids; 0: none

	// PreviousMasterKey opens what was sealed before MasterKey was changed, and is resealed on opening. nil: unchanged.
	// It has no effect without MasterKey.
	PreviousMasterKey []byte

	// Digest returns the content of an exchange, independent of its format. Small exchanges are digested in the
	// goroutine that finishes them, others in the background, one at a time in the order they ended. It may be called
	// again for the same exchange. The exchange's session is not set, and its bytes are valid only during the call. If
	// Items.From is above 0, the exchange has only the request's items from there on, and Digest returns the content of
	// those. nil: nothing is digested.
	Digest func(*record.Exchange) (record.Digest, error)

	// Summaries says that sessions are summarized, so those that grow are noted for that.
	Summaries bool

	Retention Retention     // for accounts without rules of their own
	AuditAge  time.Duration // how long audit entries are kept, at most the newest 100,000; 0: two years

	Clock func() time.Time // for the life and use of service keys, and for how long usage is kept; nil: time.Now

	// Redact masks credentials in everything that is stored. nil: bytes are stored unchanged.
	Redact *redact.Redactor

	// Stream returns a reader for a streamed answer of a surface, so that Redact finds credentials that are spread over
	// its events. nil: it finds only contiguous ones.
	Stream func(surface string) record.StreamReader

	// Accepted, unless nil, is called with each erasure by request once it is committed and before anything is erased. It is
	// called again at the next start if the process ended meanwhile, and after an error, for which the erasure waits.
	Accepted func(account string, e *record.Erasure) error

	AnswerBytes int64 // recorded of one answer; the rest only passes; 0: 64 MiB
	QueueBytes  int64 // bytes in the writer's queue above which OnPressure applies; 0: 64 MiB
	MinFreeDisk int64 // free bytes on the volume below which nothing new starts; 0: what the database may need, see FORMAT.md; negative: no gate

	valueLogSize int64 // of a file; 0: by the size of the volume
}

// Durability is what an acknowledged exchange survives.
type Durability uint8

const (
	Process Durability = iota // the end of the process, including kill -9
	Power                     // the loss of power: every commit is synced
)

// String returns the name used in configuration.
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

// Pressure is what happens to an exchange that the store cannot record now.
type Pressure uint8

const (
	Wait Pressure = iota // a full queue delays the request; a full disk refuses it
	Shed                 // the exchange passes without a record, and is counted
)

// String returns the name used in configuration.
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
