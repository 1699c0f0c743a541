package store

import "github.com/mnemeproxy/mneme/codec"

// Cost is the cost of one exchange, computed when it ended.
type Cost struct {
	USD       USD    `json:"usd"`
	Saved     USD    `json:"saved_usd,omitempty"` // by caches: the discount on reads minus the surcharge on writes
	Price     string `json:"price"`               // the row of the price list and its date, "claude-opus-5-5@2026-09-22"
	Estimated bool   `json:"estimated,omitempty"` // the tokens are estimated, or the price list lacks the tier
	Notional  bool   `json:"notional,omitempty"`  // paid by the caller's own credential, which may be a subscription: this is the list price
}

// Spending is the cost of a number of exchanges.
type Spending struct {
	USD       USD   `json:"usd"`                    // with credentials of the account or the server
	Notional  USD   `json:"notional_usd,omitempty"` // the list price of what callers' own credentials paid
	Saved     USD   `json:"saved_usd,omitempty"`    // by caches
	Unpriced  int64 `json:"unpriced,omitempty"`     // exchanges with tokens but no price
	Estimated int64 `json:"estimated,omitempty"`    // exchanges whose cost is an estimate
}

// count adds an ended exchange, or subtracts it if sign is -1.
func (s *Spending) count(info *ExchangeInfo, sign int64) {
	cost := info.Cost
	switch {
	case cost == nil && info.Usage.tokens() > 0:
		s.Unpriced += sign
	case cost == nil:
	case cost.Notional:
		s.Notional = addUSD(s.Notional, USD(sign)*cost.USD)
	default:
		s.USD = addUSD(s.USD, USD(sign)*cost.USD)
	}
	if cost != nil {
		s.Saved = addUSD(s.Saved, USD(sign)*cost.Saved)
		if cost.Estimated {
			s.Estimated += sign
		}
	}
}

// add adds other spending.
func (s *Spending) add(other *Spending) {
	s.USD = addUSD(s.USD, other.USD)
	s.Notional = addUSD(s.Notional, other.Notional)
	s.Saved = addUSD(s.Saved, other.Saved)
	s.Unpriced = codec.AddCounts(s.Unpriced, other.Unpriced)
	s.Estimated = codec.AddCounts(s.Estimated, other.Estimated)
}

func addUSD(a, b USD) USD { return USD(codec.AddCounts(int64(a), int64(b))) }

// tokens returns the sum of all counts.
func (u *UsageInfo) tokens() int64 { return codec.Usage(*u).Total() }
