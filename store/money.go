package store

// Cost is what one exchange cost, worked out when it ended.
type Cost struct {
	USD       USD    `json:"usd"`
	Saved     USD    `json:"saved_usd,omitempty"` // by caches: what reading cost less than the full price would have, less what writing cost more
	Price     string `json:"price"`               // the row of the price list and its date, "claude-opus-5-5@2026-09-22"
	Estimated bool   `json:"estimated,omitempty"` // the tokens are estimated, or the price list does not have the tier
	Notional  bool   `json:"notional,omitempty"`  // the caller's own credential pays, which may be a subscription: this is the list price
}

// Spending is what a number of exchanges cost.
type Spending struct {
	USD       USD   `json:"usd"`                    // spent with credentials of the account's or the server's
	Notional  USD   `json:"notional_usd,omitempty"` // the list price of what callers' own credentials paid
	Saved     USD   `json:"saved_usd,omitempty"`    // by caches
	Unpriced  int64 `json:"unpriced,omitempty"`     // exchanges with tokens and no price
	Estimated int64 `json:"estimated,omitempty"`    // exchanges whose cost is an estimate
}

// count adds the end of an exchange, or with sign -1 takes it out again.
func (s *Spending) count(info *ExchangeInfo, sign int64) {
	cost := info.Cost
	switch {
	case cost == nil && info.Usage.tokens() > 0:
		s.Unpriced += sign
	case cost == nil:
	case cost.Notional:
		s.Notional += USD(sign) * cost.USD
	default:
		s.USD += USD(sign) * cost.USD
	}
	if cost != nil {
		s.Saved += USD(sign) * cost.Saved
		if cost.Estimated {
			s.Estimated += sign
		}
	}
}

// add adds other spending.
func (s *Spending) add(other *Spending) {
	s.USD += other.USD
	s.Notional += other.Notional
	s.Saved += other.Saved
	s.Unpriced += other.Unpriced
	s.Estimated += other.Estimated
}

// tokens are all that were counted.
func (u *UsageInfo) tokens() int64 { return u.InputUncached + u.CacheRead + u.CacheWrite + u.Output }
