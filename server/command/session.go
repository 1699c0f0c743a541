package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Session is the noun for the exchanges of one conversation.
type Session struct {
	List    SessionList    `cmd:"" help:"List sessions, newest first."`
	Show    SessionShow    `cmd:"" help:"Show a session and what each exchange added to it."`
	Merge   SessionMerge   `cmd:"" help:"Merge a session into another: one conversation was taken for two."`
	Split   SessionSplit   `cmd:"" help:"Split a session: two conversations were taken for one."`
	Erase   SessionErase   `cmd:"" help:"Erase a session with all of its exchanges."`
	Receipt SessionReceipt `cmd:"" help:"Show the progress of an erasure, in a cluster for every place."`
}

// SessionList is "mneme session list".
type SessionList struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	Period      `embed:""`
	Limit       int    `placeholder:"N" help:"Show at most N of each account (default: 50; with --json all)."`
	ChatKey     string `placeholder:"KEY" help:"Only the session with this chat key."`
	ExternalID  string `placeholder:"ID" help:"Only the session with this external session id."`
	Model       string `placeholder:"NAME" help:"Only sessions that asked for this model."`
	Client      string `placeholder:"NAME" help:"Only sessions of this program, such as claude-code."`
	Project     string `placeholder:"DIR" help:"Only sessions in this directory, or of this project."`
	Outcome     string `placeholder:"OUTCOME" enum:",complete,incomplete" default:"" help:"Only sessions whose exchanges all completed (complete), or did not (incomplete)."`
	Tag         string `placeholder:"TAG" help:"Only sessions with this tag."`
	IDs         bool   `name:"ids" help:"Show the ids of sessions, and what clients call them."`
	JSON        bool   `help:"Write a JSON array."`
}

const sessionPage = 100 // sessions requested at a time, the maximum

// Run lists sessions; with --json it streams them, account by account.
func (c *SessionList) Run(ctx context.Context, s *Env) error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit %d: give a number above 0", c.Limit)
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if c.JSON {
			array := jsonArray{w: s.Out}
			if _, err := c.each(ctx, client, c.Limit, func(m *api.Session) error { return array.add(m) }); err != nil {
				return err
			}
			return array.end()
		}
		return c.writeTable(ctx, client, s)
	})
}

// each visits the newest sessions of each selected account, at most limit of each; 0 means all. more reports whether
// there are others.
func (c *SessionList) each(ctx context.Context, client *admin.Client, limit int, visit func(*api.Session) error) (more bool, err error) {
	accounts, err := c.accounts(ctx, client)
	if err != nil {
		return false, err
	}
	for _, account := range accounts {
		others, err := c.eachOf(ctx, client, account, limit, visit)
		if err != nil {
			return false, err
		}
		more = more || others
	}
	return more, nil
}

func (c *SessionList) eachOf(ctx context.Context, client *admin.Client, account string, limit int, visit func(*api.Session) error) (more bool, err error) {
	query := url.Values{"include": {"beginning"}}
	for name, value := range map[string]string{"chat_key": c.ChatKey, "external_id": c.ExternalID, "model": c.Model, "client": c.Client, "project": c.Project, "outcome": c.Outcome, "tag": c.Tag} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, bound := range map[string]time.Time{"since": c.Since.Time, "until": c.Until.Time} {
		if !bound.IsZero() {
			query.Set(name, bound.UTC().Format(time.RFC3339Nano))
		}
	}
	for seen := 0; ; {
		want := sessionPage
		if limit > 0 {
			want = min(want, limit-seen)
		}
		query.Set("limit", strconv.Itoa(want))
		page, err := client.Memory().Sessions(ctx, account, query)
		if err != nil {
			return false, err
		}
		for i := range page.Data {
			if err := visit(&page.Data[i]); err != nil {
				return false, err
			}
		}
		seen += len(page.Data)
		if !page.HasMore || page.LastID == nil || seen == limit {
			return page.HasMore, nil
		}
		query.Set("after", *page.LastID)
	}
}

// newestFirst compares sessions of several accounts. Ids of a cluster's sessions do not tell when they began.
func newestFirst(a, b api.Session) int {
	return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.ID, a.ID))
}

func (c *SessionList) writeTable(ctx context.Context, client *admin.Client, s *Env) error {
	limit := c.Limit
	if limit == 0 {
		limit = listedByDefault
	}
	var sessions []api.Session
	more, err := c.each(ctx, client, limit, func(m *api.Session) error {
		sessions = append(sessions, *m)
		return nil
	})
	if err != nil {
		return err
	}
	slices.SortFunc(sessions, newestFirst)
	if err := c.show(s, sessions); err != nil {
		return err
	}
	if more {
		fmt.Fprintln(s.Err, "there are more; see them with --limit")
	}
	return nil
}

// wideList is from how many columns on a list has its less important ones too.
const wideList = 100

// show writes sessions as a table that fits the terminal.
func (c *SessionList) show(s *Env, sessions []api.Session) error {
	now, width := time.Now(), s.width()
	if c.IDs {
		width = 0
	}
	wide := width == 0 || width >= wideList
	several := slices.ContainsFunc(sessions, func(m api.Session) bool { return m.Account != sessions[0].Account })
	var headings []string
	rows := make([][]string, len(sessions))
	column := func(shown bool, heading string, cell func(m *api.Session) string) {
		if !shown {
			return
		}
		headings = append(headings, heading)
		for i := range sessions {
			rows[i] = append(rows[i], orDash(cell(&sessions[i])))
		}
	}
	began := func(m *api.Session) search.Beginning {
		if m.Beginning == nil {
			return search.Beginning{}
		}
		return *m.Beginning
	}
	column(c.IDs, "SESSION", func(m *api.Session) string { return m.ID })
	column(true, "LAST USED", func(m *api.Session) string { return agoShort(now, m.Updated) })
	column(several, "ACCOUNT", func(m *api.Session) string { return m.Account })
	column(c.IDs, "KNOWN AS", func(m *api.Session) string {
		return cmp.Or(m.ChatKey, m.ExternalSession, m.NativeSession, m.Conversation)
	})
	column(wide, "MODELS", func(m *api.Session) string { return strings.Join(m.Models, ", ") })
	column(true, "N", func(m *api.Session) string { return strconv.FormatInt(m.Exchanges, 10) })
	column(width == 0, "TOKENS", func(m *api.Session) string { return tokenCounts(m.Usage) })
	column(true, "COST", func(m *api.Session) string { return dollars(&m.Cost) })
	column(true, "CLIENT", func(m *api.Session) string { return began(m).Client })
	column(true, "PROJECT", func(m *api.Session) string {
		if name := began(m).Project; width > 0 {
			return name[strings.LastIndexAny(name, `/\`)+1:]
		}
		return began(m).Project
	})
	column(true, "ASKED", func(m *api.Session) string {
		if m.Error != nil {
			return nameOf(&m.Session)
		}
		return cmp.Or(m.Title, began(m).Asked)
	})
	return fitted(s.pages(), width, headings, rows, "MODELS", "CLIENT", "PROJECT")
}

// nameOf returns the name by which a person knows a session.
func nameOf(m *record.Session) string {
	if m.Error != nil {
		return "damaged: run mneme check"
	}
	return cmp.Or(m.Title, m.ChatKey, m.ExternalSession, m.NativeSession, m.Conversation)
}

// SessionShow is "mneme session show ID".
type SessionShow struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	ID          string `arg:"" name:"id" help:"The session's id, sess_..., as session list and the X-Service-Session-ID header show it, or the id of one of its exchanges, exch_..."`
	Full        bool   `help:"Show texts in full."`
	JSON        bool   `help:"Write the session with its turns as JSON."`
}

// Run shows the session, oldest turn first.
func (c *SessionShow) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		account, m, err := c.find(ctx, client)
		for merges := 0; err == nil && m.Merged != "" && merges < record.MaxMerges; merges++ {
			fmt.Fprintf(s.Err, "mneme: %s was merged into %s\n", m.ID, m.Merged)
			m, err = client.Memory().Session(ctx, account, m.Merged)
		}
		if err != nil {
			return err
		}
		if c.JSON {
			return c.writeJSON(ctx, client, s, account, m)
		}
		w := s.pages()
		if err := describeSession(w, &m.Session); err != nil {
			return err
		}
		if m.Summary != nil {
			fmt.Fprintf(w, "\nsummary by %s:\n  %s\n", printable(m.Summary.By), strings.ReplaceAll(printableLines(m.Summary.Text), "\n", "\n  "))
		}
		return eachTurn(ctx, client, account, m.ID, func(t *api.Turn) error {
			c.describeTurn(w, t)
			return nil
		})
	})
}

// find returns the session, also by the id of one of its exchanges, and its account.
func (c *SessionShow) find(ctx context.Context, client *admin.Client) (account string, found api.Session, err error) {
	if !strings.HasPrefix(c.ID, "exch_") {
		return sessionOwner(ctx, client, c.AccountFlag, c.ID)
	}
	x, err := client.Memory().Exchange(ctx, c.ID)
	if err == nil && x.Session == "" {
		err = fmt.Errorf("exchange %s is in no session; see it with: mneme exchange show %s", c.ID, c.ID)
	}
	if err != nil {
		return "", found, err
	}
	owner := c.AccountFlag
	if owner.Account == "" {
		owner.Account = x.Account
	}
	return sessionOwner(ctx, client, owner, x.Session)
}

func (c *SessionShow) writeJSON(ctx context.Context, client *admin.Client, s *Env, account string, m api.Session) error {
	shown := struct {
		api.Session
		Turns []api.Turn `json:"turns"`
	}{m, []api.Turn{}}
	err := eachTurn(ctx, client, account, m.ID, func(t *api.Turn) error {
		shown.Turns = append(shown.Turns, *t)
		return nil
	})
	if err != nil {
		return err
	}
	return writeJSON(s.Out, shown)
}

func eachTurn(ctx context.Context, client *admin.Client, account, id string, visit func(*api.Turn) error) error {
	for after := ""; ; {
		page, err := client.Memory().Timeline(ctx, account, id, after)
		if err != nil {
			return err
		}
		for i := range page.Data {
			if err := visit(&page.Data[i]); err != nil {
				return err
			}
		}
		if !page.HasMore || page.LastID == nil {
			return nil
		}
		after = *page.LastID
	}
}

func describeSession(w io.Writer, m *record.Session) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(columns, "%s\t%s\n", name, printable(value))
		}
	}
	line("session", m.ID)
	line("account", m.Account)
	line("title", m.Title)
	line("tags", strings.Join(m.Tags, ", "))
	line("note", m.Note)
	line("began", m.Created.Local().Format("2006-01-02 15:04:05"))
	line("last used", m.Updated.Local().Format("2006-01-02 15:04:05"))
	line("chat key", m.ChatKey)
	line("external session", m.ExternalSession)
	line("client's session", m.NativeSession)
	line("conversation", m.Conversation)
	line("subagent", m.Agent)
	line("works for", m.Parent)
	line("merged into", m.Merged)
	if m.Derived {
		line("known by", "its opening messages")
	}
	line("models", strings.Join(m.Models, ", "))
	line("exchanges", fmt.Sprintf("%d, of which %d complete and %d auxiliary", m.Exchanges, m.Completed, m.Auxiliary))
	line("tokens", tokenCounts(m.Usage))
	return columns.Flush()
}

func (c *SessionShow) describeTurn(w io.Writer, t *api.Turn) {
	x := &t.Exchange
	head := []string{x.Started.Local().Format("15:04:05"), x.ID, modelOf(x)}
	if x.Outcome != record.OutcomeComplete {
		head = append(head, x.Outcome.String())
	}
	if !x.Imported.IsZero() {
		head = append(head, "imported")
	}
	if x.Auxiliary != "" {
		head = append(head, "no turn: "+x.Auxiliary)
	}
	if t.Turn != nil && t.Turn.Branch {
		head = append(head, "branches off")
	}
	fmt.Fprintf(w, "\n%s\n", printable(strings.Join(head, "  ")))
	if x.Outcome == record.OutcomeDamaged && x.Error != nil {
		fmt.Fprintf(w, "  %s\n", printable(x.Error.Message))
	}
	if t.Turn == nil {
		return
	}
	if t.Turn.Error != "" {
		fmt.Fprintf(w, "  %s\n", printable(t.Turn.Error))
	}
	for _, m := range slices.Concat(t.Turn.Messages, t.Turn.Answer) {
		for i := range m.Parts {
			c.describePart(w, m.Role, &m.Parts[i])
		}
	}
}

// shownText is how much of a text is shown by default.
const shownText = 500

func (c *SessionShow) describePart(w io.Writer, role string, p *record.Part) {
	what, text := role, p.Text
	switch p.Kind {
	case "text":
	case "call":
		text = p.Name + " " + cmp.Or(search.Command(p), p.Arguments+p.Text)
		what += " calls"
	case "media":
		text = strings.TrimSpace(fmt.Sprintf("%s %s, %s", p.Name, p.MediaType, amount(p.Bytes)))
		what += " media"
	default:
		what += " " + p.Kind
	}
	if cut := []rune(text); !c.Full && len(cut) > shownText {
		text = string(cut[:shownText]) + fmt.Sprintf(" … (%s more; see them with --full)", amount(int64(len(string(cut[shownText:])))))
	}
	fmt.Fprintf(w, "  %s: %s\n", printable(what), strings.ReplaceAll(printableLines(strings.TrimSpace(text)), "\n", "\n    "))
}

// SessionMove has the flags of the commands that move exchanges to another session.
type SessionMove struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	JSON        bool `help:"Write the other session as JSON."`
}

// run moves exchanges in the account that has the session. move returns the other session, and a sentence about it.
func (c *SessionMove) run(ctx context.Context, s *Env, move func(m admin.MemoryClient, account string) (api.Session, string, error)) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		var moved string
		_, session, err := ownerOf(ctx, client, c.AccountFlag, func(account string) (session api.Session, err error) {
			session, moved, err = move(client.Memory(), account)
			return session, err
		})
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, session)
		}
		_, err = fmt.Fprintln(s.Out, moved)
		return err
	})
}

// SessionMerge is "mneme session merge ID INTO".
type SessionMerge struct {
	SessionMove `embed:""`
	ID          string `arg:"" name:"id" help:"The session to merge."`
	Into        string `arg:"" name:"into" help:"The session to merge it into, of the same account."`
}

// Run merges; whatever led to the first session then leads to the other one.
func (c *SessionMerge) Run(ctx context.Context, s *Env) error {
	return c.run(ctx, s, func(m admin.MemoryClient, account string) (api.Session, string, error) {
		into, err := m.MergeSession(ctx, account, c.ID, c.Into)
		return into, fmt.Sprintf("%s merged into %s, which now has %d exchanges", c.ID, into.ID, into.Exchanges), err
	})
}

// SessionSplit is "mneme session split ID EXCHANGE".
type SessionSplit struct {
	SessionMove `embed:""`
	ID          string `arg:"" name:"id" help:"The session to split."`
	Exchange    string `arg:"" name:"exchange" help:"The first exchange of the new session; later ones follow it."`
}

// Run splits, and shows the new session.
func (c *SessionSplit) Run(ctx context.Context, s *Env) error {
	return c.run(ctx, s, func(m admin.MemoryClient, account string) (api.Session, string, error) {
		begun, err := m.SplitSession(ctx, account, c.ID, c.Exchange)
		return begun, fmt.Sprintf("%s moved from %s to the new session %s with %d exchanges", c.Exchange, c.ID, begun.ID, begun.Exchanges), err
	})
}

// SessionErase is "mneme session erase ID".
type SessionErase struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	ID          string `arg:"" name:"id" help:"The session to erase."`
	DryRun      bool   `help:"Show what would be erased, and erase nothing."`
	Yes         bool   `help:"Erase without asking."`
	JSON        bool   `help:"Write the receipt as JSON."`
}

// Run erases the session and waits until nothing is left of it.
func (c *SessionErase) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		account, m, err := sessionOwner(ctx, client, c.AccountFlag, c.ID)
		if err != nil {
			return err
		}
		asked := api.NewErasure{Selection: record.Selection{Sessions: []string{m.ID}}, DryRun: c.DryRun || !c.Yes}
		e, err := client.Memory().Erase(ctx, account, asked)
		if err == nil && !c.Yes && !c.DryRun {
			what := fmt.Sprintf("%s of session %s", counted(e.Exchanges, "exchange"), m.ID)
			if m.Beginning != nil && m.Asked != "" {
				what += ", which began with: " + printable(m.Asked)
			}
			if err := s.confirm(ctx, what+"\nare erased for good."); err != nil {
				return err
			}
			asked.DryRun = false
			e, err = client.Memory().Erase(ctx, account, asked)
		}
		if err == nil && !c.DryRun {
			done := s.waiting("erasing")
			e, err = untilErased(ctx, client, account, e)
			done()
		}
		if err != nil {
			return err
		}
		return c.report(s, &e)
	})
}

// eraseInterval is how often the progress of an erasure is checked.
const eraseInterval = 20 * time.Millisecond

func untilErased(ctx context.Context, client *admin.Client, account string, e api.Erasure) (api.Erasure, error) {
	for e.State != record.ErasureDone {
		select {
		case <-ctx.Done():
			return e, ctx.Err()
		case <-time.After(eraseInterval):
		}
		var err error
		if e, err = client.Memory().Erasure(ctx, account, e.ID); err != nil {
			return e, err
		}
	}
	return e, nil
}

func (c *SessionErase) report(s *Env, e *api.Erasure) error {
	switch {
	case c.JSON:
		return writeJSON(s.Out, e)
	case c.DryRun:
		fmt.Fprintf(s.Out, "%s would be erased\n", counted(e.Exchanges, "exchange"))
	default:
		return reportErasure(s, e)
	}
	reportOpen(s, e)
	return nil
}

// SessionReceipt is "mneme session receipt ID".
type SessionReceipt struct {
	Target      `embed:""`
	AccountFlag `embed:""`
	ID          string `arg:"" name:"id" help:"The receipt, as an erasure gave it."`
	JSON        bool   `help:"Write the receipt as JSON."`
}

// Run shows the current receipt.
func (c *SessionReceipt) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		_, e, err := ownerOf(ctx, client, c.AccountFlag, func(account string) (api.Erasure, error) {
			return client.Memory().Erasure(ctx, account, c.ID)
		})
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, &e)
		}
		return reportErasure(s, &e)
	})
}

// reportErasure reports what was erased, and in a cluster where.
func reportErasure(s *Env, e *api.Erasure) error {
	if e.State == record.ErasureDone {
		fmt.Fprintf(s.Out, "erased %d exchanges, %s; the receipt is %s\n", e.Exchanges, amount(e.Bytes), e.ID)
	} else {
		fmt.Fprintf(s.Out, "%s is %s; %d exchanges are erased\n", e.ID, e.State, e.Exchanges)
	}
	if e.Late > 0 {
		fmt.Fprintf(s.Out, "%d more arrived later, and were not taken\n", e.Late)
	}
	reportOpen(s, e)
	if len(e.Places) == 0 {
		return nil
	}
	rows := make([][]string, len(e.Places))
	for i := range e.Places {
		p := &e.Places[i]
		note := ""
		switch {
		case !p.Until.IsZero():
			note = "gone by itself on " + p.Until.Format(time.DateOnly)
		case p.State == record.PlaceWaiting && !p.Seen.IsZero():
			note = "last heard " + p.Seen.Format(time.RFC3339)
		}
		rows[i] = []string{p.Place, strings.ReplaceAll(string(p.State), "_", " "), note}
	}
	return table(s.Out, []string{"PLACE", "STATE", "NOTE"}, rows)
}

func reportOpen(s *Env, e *api.Erasure) {
	if e.Open > 0 {
		kept := "not erased"
		if e.DryRun {
			kept = "would not be erased"
		}
		fmt.Fprintf(s.Err, "mneme: %s, because still running: %s\n", kept, counted(e.Open, "exchange"))
	}
}
