package mcp

import (
	"context"
	"time"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Archive is the recorded memory, as the tools read it.
type Archive interface {
	Sessions(account string, q record.SessionQuery) (record.SessionPage, error)
	Session(account, id string) (*record.Session, error)
	SessionSummary(account, session string) (*record.SessionSummary, error) // nil: no model has written one
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
	Turn(account, exchange string) (record.TimelineEntry, error)
	Usage(ctx context.Context, account string) (record.Usage, error)
	Erase(ctx context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error)
}

// Recorder records notes.
type Recorder interface {
	Begin(ctx context.Context, o *record.Opening) (store.Recording, error)
}

// Recaller returns what earlier sessions say about a question or a directory.
type Recaller interface {
	Recall(ctx context.Context, q *recall.Query) recall.Recalled
	Digest(ctx context.Context, q *recall.Query) recall.Recalled
	Resume(ctx context.Context, q *recall.Query) recall.Recalled
	Running(ctx context.Context, account, key string) (sessions []string)
	Runs(account, session, key string, said time.Time) bool
}

// Searcher searches the record.
type Searcher interface {
	Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error)
	Status(ctx context.Context, account string) (*search.Status, error) // nil: there is no index
}
