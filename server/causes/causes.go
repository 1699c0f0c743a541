// Package causes says what the tokens of recorded exchanges were for, and what each cause cost.
//
// It derives that from the recorded request and answer, when it is asked for. A prompt is priced by position: providers read
// a prompt's beginning from their cache, write what follows into it, and read the rest. Tokens are shared out by bytes. All
// shares of an exchange add up to its tokens and to its cost, to the billionth of a dollar.
package causes

import (
	"math"
	"math/bits"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// Exchange is what an exchange was for.
type Exchange struct {
	Shares []api.CostLine
	Called []string // tools that were called in it or before it
}

// Of returns the shares of an exchange. price is that of its tokens; nil: the usual proportions.
func Of(x *record.Exchange, price *router.Price) Exchange {
	pieces := piecesOf(x)
	usage := codec.Usage(x.Usage)
	pieces.complete(&usage, x.Cost)
	rates := ratesOf(&usage, price, x)
	e := Exchange{Called: pieces.called, Shares: make([]api.CostLine, 0, len(pieces.input)+len(pieces.output))}
	weights := make([]float64, 0, cap(e.Shares))
	at := int64(0)
	total := usage.TotalInput()
	share(pieces.input, total, func(p *piece, tokens int64) {
		e.Shares = append(e.Shares, api.CostLine{Cause: p.cause, Input: tokens})
		weights = append(weights, rates.input(at, at+tokens))
		at += tokens
	})
	outputShares(&pieces, &usage, func(p *piece, tokens int64) {
		e.Shares = append(e.Shares, api.CostLine{Cause: p.cause, Output: tokens})
		weights = append(weights, float64(tokens)*rates.output)
	})
	if x.Cost != nil {
		split(x.Cost.USD, weights, func(i int, usd record.USD) { e.Shares[i].USD = usd })
	}
	return e
}

// share gives each piece its part of so many tokens, by its bytes. The parts add up.
func share(pieces []piece, tokens int64, give func(p *piece, tokens int64)) {
	all := int64(0)
	for i := range pieces {
		all += pieces[i].bytes
	}
	bytes, given := int64(0), int64(0)
	for i := range pieces {
		bytes += pieces[i].bytes
		until := portion(tokens, bytes, all)
		give(&pieces[i], until-given)
		given = until
	}
}

// portion returns whole × part / all without an overflow; part is at most all.
func portion(whole, part, all int64) int64 {
	if all <= 0 || whole <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(whole), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(all))
	return int64(quotient)
}

// outputShares shares out the tokens of an answer: those of reasoning, where they are counted, among its reasoning.
func outputShares(p *pieces, usage *codec.Usage, give func(p *piece, tokens int64)) {
	thought := min(max(usage.Reasoning, 0), usage.Output)
	var reasoning, said []piece
	for _, o := range p.output {
		if o.cause.Part == partAnswerReasoning {
			reasoning = append(reasoning, o)
		} else {
			said = append(said, o)
		}
	}
	switch {
	case thought == 0 || len(said) == 0:
		share(p.output, usage.Output, give)
		return
	case len(reasoning) == 0: // it is hidden
		reasoning = []piece{{cause: p.cause(partAnswerReasoning, ageNew), bytes: 1}}
	}
	share(reasoning, thought, give)
	share(said, usage.Output-thought, give)
}

// split shares out an amount by weights. The parts add up to the amount: each is what the sum of the weights so far comes
// to, less what was given before.
func split(amount record.USD, weights []float64, give func(i int, usd record.USD)) {
	all := 0.0
	for _, w := range weights {
		all += w
	}
	sum, given := 0.0, record.USD(0)
	for i, w := range weights {
		sum += w
		until := amount
		if i < len(weights)-1 && all > 0 {
			until = record.USD(math.Round(float64(amount) * (sum / all)))
		} else if i < len(weights)-1 {
			until = 0
		}
		give(i, until-given)
		given = until
	}
}

// rates are the prices of an exchange's tokens in proportion to each other.
type rates struct {
	read, write, uncached, output float64
	cached, written               int64 // tokens of the prompt's beginning, and of what follows it
}

// ratesOf returns the rates of an exchange, as the bill has them for a prompt of its length.
func ratesOf(u *codec.Usage, price *router.Price, x *record.Exchange) rates {
	r := rates{read: 0.1, write: 1.25, uncached: 1, output: 5, cached: u.CacheRead, written: u.CacheWrite}
	if u.CacheLong > 0 {
		r.write = 2
	}
	if price == nil {
		return r
	}
	size := max(u.TotalInput(), 1)
	of := func(u codec.Usage) float64 { return float64(price.Bill(&u, x.Started).Cost) }
	per := float64(size)
	r.read, r.uncached = of(codec.Usage{CacheRead: size})/per, of(codec.Usage{InputUncached: size})/per
	long := min(u.CacheLong, u.CacheWrite)
	if r.write = of(codec.Usage{CacheWrite: size}) / per; u.CacheWrite > 0 {
		r.write += float64(long) / float64(u.CacheWrite) * (of(codec.Usage{CacheWrite: size, CacheLong: size})/per - r.write)
	}
	r.output = (of(codec.Usage{InputUncached: size, Output: 1e6}) - of(codec.Usage{InputUncached: size})) / 1e6
	return r
}

// input returns what the tokens of a prompt from one place to another cost.
func (r *rates) input(from, to int64) float64 {
	within := func(first, end int64) float64 { return float64(max(min(to, end)-max(from, first), 0)) }
	written := r.cached + r.written
	return within(0, r.cached)*r.read + within(r.cached, written)*r.write + within(written, math.MaxInt64)*r.uncached
}
