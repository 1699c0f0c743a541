package store

import "github.com/mnemeproxy/mneme/store/record"

// The names of package record, under which callers of the store still know them.
type (
	AccountNumber       = record.AccountNumber
	Attempt             = record.Attempt
	Closing             = record.Closing
	Cost                = record.Cost
	Damaged             = record.Damaged
	Description         = record.Description
	Digest              = record.Digest
	Erasure             = record.Erasure
	ErasurePlace        = record.ErasurePlace
	ErasureState        = record.ErasureState
	ErrorInfo           = record.ErrorInfo
	Event               = record.Event
	EventHub            = record.EventHub
	EventKind           = record.EventKind
	Exchange            = record.Exchange
	ExchangeInfo        = record.ExchangeInfo
	ExchangePage        = record.ExchangePage
	ExchangeQuery       = record.ExchangeQuery
	Exported            = record.Exported
	Generation          = record.Generation
	HeaderField         = record.HeaderField
	Message             = record.Message
	Opening             = record.Opening
	Outcome             = record.Outcome
	Part                = record.Part
	PlaceState          = record.PlaceState
	RecallInfo          = record.RecallInfo
	Recollection        = record.Recollection
	RecollectionKey     = record.RecollectionKey
	Redaction           = record.Redaction
	RequestItems        = record.RequestItems
	Rollup              = record.Rollup
	RollupOf            = record.RollupOf
	RollupQuery         = record.RollupQuery
	Selection           = record.Selection
	Session             = record.Session
	SessionPage         = record.SessionPage
	SessionQuery        = record.SessionQuery
	SessionState        = record.SessionState
	SessionSummary      = record.SessionSummary
	Spending            = record.Spending
	StandIn             = record.StandIn
	StreamReader        = record.StreamReader
	Subscription        = record.Subscription
	TimelineEntry       = record.TimelineEntry
	TimelinePage        = record.TimelinePage
	TimelineQuery       = record.TimelineQuery
	Turn                = record.Turn
	TurnVector          = record.TurnVector
	USD                 = record.USD
	UnsummarizedSession = record.UnsummarizedSession
	Usage               = record.Usage
	UsageInfo           = record.UsageInfo
)

// Constants of package record.
const (
	AnyState             = record.AnyState
	AuxiliaryPrewarm     = record.AuxiliaryPrewarm
	AuxiliaryReplay      = record.AuxiliaryReplay
	AuxiliarySummary     = record.AuxiliarySummary
	AuxiliaryTitle       = record.AuxiliaryTitle
	AuxiliaryTokens      = record.AuxiliaryTokens
	CommittedLocal       = record.CommittedLocal
	Complete             = record.Complete
	Dollar               = record.Dollar
	ErasedByRequest      = record.ErasedByRequest
	ErasedByRetention    = record.ErasedByRetention
	ErasureCompleted     = record.ErasureCompleted
	ErasureDone          = record.ErasureDone
	ErasureQueued        = record.ErasureQueued
	ErasureRunning       = record.ErasureRunning
	ExchangeCompleted    = record.ExchangeCompleted
	ExchangeCreated      = record.ExchangeCreated
	ImportedKey          = record.ImportedKey
	Incomplete           = record.Incomplete
	MaxMerges            = record.MaxMerges
	OutcomeClientClosed  = record.OutcomeClientClosed
	OutcomeComplete      = record.OutcomeComplete
	OutcomeDamaged       = record.OutcomeDamaged
	OutcomeInterrupted   = record.OutcomeInterrupted
	OutcomeOpen          = record.OutcomeOpen
	OutcomeRefused       = record.OutcomeRefused
	OutcomeStopped       = record.OutcomeStopped
	OutcomeUpstreamError = record.OutcomeUpstreamError
	PlaceDestroyed       = record.PlaceDestroyed
	PlaceErased          = record.PlaceErased
	PlaceNotReached      = record.PlaceNotReached
	PlaceWaiting         = record.PlaceWaiting
	TurnDigested         = record.TurnDigested
)

// Functions of package record.
var (
	ClientLinks       = record.ClientLinks
	ClientName        = record.ClientName
	DerivedExchangeID = record.DerivedExchangeID
	DerivedSessionID  = record.DerivedSessionID
	ExchangeID        = record.ExchangeID
	FirstErasureID    = record.FirstErasureID
	FirstExchangeID   = record.FirstExchangeID
	IsErasureID       = record.IsErasureID
	NewErasureID      = record.NewErasureID
	NoExchange        = record.NoExchange
	NoSession         = record.NoSession
	NodeOf            = record.NodeOf
	ParseExchangeID   = record.ParseExchangeID
	ParseUSD          = record.ParseUSD
	ReadInfo          = record.ReadInfo
	ReadSession       = record.ReadSession
	ReadSummary       = record.ReadSummary
	ReadTurn          = record.ReadTurn
)
