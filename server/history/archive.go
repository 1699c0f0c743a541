package history

import (
	"context"
	"io"

	"github.com/mnemeproxy/mneme/server/transcript"
	"github.com/mnemeproxy/mneme/store/record"
)

// Archive is a memory that takes a history.
type Archive interface {
	Sessions(account string, q record.SessionQuery) (record.SessionPage, error)
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
	Import(ctx context.Context, account string, e record.Exported) (taken bool, err error)
}

// Taken counts what an import added.
type Taken struct {
	Sessions, Exchanges int64
	Skipped             int64 // were on record
}

// Import imports what was found into an account. What is imported before an error stays. Everything that is read is also
// written to show, which may be nil.
func (h *History) Import(ctx context.Context, to Archive, account string, show io.Writer) (done Taken, err error) {
	recorded, err := h.RecordedIn(&archived{ctx, to, account})
	if err != nil {
		return done, err
	}
	err = h.Give(ctx, show, recorded, func(step record.Exported) error {
		taken, err := to.Import(ctx, account, step)
		switch {
		case err != nil:
			return err
		case !taken:
			done.Skipped++
		case step.Session != nil:
			done.Sessions++
		default:
			done.Exchanges++
		}
		return nil
	})
	if err == nil {
		h.Imported()
	}
	return done, err
}

// archived are the sessions of an account.
type archived struct {
	ctx     context.Context
	archive Archive
	account string
}

const archivePage = 100

func (s *archived) EachSession(visit func(*record.Session) error) error {
	for q := (record.SessionQuery{Limit: archivePage}); ; {
		page, err := s.archive.Sessions(s.account, q)
		if err != nil {
			return err
		}
		for i := range page.Data {
			if err := visit(&page.Data[i]); err != nil {
				return err
			}
		}
		if !page.HasMore {
			return nil
		}
		q.After = page.Data[len(page.Data)-1].ID
	}
}

func (s *archived) EachExchange(session string, visit func(*record.ExchangeInfo)) error {
	return transcript.TurnsIn(s.ctx, s.archive, s.account, session)(func(e *record.TimelineEntry) error {
		visit(&e.Exchange)
		return nil
	})
}
