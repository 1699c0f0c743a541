package store

import (
	"github.com/mnemeproxy/mneme/store/internal/feed"
)

// Feed tells the stages after an answer what has happened, see package feed.
type Feed struct {
	*feed.Feed
	store *core
}

// The names of package feed.
type (
	// Stage derives something from exchanges, turns or sessions.
	Stage = feed.Stage
	// Change reports that an exchange has ended, that a turn was added, changed or removed, or that a session changed.
	Change = feed.Change
	// Batch is changes that a stage reads together.
	Batch = feed.Batch
	// StageStats is what a stage has yet to do, and what it has done since the store was opened, for all accounts.
	StageStats = feed.StageStats
)

// Stages.
const (
	StageDigest   = feed.StageDigest
	StageWords    = feed.StageWords
	StageVectors  = feed.StageVectors
	StageSessions = feed.StageSessions
)
