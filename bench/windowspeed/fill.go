package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
)

const (
	account    = "default"
	perSession = 50
	writers    = 32
	recent     = 100 // sessions whose turns are read when they are listed; the others are behind them
)

// fill makes an account of many exchanges, and gives its long session. The newest sessions and the long one are digested into
// turns, as all are in life; the others only lengthen the lists.
func (p *plan) fill(ctx context.Context, data string) (long string, err error) {
	err = with(data, nil, func(st *engine.Engine) error {
		if _, err := st.Accounts().Create(account); err != nil {
			return err
		}
		group, capturing := errgroup.WithContext(ctx)
		for w := range writers {
			group.Go(func() error {
				for i := w; i < p.exchanges; i += writers {
					if _, err := capture(capturing, st, fmt.Sprintf("chat %d/%d", w, i/writers/perSession), i); err != nil {
						return err
					}
				}
				return nil
			})
		}
		return group.Wait()
	})
	if err != nil {
		return "", err
	}
	err = with(data, digest.Exchange, func(st *engine.Engine) error {
		for i := range p.turns {
			if long, err = capture(ctx, st, "the long one", i); err != nil {
				return err
			}
		}
		for i := range recent * 5 {
			if _, err := capture(ctx, st, fmt.Sprintf("recent %d", i%recent), i); err != nil {
				return err
			}
		}
		for st.Stats().Undigested > 0 && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond)
		}
		return ctx.Err()
	})
	return long, err
}

func with(data string, turns func(*record.Exchange) (record.Digest, error), do func(*engine.Engine) error) error {
	st, err := engine.Open(store.Options{Dir: data, MinFreeDisk: -1, Digest: turns}, nil)
	if err != nil {
		return err
	}
	return errors.Join(do(st), st.Close())
}

// capture lets one exchange pass as the proxy does, and gives its session.
func capture(ctx context.Context, st *engine.Engine, chat string, n int) (session string, err error) {
	body := fmt.Appendf(nil, `{"model":"gpt-5","messages":[{"role":"user","content":"Question %d: why does the test of package %d fail, and what did the change before it have to do with that?"}]}`, n, n%97)
	answer := fmt.Appendf(nil, `{"id":"chatcmpl-%d","object":"chat.completion","created":1,"model":"gpt-5","choices":[{"index":0,"message":{"role":"assistant","content":"It holds **lock %d** too long.\n\n- Take it later.\n- Or split it: `+"`a.go`"+` has the places."},"finish_reason":"stop"}]}`, n, n)
	c, err := st.Begin(ctx, &record.Opening{
		Account: account, KeyID: "key_0123456789", Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "gpt-5", ChatKey: chat,
		ContentType: "application/json", Body: body, Project: "/src/mneme", Header: []record.HeaderField{{Name: "User-Agent", Value: "codex_exec/1"}},
	})
	if err != nil {
		return "", err
	}
	if err := c.Recorded(ctx); err != nil {
		return "", err
	}
	began := time.Now()
	if _, err := c.Write(answer); err != nil {
		return "", err
	}
	err = c.Finish(&record.Closing{
		Outcome: record.OutcomeComplete, Status: 200, ModelServed: "gpt-5", FinishReason: "stop", ContentType: "application/json",
		Usage: codec.Usage{InputUncached: int64(1000 + n%700), CacheRead: int64(n % 5000), Output: 40}, FirstByte: began, LastByte: time.Now(),
	})
	return c.SessionID(), err
}
