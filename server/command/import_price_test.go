package command

import (
	"context"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/store/record"
)

// taker is an archive that keeps what was imported last.
type taker struct {
	server.Archive
	last record.Exported
}

func (t *taker) Import(_ context.Context, _ string, e record.Exported) (bool, error) {
	t.last = e
	return true, nil
}

// What a client's history has no price for costs the list price of its own date. It was not spent here.
func TestAnImportIsPricedAtItsOwnDate(t *testing.T) {
	took := new(taker)
	archive := pricingArchive{took, &importPrices{load: func() (router.Prices, error) { return router.LoadPrices("") }}}
	priced := func(x record.ExchangeInfo) *record.Cost {
		t.Helper()
		if _, err := archive.Import(t.Context(), "acme", record.Exported{Exchange: &record.Exchange{ExchangeInfo: x}}); err != nil {
			t.Fatal(err)
		}
		return took.last.Exchange.Cost
	}
	at := func(month time.Month) time.Time { return time.Date(2026, month, 20, 12, 0, 0, 0, time.UTC) }
	usage := record.UsageInfo{InputUncached: 600, CacheRead: 400, Output: 100}
	known := priced(record.ExchangeInfo{ModelAsked: "gpt-4.1", Started: at(11), Usage: usage})
	if known == nil || known.USD != 600*2000+400*500+100*8000 || !known.Notional || known.Estimated || known.Price == "" {
		t.Errorf("the cost is %+v", known)
	}
	if free := priced(record.ExchangeInfo{ModelAsked: "gpt-4.1", Started: at(11)}); free != nil {
		t.Errorf("an exchange without tokens costs %+v", free)
	}
	if unknown := priced(record.ExchangeInfo{ModelAsked: "a-model-of-ours", Started: at(11), Usage: usage}); unknown != nil {
		t.Errorf("a model without a price costs %+v", unknown)
	}
	own := &record.Cost{USD: 7, Price: "ours"}
	if had := priced(record.ExchangeInfo{ModelAsked: "gpt-4.1", Started: at(11), Usage: usage, Cost: own}); had != own {
		t.Errorf("a cost on record became %+v", had)
	}
	older := priced(record.ExchangeInfo{ModelAsked: "gpt-5.6-luna", Started: at(1), Usage: usage})
	newer := priced(record.ExchangeInfo{ModelAsked: "gpt-5.6-luna", Started: at(12), Usage: usage})
	if older != nil && newer != nil && older.Price == newer.Price {
		t.Errorf("the price of a model that changed is %q both times", older.Price)
	}
	if _, err := archive.Import(t.Context(), "acme", record.Exported{Session: &record.Session{}}); err != nil || took.last.Session == nil {
		t.Error("a session is not imported")
	}
}
