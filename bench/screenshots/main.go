// Command screenshots takes the pictures of docs/window.md: it plays conversations of made-up agents through mneme to
// the simulated provider, opens the page in Chromium, and saves its views.
//
//	make screenshots
//	make screenshots ARGS="-every -to /tmp/look"    every view, light and dark, in four screen widths
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
)

// plan is which pictures to take.
type plan struct {
	program string
	to      string
	every   bool
	only    string
}

func main() {
	var p plan
	flag.StringVar(&p.program, "mneme", "bin/mneme", "the program")
	flag.StringVar(&p.to, "to", "docs/window", "the directory of the pictures")
	flag.BoolVar(&p.every, "every", false, "take every view, light and dark, in four screen widths")
	flag.StringVar(&p.only, "only", "", "take only the view with this name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := p.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

func (p *plan) run(ctx context.Context) (err error) {
	dir, err := os.MkdirTemp("", "mneme-screenshots-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.MkdirAll(p.to, 0o750); err != nil {
		return err
	}
	stage, err := newDirector(talks)
	if err != nil {
		return err
	}
	defer stage.close()
	m, err := startMneme(ctx, p.program, dir, stage.url())
	if err != nil {
		return err
	}
	defer m.Stop()
	eyes, err := openBrowser(ctx)
	if err != nil {
		return err
	}
	defer eyes.close()
	if err := eyes.signIn(ctx, m); err != nil {
		return err
	}
	if p.every && p.only == "" {
		if err := eyes.shoot(p.to, "first", everyScreen); err != nil {
			return err
		}
	}
	played, err := m.playAll(ctx, talks)
	if err != nil {
		return err
	}
	screens := oneScreen
	if p.every {
		screens = everyScreen
	}
	for _, v := range views(played) {
		if v.extra && !p.every || p.only != "" && p.only != v.name {
			continue
		}
		if err := eyes.open(m.URL+v.path, v.shows); err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if v.press != "" {
			if err := eyes.press(v.press); err != nil {
				return err
			}
		}
		if err := eyes.shoot(p.to, v.name, screens); err != nil {
			return err
		}
	}
	return nil
}

// view is a picture.
type view struct {
	name, path, shows string
	extra             bool   // not used in docs
	press             string // the label of a button to press first
}

func views(of map[string]string) []view {
	session := "/ui/sessions/" + of["deploy"]
	return []view{
		{name: "sessions", path: "/ui/", shows: "Deploy fails"},
		{name: "session", path: session, shows: "certificate"},
		{name: "context", path: session + "?tab=context", shows: "What fills this request"},
		{name: "translated", path: "/ui/sessions/" + of["review"] + "?tab=translated", shows: "provider got"},
		{name: "attempts", path: session + "?tab=attempts", shows: "tokens a second", extra: true},
		{name: "search", path: "/ui/search?q=certificate+expired", shows: "hits"},
		{name: "usage", path: "/ui/usage?since=1d", shows: "caches saved"},
		{name: "raw", path: session + "?tab=raw", shows: "characters", extra: true},
		{name: "fork", path: "/ui/sessions/" + of["question"], shows: "branches from here", extra: true},
		{name: "codex", path: "/ui/sessions/" + of["watcher"], shows: "watcher", extra: true},
		{name: "today", path: "/ui/today", shows: "Who spent what", extra: true},
		{name: "handoff", path: session, shows: "certificate", press: "hand over…", extra: true},
		{name: "live", path: "/ui/live", shows: "Live", extra: true},
		{name: "keys", path: "/ui/keys", shows: "Keys of", extra: true},
		{name: "health", path: "/ui/health", shows: "Providers", extra: true},
		{name: "missing", path: "/ui/sessions/sess_00000000000000000000000000", shows: "Not found", extra: true},
	}
}
