package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
)

// fill captures exchanges and returns once the background work is done, too. tenths receives the CPU time used until
// the end of each tenth of them.
func fill(ctx context.Context, st *engine.Engine, s *shape, p *plan, tenths *tenths) error {
	text, run := corpus(s.corpus()), time.Now().UnixNano()
	group, capturing := errgroup.WithContext(ctx)
	for n := range p.writers {
		group.Go(func() error {
			w := newWriter(s, n, text)
			for i := n; i < p.exchanges; i += p.writers {
				if err := capture(capturing, st, w, fmt.Sprintf("chat %x %d/%d", run, n, i/p.writers/s.perSession())); err != nil {
					return err
				}
				tenths.count(p.exchanges)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := digested(ctx, st, p); err != nil {
		return err
	}
	return st.Index().Wait(ctx, account)
}

// digested waits until everything has been digested.
func digested(ctx context.Context, st *engine.Engine, p *plan) error {
	for p.remember != "record" && st.Stats().Undigested > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}

// capture records one exchange as the proxy does.
func capture(ctx context.Context, st *engine.Engine, w *writer, chat string) error {
	w.next()
	c, err := st.Begin(ctx, &record.Opening{
		Account: account, KeyID: "key_0123456789", Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "m", Stream: w.shape.stream,
		ChatKey: chat, ContentType: "application/json", Body: w.request, Spans: w.spans, Items: w.items,
		Prints: codec.Fingerprints(nil, account, w.request, w.spans),
		Header: []record.HeaderField{{Name: "User-Agent", Value: "capacity/1"}},
	})
	if err != nil {
		return err
	}
	if err := c.Recorded(ctx); err != nil {
		return err
	}
	began := time.Now()
	for part := range slices.Chunk(w.answer, 4096) {
		if _, err := c.Write(part); err != nil {
			return err
		}
	}
	closing := record.Closing{
		Outcome: record.OutcomeComplete, Status: 200, ModelServed: "m", FinishReason: "stop", ResponseID: c.ID(), ContentType: "application/json",
		Usage: codec.Usage{InputUncached: 9, Output: 12}, FirstByte: began, LastByte: time.Now(),
	}
	if w.shape.stream {
		closing.ContentType = "text/event-stream"
	}
	return c.Finish(&closing)
}

// read lists and shows exchanges, and prints how long that takes.
func read(st *engine.Engine) error {
	const pages, perPage = 1000, 100
	var lists, shows, sessions durations
	random := rand.New(rand.NewPCG(2, 2))
	cursor := ""
	for range pages {
		began := time.Now()
		page, err := st.Archive().Exchanges(account, record.ExchangeQuery{After: cursor, Limit: perPage})
		if err != nil {
			return err
		}
		lists.add(time.Since(began))
		if cursor = page.Data[len(page.Data)-1].ID; !page.HasMore {
			cursor = ""
		}
		began = time.Now()
		if _, err := st.Archive().Exchange(account, page.Data[random.IntN(len(page.Data))].ID); err != nil {
			return err
		}
		shows.add(time.Since(began))
		began = time.Now()
		if _, err := st.Archive().Sessions(account, record.SessionQuery{Limit: perPage}); err != nil {
			return err
		}
		sessions.add(time.Since(began))
	}
	fmt.Printf("         list of %d: %s; show: %s; list of %d sessions: %s\n", perPage, &lists, &shows, perPage, &sessions)
	return nil
}
