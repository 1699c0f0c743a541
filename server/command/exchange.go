package command

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// Exchange is the noun for one request with its answer.
type Exchange struct {
	List ExchangeList `cmd:"" help:"List exchanges, newest first."`
	Show ExchangeShow `cmd:"" help:"Show one exchange with its request and answer."`

	Replay ExchangeReplay `cmd:"" help:"Send a recorded request again, to the same or another model."`

	ExportFixture ExchangeExportFixture `cmd:"" help:"Write a recorded stream as a fixture for tests, without its contents."`
}

// ExchangeList is "mneme exchange list".
type ExchangeList struct {
	Target  `embed:""`
	Period  `embed:""`
	Account string `placeholder:"NAME" help:"Only the exchanges of this account."`
	Limit   int    `placeholder:"N" help:"Show at most N (default: 50; with --json all)."`
	JSON    bool   `help:"Write a JSON array."`
}

const (
	listedByDefault = 50
	exchangePage    = 500 // exchanges requested at a time
)

// Run lists exchanges; with --json it streams them, so that memory does not grow with their number.
func (c *ExchangeList) Run(ctx context.Context, s *Env) error {
	if c.Limit < 0 {
		return fmt.Errorf("--limit %d: give a number above 0", c.Limit)
	}
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if c.JSON {
			return c.writeArray(ctx, client, s.Out)
		}
		return c.writeTable(ctx, client, s)
	})
}

// each visits the newest exchanges, at most limit of them; 0 means all. more reports whether there are others.
func (c *ExchangeList) each(ctx context.Context, client *admin.Client, limit int, visit func(*record.ExchangeInfo) error) (more bool, err error) {
	after := ""
	for seen := 0; ; {
		want := exchangePage
		if limit > 0 {
			want = min(want, limit-seen+1)
		}
		page, err := client.Memory().Exchanges(ctx, c.Account, after, want)
		if err != nil {
			return false, err
		}
		for i := range page.Data {
			x := &page.Data[i]
			after = x.ID
			switch {
			case x.Started.IsZero(): // damaged
			case x.KeptSince().Before(c.Since.Time):
				return false, nil // and so are the following ones
			case x.Started.Before(c.Since.Time), !c.Until.IsZero() && !x.Started.Before(c.Until.Time):
				continue
			}
			if limit > 0 && seen == limit {
				return true, nil
			}
			seen++
			if err := visit(x); err != nil {
				return false, err
			}
		}
		if !page.HasMore || len(page.Data) == 0 {
			return false, nil
		}
	}
}

func (c *ExchangeList) writeArray(ctx context.Context, client *admin.Client, w io.Writer) error {
	array := jsonArray{w: w}
	if _, err := c.each(ctx, client, c.Limit, func(x *record.ExchangeInfo) error { return array.add(x) }); err != nil {
		return err
	}
	return array.end()
}

func (c *ExchangeList) writeTable(ctx context.Context, client *admin.Client, s *Env) error {
	limit := c.Limit
	if limit == 0 {
		limit = listedByDefault
	}
	now, damaged := time.Now(), false
	var rows [][]string
	more, err := c.each(ctx, client, limit, func(x *record.ExchangeInfo) error {
		damaged = damaged || x.Outcome == record.OutcomeDamaged
		rows = append(rows, []string{
			x.ID, ago(now, x.Started), x.Account, orDash(x.Surface), modelOf(x), ended(x), status(x), tokens(x), took(x),
		})
		return nil
	})
	if err != nil {
		return err
	}
	if err := table(s.pages(), []string{"EXCHANGE", "STARTED", "ACCOUNT", "SURFACE", "MODEL", "OUTCOME", "STATUS", "TOKENS", "TOOK"}, rows); err != nil {
		return err
	}
	if damaged {
		fmt.Fprintln(s.Err, "the records of some cannot be read; run mneme check")
	}
	if more {
		fmt.Fprintln(s.Err, "there are more; see them with --limit")
	}
	return nil
}

func modelOf(x *record.ExchangeInfo) string {
	model := orDash(x.ModelAsked)
	if x.Simulated {
		model += " (simulated)"
	}
	return model
}

func status(x *record.ExchangeInfo) string {
	if x.Status == 0 {
		return "-"
	}
	return strconv.Itoa(x.Status)
}

func tokens(x *record.ExchangeInfo) string { return tokenCounts(x.Usage) }

// tokenCounts returns input and output tokens. ~ marks an estimate, or a sum that contains one.
func tokenCounts(u record.UsageInfo) string {
	in := u.InputUncached + u.CacheRead + u.CacheWrite
	if in+u.Output == 0 {
		return "-"
	}
	about := ""
	if u.Estimated {
		about = "~"
	}
	return fmt.Sprintf("%s%d in, %s%d out", about, in, about, u.Output)
}

// ended is the outcome, and whether it is that of another program's record.
func ended(x *record.ExchangeInfo) string {
	if x.Imported.IsZero() {
		return x.Outcome.String()
	}
	return x.Outcome.String() + ", imported"
}

// took is how long the exchange took; the times of an imported one were not measured here.
func took(x *record.ExchangeInfo) string {
	if x.LastByte.IsZero() || !x.Imported.IsZero() {
		return "-"
	}
	return lasted(x.LastByte.Sub(x.Started))
}

// ExchangeShow is "mneme exchange show ID".
type ExchangeShow struct {
	Target `embed:""`
	ID     string `arg:"" name:"id" help:"The exchange's id, exch_..., as exchange list and the X-Service-Exchange-ID header show it."`
	JSON   bool   `xor:"form" help:"Write the record as JSON, with raw_request and raw_response; bytes that are not UTF-8 are base64, as raw_request_encoding and raw_response_encoding say."`
	Raw    bool   `xor:"form" help:"Write only the bytes of the request, then those of the answer."`
	Part   string `enum:"both,request,response" default:"both" placeholder:"PART" help:"With --raw: only the request, or only the response."`
}

// Run shows the exchange in one of three forms: for a person, for a program, or as raw bytes.
func (c *ExchangeShow) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		x, err := client.Memory().Exchange(ctx, c.ID)
		switch {
		case err != nil:
			return err
		case c.JSON:
			return writeJSON(s.Out, x)
		case c.Raw:
			return c.writeRaw(s.Out, &x)
		}
		return describe(s.pages(), &x)
	})
}

func (c *ExchangeShow) writeRaw(w io.Writer, x *api.Exchange) error {
	request, err := x.Request()
	if err != nil {
		return err
	}
	response, err := x.Response()
	if err != nil {
		return err
	}
	if c.Part != "response" {
		if _, err := w.Write(request); err != nil {
			return err
		}
	}
	if c.Part == "both" && isTerminal(w) {
		fmt.Fprint(w, "\n\n")
	}
	if c.Part != "request" {
		_, err = w.Write(response)
	}
	return err
}

// describe writes a summary for a person, then the two bodies.
func describe(w io.Writer, x *api.Exchange) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" && value != "-" {
			fmt.Fprintf(columns, "%s\t%s\n", name, printable(value))
		}
	}
	line("exchange", x.ID)
	line("session", x.Session)
	line("client", x.Client())
	line("project", x.Project)
	line("account", x.Account)
	line("key", x.KeyID)
	line("started", x.Started.Local().Format("2006-01-02 15:04:05.000 MST"))
	if !x.Imported.IsZero() {
		line("imported", x.Imported.Local().Format("2006-01-02 15:04:05 MST")+importedFrom(&x.ExchangeInfo))
	}
	line("outcome", x.Outcome.String())
	line("status", status(&x.ExchangeInfo))
	if x.Error != nil {
		line("error", x.Error.Kind+": "+x.Error.Message)
	}
	line("repeats", x.Repeats)
	line("burst", x.Burst)
	line("surface", x.Surface)
	line("target", x.Target)
	line("provider", x.Provider)
	if x.Simulated {
		line("simulated", "yes: no model answered")
	}
	line("model", x.ModelAsked)
	if x.ModelSent != x.ModelAsked {
		line("sent as", x.ModelSent)
	}
	line("served by", x.ModelServed)
	line("tags", strings.Join(x.Tags, ", "))
	line("note", x.Note)
	line("chat key", x.ChatKey)
	line("external session", x.ExternalSession)
	line("finish reason", x.FinishReason)
	line("tokens", tokens(&x.ExchangeInfo))
	var cost record.Spending
	cost.Count(&x.ExchangeInfo, 1)
	line("cost", dollars(&cost))
	if !x.FirstByte.IsZero() && x.Imported.IsZero() {
		line("first byte after", lasted(x.FirstByte.Sub(x.Started)))
	}
	line("took", took(&x.ExchangeInfo))
	line("translation", strings.Join(x.Translation, "; "))
	line("masked", masked(x.Redactions))
	for i := range x.Attempts {
		line("attempt "+strconv.Itoa(i+1), attempt(&x.Attempts[i]))
	}
	if err := columns.Flush(); err != nil {
		return err
	}
	body(w, "request", x.RequestSize, x.RawRequest, x.RawRequestEncoding)
	body(w, "response", x.ResponseSize, x.RawResponse, x.RawResponseEncoding)
	return nil
}

// importedFrom names the program whose record an imported exchange is.
func importedFrom(x *record.ExchangeInfo) string {
	if name := x.Client(); name != "" {
		return " from " + name
	}
	return ""
}

// attempt describes where an attempt went, and its result.
func attempt(a *record.Attempt) string {
	where := a.Model + " at " + a.Provider + " (" + a.Endpoint
	if a.Key > 0 {
		where += ", key " + strconv.Itoa(a.Key)
	}
	what := "answered"
	if a.Failure != "" {
		what = strings.ReplaceAll(a.Failure, "_", " ")
	}
	if a.Status != 0 {
		what += ", HTTP " + strconv.Itoa(a.Status)
	}
	return where + "): " + what + ", after " + lasted(time.Duration(a.Took)*time.Millisecond)
}

// masked lists what was masked before the exchange was stored: "github_token (2 in the request)".
func masked(redactions []record.Redaction) string {
	kinds := make([]string, len(redactions))
	for i, r := range redactions {
		var places []string
		if r.Request > 0 {
			places = append(places, fmt.Sprintf("%d in the request", r.Request))
		}
		if r.Response > 0 {
			places = append(places, fmt.Sprintf("%d in the response", r.Response))
		}
		kinds[i] = r.Name + " (" + strings.Join(places, ", ") + ")"
	}
	return strings.Join(kinds, ", ")
}

func body(w io.Writer, name string, size int64, text *string, encoding string) {
	fmt.Fprintf(w, "\n%s (%s)\n", name, amount(size))
	switch {
	case encoding != "":
		fmt.Fprintln(w, "not text; see it with --raw")
	case text != nil && *text != "":
		fmt.Fprintln(w, printableLines(strings.TrimRight(*text, "\n")))
	}
}
