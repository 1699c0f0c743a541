package command

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/server/transcript"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// runTranscript writes whole conversations in formats for other programs.
func (c *Export) runTranscript(ctx context.Context, s *Env) error {
	manage := c.manage
	if c.Where != "" {
		manage = func(ctx context.Context, _ bool, do func(*admin.Client) error) error {
			return c.manageIndex(ctx, false, do)
		}
	}
	return manage(ctx, mustExist, func(client *admin.Client) error {
		account, err := c.one(ctx, client)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		from, to := io.Pipe()
		written := make(chan error, 1)
		go func() {
			err := c.writeTranscripts(ctx, client, account, to)
			_ = to.CloseWithError(err)
			written <- err
		}()
		_, err = s.writeFile(ctx, c.File, "exporting", from)
		_ = from.CloseWithError(io.ErrClosedPipe)
		if failed := <-written; failed != nil && !errors.Is(failed, io.ErrClosedPipe) {
			err = failed
		}
		return err
	})
}

func (c *Export) writeTranscripts(ctx context.Context, client *admin.Client, account string, to io.Writer) error {
	w, err := transcript.NewWriter(c.As, to)
	if err != nil {
		return err
	}
	only := c.Session
	if c.Where != "" {
		found, err := sessionsWhere(ctx, client, account, c.Where)
		if err != nil {
			return err
		}
		if len(only) > 0 {
			found = slices.DeleteFunc(found, func(id string) bool { return !slices.Contains(only, id) })
		}
		if only = found; len(only) == 0 {
			return errors.New("no turn is found by --where " + c.Where)
		}
	}
	write := func(m *api.Session) error {
		if m.Error != nil || !c.Since.IsZero() && m.Updated.Before(c.Since.Time) || !c.Until.IsZero() && !m.Created.Before(c.Until.Time) {
			return nil
		}
		if _, err := w.Session(history.Conversation(m), turnsOf(ctx, client, account, m.ID)); err != nil {
			return err
		}
		return w.Flush()
	}
	if len(only) == 0 {
		list := SessionList{ChatKey: c.ChatKey, ExternalID: c.ExternalID}
		_, err := list.eachOf(ctx, client, account, 0, write)
		return err
	}
	for _, id := range only {
		m, err := client.Memory().Session(ctx, account, id)
		if err != nil {
			return err
		}
		if err := write(&m); err != nil {
			return err
		}
	}
	return nil
}

// sessionsWhere returns the sessions of the turns that a query finds, the best first.
func sessionsWhere(ctx context.Context, client *admin.Client, account, query string) (ids []string, err error) {
	const page = 100
	for more := true; more; {
		answer, err := client.Memory().Search(ctx, account, &search.Request{
			Query: query, Mode: search.Lexical, GroupBy: "session", Limit: page, Offset: len(ids),
		})
		if err != nil {
			return nil, err
		}
		for i := range answer.Data {
			ids = append(ids, answer.Data[i].Session)
		}
		more = answer.HasMore && len(answer.Data) > 0
	}
	return ids, nil
}

// turnsOf visits the turns of a session.
func turnsOf(ctx context.Context, client *admin.Client, account, session string) transcript.Turns {
	return func(visit func(*record.TimelineEntry) error) error {
		return eachTurn(ctx, client, account, session, func(t *api.Turn) error { return visit(&t.TimelineEntry) })
	}
}
