package memory

import (
	"context"
	"iter"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Archive is the recorded memory of accounts. The error for an object that does not exist, or belongs to another
// account, is [codec.KindNotFound].
type Archive interface {
	Reader
	Editor
}

// Reader reads the record.
type Reader interface {
	Sessions(account string, q record.SessionQuery) (record.SessionPage, error)
	Session(account, id string) (*record.Session, error)
	SessionSummary(account, session string) (*record.SessionSummary, error) // nil: no model has written one
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
	Turn(account, exchange string) (record.TimelineEntry, error)
	Exchanges(account string, q record.ExchangeQuery) (record.ExchangePage, error)
	Exchange(account, id string) (*record.Exchange, error)
	ExchangeInfo(account, id string) (*record.ExchangeInfo, error)
	Usage(ctx context.Context, account string) (record.Usage, error)
	RetentionOf(account string) store.Retention
	Erasure(account, id string) (*record.Erasure, error)
	Export(ctx context.Context, account string, sel record.Selection) iter.Seq2[record.Exported, error]
	Subscribe(account string, after uint64) (*record.Subscription, error) // to the events after that one
}

// Editor changes the record.
type Editor interface {
	DescribeSession(account, id string, d record.Description) (*record.Session, error)
	DescribeExchange(account, id string, d record.Description) (*record.ExchangeInfo, error)
	MergeSession(ctx context.Context, account, from, into string) (*record.Session, error)
	SplitSession(ctx context.Context, account, session, exchange string) (*record.Session, error)
	Erase(ctx context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error)
	Import(ctx context.Context, account string, e record.Exported) (taken bool, err error)
	Audited(e store.AuditEntry, act func(*store.AuditEntry) error) error // records act and its result in the audit record
}

// Searcher searches the record.
type Searcher interface {
	Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error)
	Wait(ctx context.Context, account string) error                     // until everything that has ended by now is searchable
	Status(ctx context.Context, account string) (*search.Status, error) // nil: there is no index
}

// Recaller returns what earlier sessions say about a question or a directory.
type Recaller interface {
	Offer(ctx context.Context, q *recall.Query) recall.Recalled
	Digest(ctx context.Context, q *recall.Query) recall.Recalled
	Resume(ctx context.Context, q *recall.Query) recall.Recalled
	Before(ctx context.Context, q *recall.Query, call *record.Part) recall.Recalled
	Counts(account string) recall.Counts                // since the start
	SessionKnownAs(account, id string) (session string) // by any of its ids; "": unknown
}

// Ledger has the usage and cost of exchanges.
type Ledger interface {
	Rollups(ctx context.Context, q record.RollupQuery, visit func(record.RollupOf, *record.Rollup)) error
}
