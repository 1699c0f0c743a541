package server

import (
	"context"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/turns"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// MountPanic serves a path whose handler panics, behind its first byte if inside is set. It is for use before Run.
func (s *Server) MountPanic(path string, inside bool) {
	s.edge.Handle(http.MethodGet, path, func(_ context.Context, _ *edge.Request, out *edge.Response) {
		if inside {
			w := out.Stream()
			_, _ = w.Write([]byte("data: {}\n\n"))
			_ = w.Flush()
		}
		panic("on purpose")
	})
}

// MountMiddleware serves what stands before an exchange, each part with those before it. It is for use before Run.
func (s *Server) MountMiddleware() {
	pass := func(_ context.Context, _ *edge.Request, out *edge.Response) { out.SetBody([]byte("passed")) }
	s.edge.HandleProbe(http.MethodGet, "/bench/edge", pass)
	s.edge.Handle(http.MethodGet, "/bench/admission", pass)
	s.edge.Handle(http.MethodGet, "/bench/authentication", func(ctx context.Context, in *edge.Request, out *edge.Response) {
		if _, err := s.authenticate(in, out); err != nil {
			s.answerError(out, errorShape(in), asError(err), "")
			return
		}
		pass(ctx, in, out)
	})
}

// NoticeDeparturesByReading makes the server notice departures of clients as on systems other than Linux.
func (o *Options) NoticeDeparturesByReading() { o.blocking = true }

// AbortWithin gives requests that were aborted so long to end.
func (o *Options) AbortWithin(d time.Duration) { o.abortTimeout = d }

// Held is how many bytes of clients have been read that no handler has asked for.
func (s *Server) Held() (bytes int64) { return s.edge.UnreadBytes() }

// InFlight is how many bytes of requests and answers are charged.
func (s *Server) InFlight() int64 { return s.held.Used() }

// Replaying keeps a recollection for each turn of a Messages request. It gives that which puts them into the request, as a
// later request of the conversation has them put, and says how many texts of earlier turns those were.
func (s *Server) Replaying(ctx context.Context, account string, body []byte, recollection func(turn int) record.Recollection) (replay func() (replayed int), err error) {
	sent := request{share: s.held.Share(), surface: codec.Messages, caller: caller{Identity: store.Identity{Account: account}}, body: body}
	if err := sent.envelope.Read(body); err != nil {
		return nil, err
	}
	sent.split()
	places := s.recall.places.Places(&turns.Request{Body: body, Envelope: &sent.envelope, Scope: recallScope(account, "")})
	for turn := range places {
		if _, err := s.engine.Notes.Recollect(ctx, account, []record.RecollectionKey{record.RecollectionKey(places[turn].Key)}, recollection(turn)); err != nil {
			return nil, err
		}
	}
	opening := record.Opening{Account: account, Body: body, ChatKey: "chat"}
	return func() int {
		r := sent
		of := recollecting{requestRecall: &s.recall, ctx: ctx, request: &r, session: conversationOf(&opening)}
		info := of.insert(&opening)
		r.share.GiveAll()
		r.release()
		return info.Replayed
	}, nil
}
