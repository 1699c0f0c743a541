package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// MarkHeader is on every answer, so that the simulated provider is never taken for a model.
const MarkHeader = "X-Simulated-Provider"

// Options of a simulated provider. The zero value listens on a free loopback port and accepts every request.
type Options struct {
	Listen    string           // host:port, default "127.0.0.1:0"
	Strict    bool             // refuse what the real providers refuse, with their statuses and bodies
	FreshIDs  bool             // give every answer ids of its own; without it the same request always gets the same bytes
	Cache     bool             // count what a prompt cache would have; usage then depends on the requests before
	Script    string           // played to prompts that declare tools and have none, as those of real agents
	LookRound bool             // call one read-only tool of a known agent for each prompt without a script, in the place of Script
	Clock     func() time.Time // for the created members; default is one fixed instant
	Keep      int              // how many recordings, bodies included, the server holds; 0 means 256, negative none
	OnRequest func(Recorded)   // called before a request is answered, from the goroutine that answers it
	Log       *slog.Logger     // default: no log
}

// Limits on what a client may send.
const (
	maxBodyBytes   = 128 << 20
	maxHeaderBytes = 1 << 20
	defaultKeep    = 256
	maxRepeated    = 4096 // requests remembered for "times=N"
)

// fixedTime is what created members say without a clock: 2026-11-20 09:46:40 UTC.
var fixedTime = time.Unix(1795168000, 0)

// A Server is one running simulated provider.
type Server struct {
	options  Options
	listener net.Listener
	http     *http.Server
	stop     context.CancelFunc
	served   sync.WaitGroup // the accept loop and every connection
	open     atomic.Int64
	recorded *ring
	cache    *promptCache // nil without [Options.Cache]
	buffers  sync.Pool

	mu       sync.Mutex
	repeated map[string]int // request → times answered with a fault
	stored   *storedAnswers
}

// Start listens and serves until [Server.Close].
func Start(options Options) (*Server, error) {
	if options.Listen == "" {
		options.Listen = "127.0.0.1:0"
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	if options.Clock == nil {
		options.Clock = func() time.Time { return fixedTime }
	}
	if options.Keep == 0 {
		options.Keep = defaultKeep
	}
	listener, err := net.Listen("tcp", options.Listen)
	if err != nil {
		return nil, fmt.Errorf("the simulated provider cannot listen on %s: %w", options.Listen, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		options:  options,
		listener: listener,
		stop:     stop,
		recorded: newRing(options.Keep),
		repeated: make(map[string]int),
		stored:   newStoredAnswers(),
	}
	if options.Cache {
		s.cache = newPromptCache()
	}
	s.buffers.New = func() any { return new([]byte) }
	s.http = &http.Server{
		Handler:           s.routes(),
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ConnState:         s.countConnection,
		ReadHeaderTimeout: time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(options.Log.Handler(), slog.LevelDebug),
	}
	s.served.Add(1)
	go func() {
		defer s.served.Done()
		_ = s.http.Serve(listener) // always http.ErrServerClosed after Close
	}()
	return s, nil
}

// countConnection lets Close wait until net/http has let go of every connection.
func (s *Server) countConnection(_ net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		s.served.Add(1)
	case http.StateClosed, http.StateHijacked:
		s.served.Done()
	}
}

// URL is the address as "http://host:port", without a path.
func (s *Server) URL() string { return "http://" + s.listener.Addr().String() }

// Close ends all streams, closes all connections and waits for the goroutines behind them.
func (s *Server) Close() error {
	s.stop()
	err := s.http.Close()
	s.served.Wait()
	return err
}

// Open is the number of requests being answered now.
func (s *Server) Open() int64 { return s.open.Load() }

// Requests returns the newest recordings, oldest first.
func (s *Server) Requests() []Recorded { return s.recorded.all() }

// Await blocks until the request with this id, counted from 1, has arrived, or until ctx ends.
func (s *Server) Await(ctx context.Context, id int64) (Recorded, error) {
	return s.recorded.wait(ctx, id)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, prefix := range []string{"", "/v1", "/beta"} {
		mux.Handle("POST "+prefix+"/chat/completions", s.generate(chatFormat{}))
		mux.Handle("POST "+prefix+"/responses", s.generate(responsesFormat{stored: s.stored}))
		mux.Handle("POST "+prefix+"/responses/compact", s.handle(openaiErrors{}, s.compact))
		mux.Handle("POST "+prefix+"/responses/input_tokens", s.handle(openaiErrors{}, s.countInputTokens))
		mux.Handle("POST "+prefix+"/embeddings", s.handle(openaiErrors{}, s.embeddings))
		mux.Handle("GET "+prefix+"/models", s.handle(openaiErrors{}, s.models))
	}
	for _, prefix := range []string{"/v1", "/anthropic/v1"} {
		mux.Handle("POST "+prefix+"/messages", s.generate(messagesFormat{}))
		mux.Handle("POST "+prefix+"/messages/count_tokens", s.handle(messagesErrors{}, s.countMessageTokens))
	}
	for _, version := range []string{"/v1beta", "/v1"} {
		mux.Handle("POST "+version+"/models/{call}", s.gemini())
	}
	mux.Handle("GET /v1beta/models", s.handle(geminiErrors{}, s.geminiModels))
	unknown := func(_ *call) error { return &fault{class: classNotFound, message: "Unknown request URL."} }
	mux.Handle("/", s.handle(openaiErrors{}, unknown))
	mux.Handle("/v1beta/", s.handle(geminiErrors{}, unknown))
	mux.Handle("/upload/", s.handle(geminiErrors{}, unknown))
	return mux
}

// A call is one request being answered.
type call struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	body   []byte
	object object // body as an object
	id     string // stem of the ids in the answer
	errors errorShape
}

// An errorShape writes errors the way one family of formats does.
type errorShape interface {
	status(*fault) int
	errorBody(f *fault, requestID string) []byte
}

// handle records a request, answers it by run, and reports how it ended. An error of run that is a fault becomes
// an error answer; any other error aborts the connection, because net/http would end the body as if it were whole.
func (s *Server) handle(shape errorShape, run func(*call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.open.Add(1)
		state := &exchange{done: make(chan struct{})}
		outcome := ClientGone
		defer func() {
			state.outcome.Store(int32(outcome))
			s.open.Add(-1)
			close(state.done)
		}()
		w.Header().Set(MarkHeader, "mneme")
		body, err := readBody(r)
		rec := s.recorded.add(Recorded{Method: r.Method, Path: r.URL.RequestURI(), Header: r.Header, Body: body, exchange: state})
		if s.options.OnRequest != nil {
			s.options.OnRequest(rec)
		}
		s.options.Log.Debug("request", "id", rec.ID, "method", r.Method, "path", r.URL.Path, "bytes", len(body))
		c := &call{server: s, w: w, r: r, body: body, errors: shape, id: s.answerID(&rec)}
		if err == nil {
			err = run(c)
		}
		var f *fault
		if errors.As(err, &f) {
			err = c.fail(f, &delivery{})
		}
		if err == nil {
			outcome = Complete
			return
		}
		if errors.Is(err, errCut) {
			outcome = Cut
		}
		panic(http.ErrAbortHandler)
	})
}

func readBody(r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBodyBytes {
		return nil, &fault{class: classTooLarge}
	}
	var body bytes.Buffer
	if r.ContentLength > 0 {
		body.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	if _, err := body.ReadFrom(io.LimitReader(r.Body, maxBodyBytes+1)); err != nil {
		return body.Bytes(), errClientGone
	}
	if body.Len() > maxBodyBytes {
		return nil, &fault{class: classTooLarge}
	}
	return body.Bytes(), nil
}

// answerID derives the stem of the ids in the answer: from the request, or, for fresh ids, from its arrival.
func (s *Server) answerID(rec *Recorded) string {
	if s.options.FreshIDs {
		return answerID(fmt.Appendf(nil, "%s %d %d", s.listener.Addr(), rec.ID, time.Now().UnixNano()))
	}
	body := bytes.Replace(rec.Body, []byte(`,"stream_options":{"include_usage":true}`), nil, 1) // the same answer, with its counts
	return answerID([]byte(rec.Method), []byte(rec.Path), body)
}

// fail answers with an error.
func (c *call) fail(f *fault, plan *delivery) error {
	if _, inBody := c.errors.(geminiErrors); f.retryAfter != "" && !inBody {
		c.w.Header().Set("Retry-After", f.retryAfter)
	}
	return deliver(c.w, plan, c.errors.status(f), c.errors.errorBody(f, "req_"+c.id))
}

// parse reads the body as an object.
func (c *call) parse() error {
	o, ok := parseObject(c.body)
	if !ok {
		return &fault{class: classInvalid, message: "We could not parse the JSON body of your request."}
	}
	c.object = o
	return nil
}
