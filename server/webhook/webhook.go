// Package webhook notifies other programs of events: a budget that runs out, a request that failed, an erasure.
//
// Messages follow Standard Webhooks (standardwebhooks.com): a JSON object of type, timestamp and data, with an id, a
// time and a signature in the header. Each is in an outbox on disk before [Sender.Tell] returns, and is resent under
// the same id: budgets and erasures until their receiver accepts them, failures for about a day.
package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/mnemeproxy/mneme/store/record"
)

// Kinds of events.
const (
	Budget  = "budget.reached"
	Failure = "exchange.failed"
	Erasure = "erasure.accepted"
	Repeats = "agent.repeats"
)

// Events lists all kinds.
var Events = []string{Budget, Failure, Erasure, Repeats}

// BudgetReached is the data of [Budget]. It is sent once for each percentage of a day's or month's budget, and may be sent
// again after a restart.
type BudgetReached struct {
	Account string     `json:"account"`
	Key     string     `json:"key,omitempty"` // whose budget it is; none: the account's
	Limit   string     `json:"limit"`         // budget_usd_day, budget_usd_month or budget_usd_burst
	Percent int        `json:"percent"`       // 80 or 100
	Spent   record.USD `json:"spent_usd"`
	Budget  record.USD `json:"budget_usd"`
	Reset   time.Time  `json:"reset"` // when the next day or month begins, or enough of a burst is old
}

// ExchangeFailed is the data of [Failure]: a provider failed, or the server ended before the answer did.
type ExchangeFailed struct {
	Account  string         `json:"account"`
	Key      string         `json:"key"`
	Exchange string         `json:"exchange,omitempty"` // none if the exchange is not recorded
	Model    string         `json:"model"`
	Provider string         `json:"provider,omitempty"`
	Status   int            `json:"status"` // of the answer
	Outcome  record.Outcome `json:"outcome"`
}

// ErasureAccepted is the data of [Erasure]. An accepted erasure is carried out whatever happens.
type ErasureAccepted struct {
	Account string `json:"account"`
	Erasure string `json:"erasure"` // its id
}

// AgentRepeats is the data of [Repeats]: an agent makes the same calls and gets the same results. It is sent at the fifth
// time and whenever their number has doubled, and when a limit refuses the request.
type AgentRepeats struct {
	Account string   `json:"account"`
	Key     string   `json:"key"`
	Model   string   `json:"model"`
	Calls   []string `json:"calls"`  // names of the tools called in one round, in order
	Times   int      `json:"times"`  // rounds in a row
	Tokens  int64    `json:"tokens"` // roughly, of the prompts sent since the last new result
	Refused bool     `json:"refused"`
}

// Hook is a receiver.
type Hook struct {
	URL    string
	Secret string   // base64, with or without the prefix "whsec_"
	Events []string // events that it receives; none: all
}

// Check returns an error if a hook is invalid.
func (h Hook) Check() error {
	if u, err := url.Parse(h.URL); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return errors.New("url must begin with https:// or http://")
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(h.Secret, "whsec_"))
	if err != nil || len(key) < shortestSecret {
		return fmt.Errorf("secret must be base64 of %d bytes or more; make one with: openssl rand -base64 32", shortestSecret)
	}
	for _, e := range h.Events {
		if !slices.Contains(Events, e) {
			return fmt.Errorf("events has the unknown event %q; known are %s", e, strings.Join(Events, ", "))
		}
	}
	return nil
}

// String returns the scheme and the host. The rest of the URL is a credential at some receivers.
func (h Hook) String() string {
	u, err := url.Parse(h.URL)
	if err != nil {
		return "with an invalid URL"
	}
	return u.Scheme + "://" + u.Host
}

// shortestSecret is the minimum of Standard Webhooks, in bytes.
const shortestSecret = 24

// Options configure [Start].
type Options struct {
	Hooks []Hook
	Dir   string // of the outboxes
	Log   *slog.Logger
	Pause func(attempt int) time.Duration // after the attempt, from 1; nil: as Standard Webhooks recommends
}

// Sender delivers events to the receivers of the configuration. The methods of a nil Sender do nothing.
type Sender struct {
	receivers []*receiver
	stop      context.CancelFunc
	running   sync.WaitGroup
}

// Start starts sending, beginning with what an earlier run left in the outboxes. [Sender.Close] ends it.
func Start(o Options) (*Sender, error) {
	if o.Pause == nil {
		o.Pause = pause
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Sender{stop: stop}
	for _, h := range o.Hooks {
		if err := h.Check(); err != nil {
			stop()
			return nil, fmt.Errorf("webhook %s: %w", h, err)
		}
		signer, err := standardwebhooks.NewWebhook(h.Secret)
		if err != nil {
			stop()
			return nil, fmt.Errorf("the secret of webhook %s: %w", h, err)
		}
		name := sha256.Sum256([]byte(h.URL))
		r := &receiver{
			hook: h, name: h.String(), signer: signer, log: o.Log, pause: o.Pause, added: make(chan struct{}, 1),
			box: outbox{dir: filepath.Join(o.Dir, hex.EncodeToString(name[:8])), log: o.Log},
			client: http.Client{
				Timeout:       timeout,
				Transport:     &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment},
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // the signature is meant for this receiver only
			},
		}
		if err := r.box.open(); err != nil {
			stop()
			return nil, fmt.Errorf("the outbox of webhook %s: %w", h, err)
		}
		s.receivers = append(s.receivers, r)
	}
	for _, r := range s.receivers {
		s.running.Go(func() { r.run(ctx) })
	}
	return s, nil
}

// Tell puts an event into the outboxes of the receivers that want it, and has no part in sending it. Budgets and
// erasures survive a loss of power once Tell has returned, failures the end of the process.
func (s *Sender) Tell(kind string, at time.Time, data any) {
	if s == nil {
		return
	}
	for _, r := range s.receivers {
		if len(r.hook.Events) == 0 || slices.Contains(r.hook.Events, kind) {
			r.tell(kind, at, data)
		}
	}
}

// Close stops sending. Pending messages stay in the outboxes for the next run.
func (s *Sender) Close() {
	if s == nil {
		return
	}
	s.stop()
	s.running.Wait()
}
