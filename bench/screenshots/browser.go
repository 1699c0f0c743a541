package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// screen is a size and style of screen.
type screen struct {
	name          string // suffix of the picture's name
	width, height int64
	dark          bool
}

var (
	oneScreen   = []screen{{width: 1280, height: 800}}
	everyScreen = []screen{
		{"-390", 390, 844, false},
		{"-1024", 1024, 768, false},
		{"-1440", 1440, 900, false},
		{"-2560", 2560, 1300, false},
		{"-390-dark", 390, 844, true},
		{"-1024-dark", 1024, 768, true},
		{"-1440-dark", 1440, 900, true},
		{"-2560-dark", 2560, 1300, true},
	}
)

// browser is headless Chromium.
type browser struct {
	page  context.Context //nolint:containedctx // chromedp keeps its browser in one
	close func()
}

func openBrowser(ctx context.Context) (*browser, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.ExecPath(program))
		allocator, free := chromedp.NewExecAllocator(ctx, options...)
		page, closed := chromedp.NewContext(allocator)
		return &browser{page: page, close: func() { closed(); free() }}, nil
	}
	return nil, errors.New("install Chromium first")
}

// signIn opens the page like mneme ui.
func (b *browser) signIn(ctx context.Context, m *mneme) error {
	link, err := m.Run(ctx, "ui", "--print")
	if err != nil {
		return err
	}
	if err := chromedp.Do(b.page, chromedp.Navigate(link)); err != nil {
		return err
	}
	return b.wait("Nothing is on record yet")
}

// open goes to a view and waits until it shows a text.
func (b *browser) open(url, shows string) error {
	if err := chromedp.Do(b.page, chromedp.Navigate(url)); err != nil {
		return err
	}
	return b.wait(shows)
}

// press clicks a button.
func (b *browser) press(label string) error {
	return chromedp.Do(b.page, chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`[...document.querySelectorAll('button')].find((e) => e.innerText === %q).click()`, label)))
}

// shoot saves a picture of each screen.
func (b *browser) shoot(dir, name string, screens []screen) error {
	for _, s := range screens {
		scheme := "light"
		if s.dark {
			scheme = "dark"
		}
		err := chromedp.Do(b.page, chromedp.EmulateViewport(s.width, s.height), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
			return err
		}))
		if err != nil {
			return err
		}
		picture, err := chromedp.Run(b.page, chromedp.CaptureScreenshot())
		if err != nil {
			return err
		}
		if picture, err = smaller(picture); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name+s.name+".png"), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// wait returns when the page shows a text.
func (b *browser) wait(text string) error {
	script := fmt.Sprintf(`document.body.innerText.includes(%q) && !document.querySelector('[aria-busy=true]') && [...document.images].every((e) => e.complete)`, text)
	for range 300 {
		if there, err := chromedp.Run(b.page, chromedp.Evaluate[bool](script)); err != nil || there {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return fmt.Errorf("the page does not show %q", text)
}
