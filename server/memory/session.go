package memory

import (
	"context"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// What a list of sessions can include. Reading how each began and ended takes a few turns of each, and its story up to a
// hundred.
const (
	includeBeginning = "beginning"
	includeStory     = "story"
)

func showSession(s *record.Session, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return api.NewSession(s), nil
}

func (h *handler) sessions(c *call) (any, error) {
	var q record.SessionQuery
	q.After, q.Before, q.Limit, q.Ascending = c.query.page(false)
	q.ChatKey, q.ExternalSession = c.query.text("chat_key"), c.query.text("external_id")
	q.Model, q.Tag, q.Parent = c.query.text("model"), c.query.text("tag"), c.query.text("parent")
	q.Client, q.Project = record.ClientName(c.query.text("client")), c.query.text("project")
	outcome := c.query.text("outcome")
	q.Since, q.Until = c.query.time("since"), c.query.time("until")
	include := c.query.text("include")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if include != "" && include != includeBeginning && include != includeStory {
		return nil, codec.Invalid("include", "%q cannot be included; known are %s and %s", include, includeBeginning, includeStory)
	}
	switch outcome {
	case "":
	case "complete":
		q.State = record.Complete
	case "incomplete":
		q.State = record.Incomplete
	default:
		return nil, codec.Invalid("outcome", "sessions are complete or incomplete, not %q", outcome)
	}
	page, err := h.Archive.Sessions(c.account, q)
	if err != nil {
		return nil, err
	}
	shown := make([]api.Session, len(page.Data))
	for i := range page.Data {
		shown[i] = api.NewSession(&page.Data[i])
		if include != "" && page.Data[i].Error == nil {
			tell(c.ctx(), h.Archive, c.account, &shown[i], include == includeStory)
		}
	}
	list := api.NewList(shown, page.HasMore, func(s *api.Session) string { return s.ID })
	if reached := page.Reached; reached != "" && q.Before != "" && q.After == "" {
		list.FirstID = &reached
	} else if reached != "" {
		list.LastID = &reached
	}
	return list, nil
}

func (h *handler) session(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	return ReadSession(c.ctx(), h.Archive, c.account, c.id())
}

// ReadSession reads a session with how it began, what happened in it, and what a model wrote about it.
func ReadSession(ctx context.Context, from Reader, account, id string) (api.Session, error) {
	s, err := from.Session(account, id)
	if err != nil {
		return api.Session{}, err
	}
	shown := api.NewSession(s)
	tell(ctx, from, account, &shown, true)
	shown.Summary, err = from.SessionSummary(account, id)
	return shown, err
}

// tell adds to a session how it began and, if whole, what happened in it. One that changed in the meantime, or is damaged,
// is shown without.
func tell(ctx context.Context, from Reader, account string, s *api.Session, whole bool) {
	if b, err := search.ReadBeginning(from, account, s.ID); err == nil {
		s.Beginning = &b
	}
	if whole {
		if story, err := recall.ReadStory(ctx, from, account, s.ID); err == nil {
			s.Story = &story
		}
	}
}

func (h *handler) describeSession(c *call) (any, error) {
	var asked api.SessionChange
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	return showSession(h.Archive.DescribeSession(c.account, c.id(), record.Description(asked)))
}

func (h *handler) timeline(c *call) (any, error) {
	var (
		q         record.TimelineQuery
		ascending bool
	)
	q.After, q.Before, q.Limit, ascending = c.query.page(true)
	q.Descending = !ascending
	if err := c.query.end(); err != nil {
		return nil, err
	}
	page, err := h.Archive.Timeline(c.account, c.id(), q)
	if err != nil {
		return nil, err
	}
	shown := make([]api.Turn, len(page.Data))
	for i := range page.Data {
		shown[i] = api.NewTurn(&page.Data[i])
	}
	return api.NewList(shown, page.HasMore, func(t *api.Turn) string { return t.Exchange.ID }), nil
}

func (h *handler) mergeSession(c *call) (any, error) {
	var asked api.SessionMerge
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	return showSession(h.Archive.MergeSession(c.ctx(), c.account, c.id(), asked.Into))
}

func (h *handler) splitSession(c *call) (any, error) {
	var asked api.SessionSplit
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	return showSession(h.Archive.SplitSession(c.ctx(), c.account, c.id(), asked.Exchange))
}

func (h *handler) eraseSession(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if _, err := h.Archive.Session(c.account, c.id()); err != nil {
		return nil, err
	}
	return h.eraseSelected(c, record.Selection{Sessions: []string{c.id()}}, false)
}
