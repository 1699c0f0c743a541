package server

import (
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// ledger is the crossings' memory for reasoning state that clients lose.
type ledger struct{ cache ReasoningCache }

func (l ledger) Recall(key crossing.LedgerKey) []byte {
	return l.cache.Recall(key.Account, entryName(key))
}

func (l ledger) Keep(key crossing.LedgerKey, value []byte) {
	l.cache.Keep(key.Account, entryName(key), value)
}

func entryName(key crossing.LedgerKey) string {
	return key.Family.String() + " " + key.Kind + " " + key.ID
}

// reasoningMemory is where the reasoning of an answer is kept that passes through, for hosts that want it back.
func (x *exchange) reasoningMemory() crossing.Memory {
	family, replays := x.router.ReplaysReasoning(x.placement, x.format)
	if !replays {
		return crossing.Memory{}
	}
	return crossing.Memory{Ledger: ledger{x.server.engine}, Account: x.caller.Account, Family: family}
}
