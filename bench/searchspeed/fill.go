package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// generator makes text with words as frequent as in prose: Zipf's law over 50,000 of them.
type generator struct {
	mu   sync.Mutex
	zipf *rand.Zipf
}

func newGenerator() *generator {
	return &generator{zipf: rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 8, 50_000)}
}

func (g *generator) word() string {
	n := g.zipf.Uint64()
	return "b" + strings.Map(func(r rune) rune { return 'a' + r%26 }, fmt.Sprintf("%x", n*2654435761%(1<<32)))
}

// text returns about size bytes of words.
func (g *generator) text(size int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(g.word())
		b.WriteByte(' ')
	}
	return b.String()
}

// query returns words as frequent in questions as they are in the texts.
func (g *generator) query(words int) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var b strings.Builder
	for range words {
		b.WriteString(g.word())
		b.WriteByte(' ')
	}
	return strings.TrimSpace(b.String())
}

// sessionLength is how many exchanges a session has.
const sessionLength = 50

// project has all exchanges.
const project = "speed"

// file is the name that the n-th exchange alone asks about.
func file(n int) string { return fmt.Sprintf("pkg/mod%d/file_%d.go", n%500, n) }

// fill makes a store with so many exchanges of the default account, digested into turns and not indexed.
func fill(ctx context.Context, dir string, count, size int) (*generator, error) {
	st, err := store.Open(store.Options{Dir: dir, Digest: digest.Exchange})
	if err != nil {
		return nil, err
	}
	g := newGenerator()
	if err := admin.EnsureAccount(st.Accounts()); err != nil {
		return nil, errors.Join(err, st.Close())
	}
	group, filling := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for n := range count {
		group.Go(func() error { return capture(filling, st, n, g.text(size/8), g.text(size-size/8)) })
	}
	err = group.Wait()
	for err == nil && st.Stats().Undigested > 0 {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(lookEvery):
		}
	}
	return g, errors.Join(err, st.Close())
}

func capture(ctx context.Context, st *store.Store, n int, question, answer string) error {
	question += "in " + file(n) + "?"
	x, err := st.Begin(ctx, &record.Opening{
		Account: admin.DefaultAccount, Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "gpt-5", ModelSent: "gpt-5",
		ExternalSession: fmt.Sprint("session ", n/sessionLength), Project: project, ContentType: "application/json", Started: time.Now(),
		Body: fmt.Appendf(nil, `{"model":"gpt-5","messages":[{"role":"user","content":%q}]}`, question),
	})
	if err != nil {
		return err
	}
	body := fmt.Appendf(nil, `{"id":"c%d","object":"chat.completion","model":"gpt-5","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":%q}}]}`, n, answer)
	if _, err := x.Write(body); err != nil {
		return err
	}
	return x.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200, ContentType: "application/json", LastByte: time.Now()})
}
