package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/server/recall"
)

// questionWords is how many words of prose a question has, besides a name.
const questionWords = 8

// measureRecall asks for decisions with nothing else to do, and while exchanges pass.
func (p *plan) measureRecall(ctx context.Context, out io.Writer, up *process, data string, said *generator) error {
	m, err := startMneme(ctx, p.program, p.dir, data, up.address, "model: none")
	if err != nil {
		return err
	}
	defer m.stop()
	if _, err := m.caughtUp(ctx); err != nil {
		return err
	}
	if err := m.atRest(ctx); err != nil {
		return err
	}
	random := rand.New(rand.NewPCG(3, 4))
	questions := []struct {
		kind string
		ask  func() string
	}{
		{"a name on record", func() string { return said.query(questionWords) + " " + file(random.IntN(p.documents)) }},
		{"a name not on record", func() string { return said.query(questionWords) + " " + file(p.documents+random.IntN(p.documents)) }},
		{"words alone", func() string { return said.query(questionWords) }},
	}
	for _, rate := range []int{0, p.rate} {
		l := startLoad(ctx, m, rate, p.bytes)
		for _, q := range questions {
			d, err := m.decide(ctx, p.queries, q.ask)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "%d exchanges/s, %s: p50 %.1f ms, p99 %.1f ms, %d of %d spoke, %d past the deadline", rate, q.kind,
				ms(quantile(d.took, 0.5)), ms(quantile(d.took, 0.99)), d.spoke, p.queries, d.late)
			if rate == 0 {
				fmt.Fprintf(out, ", %.1f ms of processor time", ms(d.worked)/float64(p.queries+warmUp))
			}
			fmt.Fprintln(out)
		}
		passed, _, err := l.stop()
		if err != nil {
			return err
		}
		if rate > 0 {
			fmt.Fprintf(out, "%.0f exchanges/s passed meanwhile\n", passed)
		}
	}
	return nil
}

// decisions are what recall decided, and how long it took.
type decisions struct {
	took        []time.Duration
	spoke, late int
	worked      time.Duration // processor time of the process, those that are not counted included
}

// decide measures decisions, one after the other.
func (p *process) decide(ctx context.Context, times int, question func() string) (d decisions, err error) {
	before := p.cpu()
	for n := range warmUp + times {
		body := fmt.Sprintf(`{"prompt":%q,"project":%q}`, question(), project)
		var r recall.Recalled
		began := time.Now()
		if err := p.do(ctx, http.MethodPost, "/v1/memory/recall", body, &r); err != nil {
			return d, err
		}
		if n < warmUp {
			continue
		}
		d.took = append(d.took, time.Since(began))
		switch {
		case r.Text != "":
			d.spoke++
		case r.Reason == recall.ReasonDeadline:
			d.late++
		case r.Reason != recall.ReasonCoverage:
			return d, fmt.Errorf("a decision was not about what the record holds: %s", r.Reason.Sentence())
		}
	}
	d.worked = p.cpu() - before
	return d, nil
}
