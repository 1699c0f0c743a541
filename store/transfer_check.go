package store

import (
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// An exchange from elsewhere is believed what one that was recorded here could say. It cannot change the books: it is
// nobody's key's, and its cost is a list price, which was not spent here.

// checkImportedExchange returns an error for what no captured exchange could have.
func checkImportedExchange(x *record.ExchangeInfo, now time.Time) error {
	if err := checkFormats(x); err != nil {
		return err
	}
	if x.Started.IsZero() {
		return codec.Invalid("started", "the exchange has no time at which it started")
	}
	if err := CheckTimes(now, x.Started, x.FirstByte, x.LastByte); err != nil {
		return err
	}
	for _, n := range x.Usage.Numbers() {
		if *n < 0 || *n > codec.MaxTokens {
			return codec.Invalid("usage", "the usage has a count of %d tokens; counts are from 0 to %d", *n, int64(codec.MaxTokens))
		}
	}
	if c := x.Cost; c != nil && (c.USD < 0 || c.USD > mostImported || c.Saved < -mostImported || c.Saved > mostImported) {
		return codec.Invalid("cost", "the cost is %v USD, with %v saved; one exchange costs from 0 to %v USD", c.USD, c.Saved, mostImported)
	}
	return nil
}

// mostImported is the highest cost that is believed of one exchange. No provider's longest answer costs a hundredth.
const mostImported = 1_000_000 * record.Dollar

// checkFormats returns an error unless the surface, and the provider's format if a provider was asked, are known.
func checkFormats(x *record.ExchangeInfo) error {
	surface, err := codec.ParseFormat(x.Surface)
	if traits := crossing.Traits(surface); err != nil || !traits.Vectors && traits.Client == (codec.ClientTraits{}) {
		return codec.Invalid("surface", "%q is no surface; known are chat, responses, messages and embeddings", x.Surface)
	}
	if x.Format == "" {
		return nil
	}
	if _, err := codec.ParseFormat(x.Format); err != nil {
		return codec.Invalid("format", "the format of the exchange: %v", err)
	}
	return nil
}

// firstImported is before any exchange with a language model. Histories of clients with a clock that was never set begin
// in 1970.
var firstImported = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)

// CheckTimes returns an error for a time at which no imported exchange can have been. The zero time is none.
func CheckTimes(now time.Time, times ...time.Time) error {
	for _, t := range times {
		if !t.IsZero() && (t.Before(firstImported) || t.After(now.AddDate(0, 0, 1))) {
			return codec.Invalid("started", "the time %s cannot be; times are from 1990 to tomorrow", t.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// repeats reports whether an exchange from a client's history has an answer that another session has already: clients
// copy the beginning of a conversation when they resume or fork it.
func (g *commitGroup) repeats(account kv.AccountNumber, session string, info *record.ExchangeInfo) bool {
	if !info.FromHistory() {
		return false
	}
	key := answerLink(account, info)
	if key == nil {
		return false
	}
	id, known := g.linkAt(key)
	return known && id.String() != session && g.sessionAt(kv.SessionRef{Account: account, ID: id}) != nil
}
