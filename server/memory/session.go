package memory

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search"
)

// includeBeginning asks a list of sessions for how each began, which reads a turn of each.
const includeBeginning = "beginning"

// Session is the JSON form of a session.
type Session struct {
	Object string `json:"object"` // "memory.session"
	store.Session
	*search.Beginning                       // of a single one, and with include=beginning
	Summary           *store.SessionSummary `json:"summary,omitempty"` // of a single one, and in an export: what a model has written about it
}

// Turn is an exchange of a session with what it added.
type Turn struct {
	Object string `json:"object"` // "memory.turn"
	store.TimelineEntry
}

func showSession(s *store.Session, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	return Session{Object: "memory.session", Session: *s}, nil
}

func (a *api) sessions(c *call) (any, error) {
	var q store.SessionQuery
	q.After, q.Before, q.Limit, q.Ascending = c.query.page(false)
	q.ChatKey, q.ExternalSession = c.query.text("chat_key"), c.query.text("external_id")
	q.Model, q.Tag, q.Parent = c.query.text("model"), c.query.text("tag"), c.query.text("parent")
	q.Since, q.Until = c.query.time("since"), c.query.time("until")
	include := c.query.text("include")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if include != "" && include != includeBeginning {
		return nil, codec.Invalid("include", "%q cannot be included; known is %s", include, includeBeginning)
	}
	page, err := a.Archive.Sessions(c.account, q)
	if err != nil {
		return nil, err
	}
	shown := make([]Session, len(page.Data))
	for i := range page.Data {
		shown[i] = Session{Object: "memory.session", Session: page.Data[i]}
		if include != "" && page.Data[i].Error == nil {
			b, err := search.ReadBeginning(a.Archive, c.account, page.Data[i].ID)
			if err != nil {
				continue // the session changed meanwhile, or is damaged: it is listed without
			}
			shown[i].Beginning = &b
		}
	}
	return newList(shown, page.HasMore, func(s *Session) string { return s.ID }), nil
}

func (a *api) session(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	s, err := a.Archive.Session(c.account, c.id())
	if err != nil {
		return nil, err
	}
	shown := Session{Object: "memory.session", Session: *s}
	if b, err := search.ReadBeginning(a.Archive, c.account, s.ID); err == nil {
		shown.Beginning = &b
	}
	shown.Summary, err = a.Archive.SessionSummary(c.account, c.id())
	return shown, err
}

func (a *api) describeSession(c *call) (any, error) {
	var asked struct {
		Title *string  `json:"title"`
		Tags  []string `json:"tags"`
	}
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	return showSession(a.Archive.DescribeSession(c.account, c.id(), asked.Title, asked.Tags))
}

func (a *api) timeline(c *call) (any, error) {
	var (
		q         store.TimelineQuery
		ascending bool
	)
	q.After, q.Before, q.Limit, ascending = c.query.page(true)
	q.Descending = !ascending
	if err := c.query.end(); err != nil {
		return nil, err
	}
	page, err := a.Archive.Timeline(c.account, c.id(), q)
	if err != nil {
		return nil, err
	}
	shown := make([]Turn, len(page.Data))
	for i := range page.Data {
		shown[i] = Turn{Object: "memory.turn", TimelineEntry: page.Data[i]}
	}
	return newList(shown, page.HasMore, func(t *Turn) string { return t.Exchange.ID }), nil
}

func (a *api) mergeSession(c *call) (any, error) {
	var asked struct {
		Into string `json:"into"`
	}
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	return showSession(a.Archive.MergeSession(c.ctx(), c.account, c.id(), asked.Into))
}

func (a *api) splitSession(c *call) (any, error) {
	var asked struct {
		Exchange string `json:"exchange"`
	}
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	return showSession(a.Archive.SplitSession(c.ctx(), c.account, c.id(), asked.Exchange))
}

func (a *api) eraseSession(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if _, err := a.Archive.Session(c.account, c.id()); err != nil {
		return nil, err
	}
	return a.eraseSelected(c, store.Selection{Sessions: []string{c.id()}}, false)
}
