package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store/record"
)

// Tail is "mneme tail".
type Tail struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	Session     string `placeholder:"ID" help:"Only exchanges of this session."`
	Key         string `placeholder:"ID" help:"Only exchanges with this service key."`
	JSON        bool   `help:"Write one JSON object per line."`

	titles sessionTitles
}

// Run streams the events of the running server until it is interrupted.
func (c *Tail) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if client.InProcess() {
			return errors.New("no server runs on this data; start one with: mneme serve")
		}
		accounts, query, err := c.selected(ctx, client)
		if err != nil {
			return err
		}
		var (
			writing       sync.Mutex
			tails, inside = errgroup.WithContext(ctx)
		)
		for _, account := range accounts {
			tails.Go(func() error {
				return client.Memory().Tail(inside, account, query, func(e record.Event) error {
					line, err := c.line(inside, client, account, &e)
					if err != nil || line == "" {
						return err
					}
					writing.Lock()
					defer writing.Unlock()
					_, err = fmt.Fprintln(s.Out, line)
					return err
				})
			})
		}
		if err := tails.Wait(); ctx.Err() == nil {
			return err
		}
		return nil // an interrupt is the normal end
	})
}

// selected returns the accounts to follow and the query for their events.
func (c *Tail) selected(ctx context.Context, client *admin.Client) (accounts []string, query url.Values, err error) {
	query = make(url.Values)
	if c.Key != "" {
		query.Set("key", c.Key)
	}
	if c.Session == "" {
		accounts, err = c.accounts(ctx, client)
		return accounts, query, err
	}
	query.Set("session", c.Session)
	owner, _, err := sessionOwner(ctx, client, c.AccountFlag, c.Session)
	return []string{owner}, query, err
}

// tailed is an event in the form for programs.
type tailed struct {
	record.Event
	Account string `json:"account"`
}

// line returns the text for an event; "" for events that only concern the store.
func (c *Tail) line(ctx context.Context, client *admin.Client, account string, e *record.Event) (string, error) {
	if c.JSON {
		text, err := json.Marshal(tailed{*e, account})
		return string(text), err
	}
	words := []string{e.Time.Local().Format("15:04:05"), printable(account)}
	switch e.Kind {
	case record.ExchangeCompleted:
		x, gone := client.Memory().ExchangeInfo(ctx, account, e.Exchange)
		if gone != nil {
			return "", nil //nolint:nilerr // erased meanwhile
		}
		words = append(words, e.Exchange, x.Surface, printable(modelOf(&x)), x.Outcome.String(), status(&x), tokens(&x), took(&x), orDash(e.Session))
		if x.Auxiliary != "" {
			words = append(words, "("+printable(x.Auxiliary)+")")
		}
		if x.Repeats != "" {
			words = append(words, "repeats "+printable(x.Repeats))
		}
		if x.Burst != "" {
			words = append(words, "spent "+x.Burst)
		}
		if title := c.titles.of(ctx, client, account, e.Session); title != "" {
			words = append(words, printable(title))
		}
	case record.ErasureCompleted:
		words = append(words, e.Erasure, "erased")
	default:
		return "", nil
	}
	return strings.Join(words, "  "), nil
}

// sessionTitles caches the titles of sessions in events.
type sessionTitles struct {
	mu    sync.Mutex
	known map[string]string // by session
}

// mostTitles is how many titles are remembered.
const mostTitles = 1000

// of returns the name by which a person knows a session: its title, or its first question.
func (t *sessionTitles) of(ctx context.Context, client *admin.Client, account, session string) string {
	if session == "" {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	title, known := t.known[session]
	if known {
		return title
	}
	s, err := client.Memory().Session(ctx, account, session)
	if err != nil {
		return ""
	}
	if title = s.Title; title == "" && s.Beginning != nil {
		title = s.Asked
	}
	if title == "" { // not digested yet
		return ""
	}
	if t.known == nil || len(t.known) >= mostTitles {
		t.known = make(map[string]string)
	}
	t.known[session] = title
	return title
}
