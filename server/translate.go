package server

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/store/record"
)

// translate rebuilds the provider's body of a recorded request, by today's rules and for today's provider.
func (s *proxy) translate(x *record.Exchange) (body []byte, notes codec.Notes, err error) {
	surface, err := codec.ParseFormat(x.Surface)
	if err != nil {
		return nil, notes, err
	}
	format, err := codec.ParseFormat(x.Format)
	if err != nil {
		return nil, notes, err
	}
	r := s.router.Load()
	placement, refused := r.Place(x.ModelAsked)
	if refused != nil {
		return nil, notes, refused
	}
	if x.ModelSent != "" {
		placement.Model = x.ModelSent
	}
	crossed, body, err := crossing.Prepare(nil, surface, format, x.RawRequest, &crossing.Settings{
		Target: r.Target(placement), Account: x.Account, Ledger: reasoningLedger{s.engine.Notes},
		Answer: codec.AnswerOptions{ID: strings.TrimPrefix(x.ID, "exch_"), Model: x.ModelAsked, Created: x.Started},
	})
	if err != nil {
		return nil, notes, err
	}
	defer crossed.Release()
	return body, crossed.RequestNotes(), nil
}
