package command

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store/record"
)

// pricingArchive prices imported exchanges that have no cost, as those of other programs' histories. Nothing was paid
// here, so theirs is the list price at their own date.
type pricingArchive struct {
	server.Archive
	prices *importPrices
}

// Import imports an element of an export.
func (a pricingArchive) Import(ctx context.Context, account string, e record.Exported) (taken bool, err error) {
	if x := e.Exchange; x != nil && x.Cost == nil {
		x.Cost = a.prices.cost(&x.ExchangeInfo)
	}
	return a.Archive.Import(ctx, account, e)
}

// importPrices is the price list for imports. It follows the configuration.
type importPrices struct {
	inUse atomic.Pointer[router.Prices]
	load  func() (router.Prices, error) // when the first is needed; nil: use was called
}

func (p *importPrices) use(prices router.Prices) { p.inUse.Store(&prices) }

// Price returns the price of a model's tokens; nil: unknown.
func (p *importPrices) Price(provider, model string, at time.Time) *router.Price {
	prices := p.inUse.Load()
	if prices == nil && p.load != nil {
		if loaded, err := p.load(); err == nil { // an invalid file leaves them without a price
			p.use(loaded)
			prices = &loaded
		}
	}
	if prices == nil {
		return nil
	}
	return prices.Price(provider, model, at)
}

// cost returns the list price of an exchange's tokens at its time; nil if they have none.
func (p *importPrices) cost(x *record.ExchangeInfo) *record.Cost {
	usage := codec.Usage(x.Usage)
	if usage.IsZero() || x.Auxiliary == record.AuxiliaryTokens {
		return nil
	}
	for _, model := range []string{x.ModelServed, x.ModelSent, x.ModelAsked} {
		if model == "" {
			continue
		}
		if price := p.Price(x.Provider, model, x.Started); price != nil {
			bill := price.Bill(&usage, x.Started)
			return &record.Cost{USD: record.USD(bill.Cost), Saved: record.USD(bill.Saved), Price: price.Version, Estimated: !bill.Exact, Notional: true}
		}
	}
	return nil
}
