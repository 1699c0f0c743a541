package server

import "github.com/mnemeproxy/mneme/codec/crossing"

// reasoningLedger is the crossings' memory for reasoning state that clients lose.
type reasoningLedger struct{ cache ReasoningCache }

func (l reasoningLedger) Recall(key crossing.LedgerKey) []byte {
	return l.cache.Recall(key.Account, entryName(key))
}

func (l reasoningLedger) Keep(key crossing.LedgerKey, value []byte) {
	l.cache.Keep(key.Account, entryName(key), value)
}

func entryName(key crossing.LedgerKey) string {
	return key.Family.String() + " " + key.Kind + " " + key.ID
}
