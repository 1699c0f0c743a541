package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// browser is Chromium without a window. It counts the events that its page is told.
type browser struct {
	page  context.Context //nolint:containedctx // chromedp keeps its browser in one
	close func()
	told  atomic.Int64
}

func openBrowser(ctx context.Context) (*browser, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		b := new(browser)
		allocator, free := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(program), chromedp.WindowSize(1440, 900))...)
		page, closed := chromedp.NewContext(allocator, chromedp.WithListener(func(event any) {
			if _, is := event.(*network.EventEventSourceMessageReceived); is {
				b.told.Add(1)
			}
		}))
		b.page, b.close = page, func() { closed(); free() }
		return b, chromedp.Do(page, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
			return err
		}))
	}
	return nil, errors.New("install Chromium first")
}

func (b *browser) open(url string) error { return chromedp.Do(b.page, chromedp.Navigate(url)) }

// cold makes the browser load everything again.
func (b *browser) cold(on bool) error {
	return chromedp.Do(b.page, chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, network.SetCacheDisabled, network.SetCacheDisabledParams{CacheDisabled: on})
		return err
	}))
}

// evaluate runs a script in the page, and waits for what it promises.
func evaluate[T any](b *browser, script string) (T, error) {
	return chromedp.Run(b.page, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// wait returns when a condition holds in the page.
func (b *browser) wait(condition string) error {
	for range 1200 {
		if there, err := evaluate[bool](b, condition); err != nil || there {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the page never came to: %s", condition)
}
