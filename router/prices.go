package router

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/mnemeproxy/mneme/codec"
)

// priceList has the prices of models, explained at the top of prices.yaml. It is immutable.
type priceList struct {
	asOf string
	rows []priceRow // the first match for a model at a time applies

	known  atomic.Pointer[map[pricedModel][]*Price] // as in [catalog]
	adding sync.Mutex
}

type pricedModel struct{ provider, model string }

type priceRow struct {
	Match    string `yaml:"match"`
	Provider string `yaml:"provider"`
	From     string `yaml:"from"`
	Source   string `yaml:"source"`
	Rates    `yaml:",inline"`
	Above    *aboveRow          `yaml:"above"`
	Tiers    map[string]float64 `yaml:"tiers"`
	Peak     *peakRow           `yaml:"peak"`

	parts []string // of Match, split at its stars
	price Price
}

type aboveRow struct {
	Tokens int64 `yaml:"tokens"`
	Rates  `yaml:",inline"`
}

type peakRow struct {
	Hours  [][2]int `yaml:"hours"`
	Factor float64  `yaml:"factor"`
}

// Rates are the prices of tokens by kind; nil is not listed.
type Rates struct {
	Input          *Rate `yaml:"input"`
	Output         *Rate `yaml:"output"`
	Reasoning      *Rate `yaml:"reasoning"`
	CacheRead      *Rate `yaml:"cache_read"`
	CacheWrite     *Rate `yaml:"cache_write"`
	CacheWriteLong *Rate `yaml:"cache_write_long"`
}

// Rate is the price of a token, in millionths of a millionth of a US dollar. Files give dollars per million tokens.
type Rate int64

// dearest is above any real price: a hundred dollars per thousand tokens. With mostPriced it keeps sums from
// overflowing.
const (
	dearest    Rate  = 100_000 * 1e6
	mostPriced int64 = 1e7 // the most tokens of a kind priced per exchange; no context is a tenth of that
)

// UnmarshalYAML reads a price per million tokens.
func (r *Rate) UnmarshalYAML(node *yaml.Node) error {
	var dollars float64
	if err := node.Decode(&dollars); err != nil {
		return err
	}
	if !(dollars >= 0 && dollars*1e6 <= float64(dearest)) { // excludes NaN
		return fmt.Errorf("line %d: %q is not a price for a million tokens", node.Line, node.Value)
	}
	*r = Rate(math.Round(dollars * 1e6))
	return nil
}

// Price is the price of a model's tokens from some day on.
type Price struct {
	Version string // the row and its day: "claude-opus-5-5@2026-09-22"

	from  time.Time
	usual Rates
	above int64 // tokens of the prompt above which long applies; 0: never
	long  Rates
	tiers map[codec.Tier]float64
	peak  *peakRow
}

// with returns the list in which the rows of an operator's file replace those for the same models of the same provider.
func (l *priceList) with(over []priceRow) *priceList {
	rows := slices.Clip(over)
	for _, row := range l.rows {
		replaced := slices.ContainsFunc(over, func(r priceRow) bool { return r.Match == row.Match && r.Provider == row.Provider })
		if !replaced {
			rows = append(rows, row)
		}
	}
	both := &priceList{asOf: l.asOf, rows: rows}
	both.sort()
	return both
}

// sort puts the rows in search order.
func (l *priceList) sort() {
	slices.SortStableFunc(l.rows, func(a, b priceRow) int {
		return cmp.Or(
			cmp.Compare(b.Provider, a.Provider), // rows with a provider before those without
			cmp.Compare(literals(b.Match), literals(a.Match)),
			strings.Compare(a.Match, b.Match),
			b.price.from.Compare(a.price.from),
		)
	})
}

// completePrices checks the rows of a file of that date and makes their prices.
func completePrices(rows []priceRow, asOf string) error {
	for i := range rows {
		if err := rows[i].complete(asOf); err != nil {
			return fmt.Errorf("prices[%d] (match %q): %w", i, rows[i].Match, err)
		}
	}
	return nil
}

// complete checks the row and makes its price.
func (row *priceRow) complete(asOf string) error {
	if row.Match == "" {
		return errors.New("it has no match")
	}
	if row.Input == nil || row.Output == nil {
		return errors.New("it needs input and output")
	}
	row.parts = strings.Split(row.Match, "*")
	p := &row.price
	p.Version, p.usual, p.peak = row.Match+"@"+cmp.Or(row.From, asOf), row.Rates, row.Peak
	if row.From != "" {
		var err error
		if p.from, err = time.Parse(time.DateOnly, row.From); err != nil {
			return fmt.Errorf("from is %q, which is not a day such as 2026-10-07", row.From)
		}
	}
	if a := row.Above; a != nil {
		if a.Tokens <= 0 {
			return errors.New("above needs tokens")
		}
		p.above, p.long = a.Tokens, a.Rates.or(row.Rates)
	}
	for name, factor := range row.Tiers {
		tier := codec.ReadTier([]byte(name))
		if tier == codec.TierStandard {
			return fmt.Errorf("%q is not a tier (known: batch, flex, priority, fast)", name)
		}
		if !isFactor(factor) {
			return fmt.Errorf("the factor of tier %s is not between 0 and 100", name)
		}
		if p.tiers == nil {
			p.tiers = make(map[codec.Tier]float64)
		}
		p.tiers[tier] = factor
	}
	if row.Peak != nil && !isFactor(row.Peak.Factor) {
		return errors.New("the factor of peak is not between 0 and 100")
	}
	return nil
}

func isFactor(f float64) bool { return f >= 0 && f <= 100 }

// or fills in what is not listed.
func (r Rates) or(usual Rates) Rates {
	return Rates{
		Input: cmp.Or(r.Input, usual.Input), Output: cmp.Or(r.Output, usual.Output), Reasoning: cmp.Or(r.Reasoning, usual.Reasoning),
		CacheRead: cmp.Or(r.CacheRead, usual.CacheRead), CacheWrite: cmp.Or(r.CacheWrite, usual.CacheWrite),
		CacheWriteLong: cmp.Or(r.CacheWriteLong, usual.CacheWriteLong),
	}
}

// Prices is a price list.
type Prices struct{ list *priceList }

// Price is [Router.Price].
func (p Prices) Price(provider, model string, at time.Time) *Price {
	return p.list.price(provider, model, at)
}

func (l *priceList) price(provider, model string, at time.Time) *Price {
	for _, p := range l.pricesOf(provider, model) {
		if !at.Before(p.from) {
			return p
		}
	}
	return nil
}

// pricesOf returns the prices of a model, newest first.
func (l *priceList) pricesOf(provider, model string) []*Price {
	name := pricedModel{provider, model}
	known := l.known.Load()
	if known != nil {
		if prices, ok := (*known)[name]; ok {
			return prices
		}
	}
	prices := l.look(provider, model)
	if len(model) <= maxKnownName && (known == nil || len(*known) < knownModels) {
		l.keep(pricedModel{strings.Clone(provider), strings.Clone(model)}, prices) // the names may be views of a request
	}
	return prices
}

func (l *priceList) keep(name pricedModel, prices []*Price) {
	l.adding.Lock()
	defer l.adding.Unlock()
	more := map[pricedModel][]*Price{name: prices}
	if known := l.known.Load(); known != nil {
		maps.Copy(more, *known)
	}
	l.known.Store(&more)
}

// look returns the prices in the rows of the best match.
func (l *priceList) look(provider, model string) (prices []*Price) {
	var best *priceRow
	for i := range l.rows {
		row := &l.rows[i]
		switch {
		case best != nil && (row.Match != best.Match || row.Provider != best.Provider):
			continue
		case row.Provider != "" && row.Provider != provider, !row.prices(model):
			continue
		}
		best = row
		prices = append(prices, &row.price)
	}
	return prices
}

// prices reports whether the row is for a model of that name.
func (row *priceRow) prices(model string) bool {
	if len(row.parts) > 1 {
		return fits(row.parts, model)
	}
	release, ok := strings.CutPrefix(model, row.Match)
	return ok && isRelease(release)
}

// isRelease reports whether the suffix of a model's name denotes a release of it, not another model.
func isRelease(suffix string) bool {
	if suffix == "" || suffix == "-latest" {
		return true
	}
	if suffix[0] != '-' && suffix[0] != '@' {
		return false
	}
	digits := 0
	for i, c := range []byte(suffix[1:]) {
		switch {
		case c >= '0' && c <= '9':
			digits++
		case c != '-' || i != 4 && i != 7: // as in 2026-10-01
			return false
		}
	}
	return digits == 8 || len(suffix)-1 == digits && (digits == 3 || digits == 4)
}

// Bill is the cost of the tokens of one exchange, in billionths of a US dollar.
type Bill struct {
	Cost  int64
	Saved int64 // by caches: the discount on tokens read minus the surcharge on tokens written
	Exact bool  // every kind of tokens, and the tier, has a price
}

// Bill prices the tokens of an exchange that ended at a time. All multiplication is here.
func (p *Price) Bill(u *codec.Usage, at time.Time) Bill {
	rates, exact := &p.usual, !u.Estimated
	if p.above > 0 && u.TotalInput() > p.above {
		rates = &p.long
	}
	input := *rates.Input
	rate := func(listed *Rate, instead Rate, tokens int64) Rate {
		if listed != nil {
			return *listed
		}
		exact = exact && tokens == 0
		return instead
	}
	long := min(count(u.CacheLong), count(u.CacheWrite))
	read, write := rate(rates.CacheRead, input, u.CacheRead), rate(rates.CacheWrite, input, u.CacheWrite)
	writeLong := rate(rates.CacheWriteLong, write, long)
	output := *rates.Output
	reasoning := output
	if rates.Reasoning != nil {
		reasoning = *rates.Reasoning
	}
	thought := min(count(u.Reasoning), count(u.Output))
	cost := count(u.InputUncached)*int64(input) +
		count(u.CacheRead)*int64(read) +
		(count(u.CacheWrite)-long)*int64(write) + long*int64(writeLong) +
		(count(u.Output)-thought)*int64(output) + thought*int64(reasoning)
	saved := count(u.CacheRead)*int64(input-read) -
		(count(u.CacheWrite)-long)*int64(write-input) - long*int64(writeLong-input)
	factor := p.peakFactor(at)
	if u.Tier != codec.TierStandard {
		f, listed := p.tiers[u.Tier]
		if exact = exact && listed; listed {
			factor *= f
		}
	}
	return Bill{Cost: nano(cost, factor), Saved: nano(saved, factor), Exact: exact}
}

// count bounds what a provider reports.
func count(tokens int64) int64 { return min(max(tokens, 0), mostPriced) }

// nano rounds an amount in millionths of a millionth to billionths, once.
func nano(pico int64, factor float64) int64 {
	if factor != 1 {
		return int64(math.Round(float64(pico) * factor / 1000))
	}
	if pico < 0 {
		return (pico - 500) / 1000
	}
	return (pico + 500) / 1000
}

func (p *Price) peakFactor(at time.Time) float64 {
	if p.peak == nil {
		return 1
	}
	at = at.UTC()
	if day := at.Weekday(); day == time.Saturday || day == time.Sunday {
		return 1
	}
	for _, hours := range p.peak.Hours {
		if hour := at.Hour(); hour >= hours[0] && hour < hours[1] {
			return p.peak.Factor
		}
	}
	return 1
}
