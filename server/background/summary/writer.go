// Package summary has a model summarize sessions, in the background and within a budget. A call runs like a request of
// the chat surface: the router places the model, the request is crossed to the provider's format, and package
// background makes the call. A session without a summary is still found by its own words.
package summary

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Settings configure the model, its schedule and its budget.
type Settings struct {
	Model        string        // any model with a route to a provider that generates text
	TokensPerDay int64         // of each account and day in UTC, input and output together
	Quiet        time.Duration // how long a session must be idle before it is summarized
}

// Sessions are the sessions of a memory that notes which ones have grown, such as a store that was opened with
// [store.Options.Summaries].
type Sessions interface {
	UnsummarizedSessions(ctx context.Context, since time.Time, skip func(record.AccountNumber) bool) ([]record.UnsummarizedSession, error)
	// ClaimSession reports whether this process may summarize a session. If several share a memory, no other one may
	// summarize any session of the account for [MostTime] from then on, or until ConfirmSummarized. So they do not
	// spend a budget twice.
	ClaimSession(ctx context.Context, u record.UnsummarizedSession) (claimed bool, err error)
	ConfirmSummarized(ctx context.Context, u record.UnsummarizedSession) error
	Material(account record.AccountNumber, session string) (*search.Material, error) // nil: nothing was said in it
	KeepSessionSummary(ctx context.Context, account, session string, m record.SessionSummary, former *record.SessionSummary, exchanges []string) error
	SummaryTokens(account record.AccountNumber, now time.Time) (int64, error) // used by the account on that day
	AddSummaryTokens(ctx context.Context, account record.AccountNumber, now time.Time, tokens int64) error
}

// Options configure a [Writer].
type Options struct {
	Settings

	Sessions    Sessions
	Credentials background.Credentials
	Router      *router.Router
	Log         *slog.Logger
}

// Writer writes summaries, one at a time.
type Writer struct {
	settings    Settings
	sessions    Sessions
	credentials background.Credentials
	log         *slog.Logger
	way         atomic.Pointer[way]
	rests       map[record.AccountNumber]rest // accounts in back-off

	calls atomic.Int64
	fails atomic.Int64
	spent atomic.Int64 // tokens

	cancel context.CancelFunc
	done   chan struct{}
}

// rest is the back-off of an account.
type rest struct {
	until    time.Time
	failures int // consecutive
}

// Start writes summaries until [Writer.Close]. Its error is a *[codec.Error] that names the wrong setting.
func Start(o Options) (*Writer, error) {
	via, err := o.way(o.Router)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w := &Writer{
		settings: o.Settings, sessions: o.Sessions, credentials: o.Credentials, log: o.Log, rests: make(map[record.AccountNumber]rest),
		cancel: cancel, done: make(chan struct{}),
	}
	w.way.Store(via)
	go w.run(ctx)
	return w, nil
}

// Close stops the writing, and the call in progress. The next start summarizes that session.
func (w *Writer) Close() {
	w.cancel()
	<-w.done
}

// Reroute sends subsequent calls through another router. If that has no route to the model, nothing is written until
// one that does.
func (w *Writer) Reroute(r *router.Router) error {
	via, err := w.settings.way(r)
	if err != nil {
		via = &way{refused: err}
	}
	w.way.Store(via)
	return err
}

// Usage counts the writer's work since it was started.
type Usage struct {
	Calls    int64 // calls that produced a summary
	Failures int64 // calls that produced none
	Tokens   int64 // input and output, as counted by providers, or else estimated
}

// Usage returns the counts so far.
func (w *Writer) Usage() Usage {
	return Usage{Calls: w.calls.Load(), Failures: w.fails.Load(), Tokens: w.spent.Load()}
}

// longestLook is how long a session may wait beyond [Settings.Quiet].
const longestLook = 15 * time.Second

func (w *Writer) run(ctx context.Context) {
	defer close(w.done)
	look := time.NewTicker(max(min(w.settings.Quiet/4, longestLook), time.Millisecond))
	defer look.Stop()
	for ctx.Err() == nil { // looked at again below: select takes either of two that are ready
		select {
		case <-ctx.Done():
		case <-look.C:
		}
		for ctx.Err() == nil && w.way.Load().refused == nil && w.round(ctx) {
		}
	}
}

// round summarizes one session of each account that has one; more reports whether there was any.
func (w *Writer) round(ctx context.Context) (more bool) {
	now := time.Now()
	resting := func(account record.AccountNumber) bool { return now.Before(w.rests[account].until) }
	sessions, err := w.sessions.UnsummarizedSessions(ctx, now.Add(-w.settings.Quiet), resting)
	if err != nil {
		w.log.Error("the sessions to be summarized could not be found; it is tried again", "error", err)
		return false
	}
	for _, u := range sessions {
		err := w.takeUp(ctx, u)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			w.pause(u, err)
		default:
			delete(w.rests, u.Account)
		}
	}
	return len(sessions) > 0
}

// The back-off of an account after a failure, doubled after each further one.
const (
	firstPause   = time.Minute
	longestPause = time.Hour
)

// errSpent means that the account's budget of the day does not allow another summary.
var errSpent = errors.New("the tokens of the day are used up")

// pause puts the account of a session in back-off.
func (w *Writer) pause(u record.UnsummarizedSession, err error) {
	now := time.Now()
	if errors.Is(err, errSpent) {
		w.rests[u.Account] = rest{until: now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour)}
		w.log.Info("an account has used up its tokens for summaries; its sessions are summarized from tomorrow on",
			"session", u.Session, "tokens_per_day", w.settings.TokensPerDay)
		return
	}
	failures := w.rests[u.Account].failures
	wait := min(firstPause<<min(failures, 10), longestPause)
	w.rests[u.Account] = rest{until: now.Add(wait), failures: failures + 1}
	w.log.Warn("a session got no summary by the model", "session", u.Session, "reason", codec.AsError(err, "it failed").Message, "account_waits", wait)
}

// MostTime is how long a session may take from its claim on.
const MostTime = 4 * time.Minute

// takeUp summarizes a session if there is something to write, and no other process does.
func (w *Writer) takeUp(ctx context.Context, u record.UnsummarizedSession) error {
	ctx, cancel := context.WithTimeout(ctx, MostTime)
	defer cancel()
	if claimed, err := w.sessions.ClaimSession(ctx, u); err != nil || !claimed {
		return err
	}
	material, err := w.sessions.Material(u.Account, u.Session)
	if err != nil && codec.AsError(err, "").RetryAfter > 0 {
		return err
	}
	if err != nil { // a damaged session does not block others
		w.log.Error("a session cannot be read, and gets no summary by the model; run mneme check", "session", u.Session, "error", err)
		return w.sessions.ConfirmSummarized(ctx, u)
	}
	if !worthwhile(material) {
		return w.sessions.ConfirmSummarized(ctx, u)
	}
	written, err := w.write(ctx, u.Account, material)
	switch {
	case err == nil:
		return w.keep(ctx, u, material, written)
	case unfit(err):
		return errors.Join(err, w.sessions.ConfirmSummarized(ctx, u))
	default:
		return err // and the session stays noted
	}
}

// write has the model write, within the budget.
func (w *Writer) write(ctx context.Context, account record.AccountNumber, m *search.Material) (record.SessionSummary, error) {
	asked, now := prompt(m), time.Now()
	spent, err := w.sessions.SummaryTokens(account, now)
	if err != nil {
		return record.SessionSummary{}, err
	}
	if spent+estimate(asked)+maxOutput > w.settings.TokensPerDay {
		return record.SessionSummary{}, errSpent
	}
	via := w.way.Load()
	got, err := w.ask(ctx, via, m.Session.Account, asked)
	if got.tokens > 0 { // even for a useless answer
		w.spent.Add(got.tokens)
		err = errors.Join(err, w.sessions.AddSummaryTokens(context.WithoutCancel(ctx), account, now, got.tokens))
	}
	if err != nil {
		w.fails.Add(1)
		return record.SessionSummary{}, err
	}
	w.calls.Add(1)
	return record.SessionSummary{
		Text: got.text, By: via.author(), Written: now.UTC(), Through: m.Turns[len(m.Turns)-1].Exchange,
	}, nil
}

// keep stores the summary. A session that has lost exchanges in the meantime stays noted, and is read again.
func (w *Writer) keep(ctx context.Context, u record.UnsummarizedSession, m *search.Material, written record.SessionSummary) error {
	exchanges := make([]string, len(m.Turns))
	for i := range m.Turns {
		exchanges[i] = m.Turns[i].Exchange
	}
	err := w.sessions.KeepSessionSummary(ctx, m.Session.Account, m.Session.ID, written, m.Written, exchanges)
	switch {
	case err == nil || codec.AsError(err, "").Kind == codec.KindNotFound:
		return w.sessions.ConfirmSummarized(ctx, u)
	case codec.AsError(err, "").Kind == codec.KindConflict:
		return nil
	default:
		return err
	}
}

// noText is the error code of an empty answer.
const noText = "no_text"

// unfit reports whether the same session would fail again after an error.
func unfit(err error) bool {
	var e *codec.Error
	if !errors.As(err, &e) {
		return false
	}
	switch e.Kind {
	case codec.KindInvalidRequest, codec.KindTooLarge, codec.KindContextTooLong:
		return true
	default:
		return e.Code == noText
	}
}
