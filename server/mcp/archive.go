package mcp

import (
	"context"

	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search"
)

// Archive is the recorded memory, as the tools read it.
type Archive interface {
	Sessions(account string, q store.SessionQuery) (store.SessionPage, error)
	Session(account, id string) (*store.Session, error)
	SessionSummary(account, session string) (*store.SessionSummary, error) // nil: no model has written one
	Timeline(account, session string, q store.TimelineQuery) (store.TimelinePage, error)
	Turn(account, exchange string) (store.TimelineEntry, error)
	Usage(ctx context.Context, account string) (store.Usage, error)
	Erase(ctx context.Context, account string, sel store.Selection, dryRun bool) (*store.Erasure, error)
}

// Recorder records notes.
type Recorder interface {
	Begin(ctx context.Context, o *store.Opening) (store.Recording, error)
}

// Recaller returns what earlier sessions say about a question or a directory.
type Recaller interface {
	Recall(ctx context.Context, q *recall.Query) recall.Recalled
	Digest(ctx context.Context, account, directory, session string) recall.Recalled
	Running(ctx context.Context, account, key string) (sessions []string)
}

// Searcher searches the record.
type Searcher interface {
	Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error)
	Status(ctx context.Context, account string) (*search.Status, error) // nil: there is no index
}
