package record

import (
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// An exchange from elsewhere is believed what one that was recorded here could say. It cannot change the books: it is
// nobody's key's, and its cost is a list price, which was not spent here.

// CheckImport returns an error for what no captured exchange could have.
func CheckImport(x *ExchangeInfo, now time.Time) error {
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
const mostImported = 1_000_000 * Dollar

// checkFormats returns an error unless the surface, and the provider's format if a provider was asked, are known.
func checkFormats(x *ExchangeInfo) error {
	surface, err := codec.ParseFormat(x.Surface)
	if traits := crossing.Traits(surface); err != nil || surface.Converses() && traits.Client == (codec.ClientTraits{}) {
		return codec.Invalid("surface", "%q is no surface; known are chat, responses, messages, gemini, embeddings and pass", x.Surface)
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

// CheckSession applies the limits of sessions recorded here to an imported one, since its record is written with each
// of its exchanges.
func CheckSession(session *Session) error {
	if err := CheckIDs(session.ChatKey, session.ExternalSession, session.NativeSession, session.Agent, session.Conversation); err != nil {
		return err
	}
	if err := CheckTimes(time.Now(), session.Created, session.Updated); err != nil {
		return err
	}
	if len(session.Models) > MaxSessionModels || slices.ContainsFunc(session.Models, func(name string) bool { return len(name) > MaxModelName }) {
		return codec.Invalid("models", "a session has at most %d models, with names of at most %d bytes", MaxSessionModels, MaxModelName)
	}
	if _, ok := kv.ParseSessionID(session.Parent); !ok && session.Parent != "" {
		return codec.Invalid("parent", "the parent is not a session id")
	}
	return (&Description{Title: &session.Title, Tags: session.Tags, Note: &session.Note}).Check()
}

// CheckIDs returns an error for an id that no captured exchange could have.
func CheckIDs(ids ...string) error {
	for _, id := range ids {
		if err := codec.CheckContinuity("id", id); err != nil {
			return err
		}
	}
	return nil
}
