package writing

import (
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// The usage and cost of exchanges are rolled up when they end: into one record per hour, key, project, client and model
// of an account, written with the commit of the end. Reports sum these up without reading exchanges. The records hold
// no content, and stay when exchanges are erased; erased exchanges are counted beside them, so that a check can
// compare them with the existing exchanges.

// RollUp counts an ended exchange.
func (g *Group) RollUp(o *commit.Op, account kv.AccountNumber, info *record.ExchangeInfo) {
	r := conversation.RollupOf(info)
	g.addRollup(o, g.Keep(record.AppendRollupKey(g.Key(), account, info)), &r)
}

// RollUpErased counts an erased exchange.
func (g *Group) RollUpErased(o *commit.Op, account kv.AccountNumber, info *record.ExchangeInfo) {
	r := conversation.RollupOf(info)
	g.addRollup(o, record.AppendHourPrefix(nil, account, info.Started, record.RollupErased), &r)
}

func (g *Group) addRollup(o *commit.Op, key []byte, r *record.Rollup) {
	if stored := g.Get(key); stored != nil {
		if before, err := record.DecodeRollup(stored); err == nil { // otherwise it starts over, and a check says so
			r.Add(&before)
		}
	}
	g.Put(o, key, r.Encode())
}
