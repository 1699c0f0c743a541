// Package embedding makes the vectors of the search index. It works like the embeddings surface: the router places the
// model, the request is cut into batches that the host accepts, package background makes the calls, and the answers are
// checked. So a client that embeds a text with the same model gets the same vector as the index.
package embedding

import (
	"context"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background"
	"github.com/mnemeproxy/mneme/store/search"
)

// Settings configure the embedding model and its calls.
type Settings struct {
	Model          string // any model with a route to a provider with embeddings
	Dimensions     int    // of the vectors; 0: the model's own
	DocumentPrefix string // put before indexed texts, for models that want it
	QueryPrefix    string // put before queries
	TextBytes      int    // embedded of a text; the rest is cut off
	BatchTexts     int    // in one call at most
	Calls          int    // at a time
}

// Embedder is safe for concurrent use.
type Embedder struct {
	settings    Settings
	credentials background.Credentials
	identity    string
	dimensions  int
	slots       chan struct{} // one per concurrent call

	way   atomic.Pointer[way]
	spent atomic.Int64 // tokens
	calls atomic.Int64
	fails atomic.Int64
}

var _ search.Embedder = (*Embedder)(nil)

// New uses the model's present route. Its error is a *[codec.Error] that names the wrong setting.
func New(s Settings, r *router.Router, credentials background.Credentials) (*Embedder, error) {
	w, err := s.way(r)
	if err != nil {
		return nil, err
	}
	e := &Embedder{
		settings: s, credentials: credentials,
		identity: w.identity, dimensions: w.dimensions, slots: make(chan struct{}, s.Calls),
	}
	e.way.Store(w)
	return e, nil
}

// Identity implements [search.Embedder].
func (e *Embedder) Identity() string { return e.identity }

// Dimensions implements [search.Embedder].
func (e *Embedder) Dimensions() int { return e.dimensions }

// Reroute sends subsequent calls through another router. If that routes the model elsewhere, nothing is embedded until
// a restart, because vectors of two models must not be mixed: the error says so, and Embed repeats it.
func (e *Embedder) Reroute(r *router.Router) error {
	w, err := e.settings.way(r)
	if err == nil && (w.identity != e.identity || w.dimensions != e.dimensions) {
		err = codec.Errorf(codec.KindConflict,
			"the configuration now leads search.embedder to %s, and the index has vectors of %s; restart with the former, or change over with: mneme reindex vectors",
			w.identity, e.identity)
	}
	if err != nil {
		w = &way{refused: err}
	}
	e.way.Store(w)
	return err
}

// Usage counts the embedder's work since it was made.
type Usage struct {
	Calls    int64 // that were answered
	Failures int64 // calls that were not
	Tokens   int64 // as counted by providers, or else estimated
}

// Usage returns the counts so far.
func (e *Embedder) Usage() Usage {
	return Usage{Calls: e.calls.Load(), Failures: e.fails.Load(), Tokens: e.spent.Load()}
}

// Limits on one call. A search waits for its query's vector, and finds by words without it.
const (
	documentTimeout = time.Minute
	queryTimeout    = 2 * time.Second
)

// Embed implements [search.Embedder].
func (e *Embedder) Embed(ctx context.Context, account string, use search.Use, texts []string) ([][]float32, error) {
	w := e.way.Load()
	if w.refused != nil {
		return nil, w.refused
	}
	timeout := documentTimeout
	if use == search.ForQuery {
		timeout = queryTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, e.slow(timeout))
	defer cancel()
	if len(texts) == 0 {
		return nil, nil
	}
	asked := asking{embedder: e, way: w, account: account, use: use}
	vectors, err := asked.embed(ctx, texts)
	if err == nil || !unfit(err) {
		return vectors, err
	}
	// Either one of the texts is at fault, or the provider accepts none at all. A text that every model accepts shows
	// which.
	if _, none := asked.embed(ctx, []string{"memory"}); none != nil {
		return nil, codec.Errorf(codec.KindUpstream, "%s takes no text as search.embedder has it sent: %s", w.identity, codec.AsError(none, "it failed").Message)
	}
	return nil, codec.Errorf(codec.KindTooLarge, "%s does not take such a text: %s", w.identity, codec.AsError(err, "it failed").Message)
}

func (e *Embedder) slow(timeout time.Duration) error {
	return codec.Errorf(codec.KindTimeout, "%s gave no vectors within %v", e.identity, timeout)
}

// unfit reports whether the provider will never accept these texts.
func unfit(err error) bool {
	switch codec.AsError(err, "").Kind {
	case codec.KindInvalidRequest, codec.KindTooLarge, codec.KindContextTooLong:
		return true
	default:
		return false
	}
}

// prepared returns a text for the model: with its prefix, truncated to the model's limit at a whole character.
func (s *Settings) prepared(use search.Use, text string) string {
	if len(text) > s.TextBytes {
		end := s.TextBytes
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	if use == search.ForQuery {
		return s.QueryPrefix + text
	}
	return s.DocumentPrefix + text
}
