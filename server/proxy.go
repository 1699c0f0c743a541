package server

import (
	"log/slog"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/turns"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/repeats"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search"
)

// proxy is the part of a server that serves models: what the exchanges use together.
type proxy struct {
	opts   Options
	engine Engine
	ledger crossing.Ledger // of engine

	runs   backgroundRuns
	owned  ownership
	router atomic.Pointer[router.Router]
	log    *slog.Logger
	edge   *edge.Server

	recall   requestRecall
	pieces   codec.Succession // of agents' requests
	openings chatkey.Memory   // of their conversations

	held          *edge.Budget  // memory of all requests and answers, without what is set aside for work
	answers       *edge.Budget  // of the answers held, as a part of that
	conversations *edge.Budget  // of those that WebSockets remember, as a part of that
	working       chan struct{} // holds one while a large body is worked on
	beat          *heartbeats

	telemetry *telemetry.Telemetry

	refusals  *telemetry.Refusals
	limiter   Limiter
	budgets   quota.Budgets
	loops     repeats.Reports
	keyLimits atomic.Pointer[store.Limits]
}

// conversationShare is the part of the memory of all requests and answers that idle WebSockets may hold, as a fraction.
// Their clients send a conversation whole when it has been forgotten.
const conversationShare = 8

// newProxy returns a proxy that lacks its listeners, its router and its heartbeats.
func newProxy(o Options) *proxy {
	held := edge.NewBudget(o.InFlightBytes-roomForWork(o.InFlightBytes, o.BodyBytes), nil)
	from := o.Recaller
	if from == nil {
		from = o.Memory
	}
	s := &proxy{
		opts: o, engine: o.Engine, ledger: reasoningLedger{o.Engine.Notes}, log: o.Log, telemetry: o.Telemetry, refusals: telemetry.NewRefusals(o.Log),
		recall: requestRecall{options: o.Recall, from: from, notes: o.Engine.Notes, places: turns.Reader{IsBoot: search.IsBoot}, log: o.Log},
		held:   held, answers: edge.NewBudget(o.AnswerMemory, held), conversations: edge.NewBudget(o.InFlightBytes/conversationShare, held),
		working: make(chan struct{}, 1), limiter: o.Limiter,
	}
	s.owned.archive, s.owned.notes, s.owned.accounts = o.Engine.Archive, o.Engine.Notes, o.Engine.Accounts
	s.budgets.Leases = o.Leases
	return s
}

// A large body is read, masked, put on record and translated alone: that takes more memory than the body, and all of it at
// once would be more than the budget knows of. It is a matter of the processor, so that nothing is gained by doing it
// together.
const (
	largeBody     = 1 << 20
	workingCopies = 2 // that the work makes at most
	digestCopies  = 2 // that the digest of an earlier one, which is made in the background, holds meanwhile
)

// roomForWork returns how much of a budget is set aside for the one body that is worked on and the one that is digested.
// Otherwise bodies that wait for their turn could fill the budget, and none of them would be served.
func roomForWork(budget, largest int64) int64 {
	if largest < largeBody {
		return 0
	}
	return min((workingCopies+digestCopies)*largest, budget/2)
}
