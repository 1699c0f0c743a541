package transcript

import (
	"bufio"
	"fmt"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// markdown is for people: a chapter per conversation, with tool output folded.
type markdown struct {
	out  *bufio.Writer
	last string // the last speaker
}

func (f *markdown) begin(c *Conversation) {
	f.last = ""
	title := c.Title
	if title == "" {
		title = c.ID
	}
	fmt.Fprintf(f.out, "# %s\n\n%s · %s", oneLine(title), c.ID, c.Began.UTC().Format(time.RFC3339))
	for _, more := range append([]string{c.Project}, c.Models...) {
		if more != "" {
			fmt.Fprintf(f.out, " · %s", oneLine(more))
		}
	}
	_, _ = f.out.WriteString("\n\n")
}

func (f *markdown) end() {}

func (f *markdown) message(m *record.Message, at time.Time, model string) {
	who := map[string]string{"user": "You", "assistant": model, "system": "System"}[m.Role]
	if who != "" && who != f.last && said(m) != "" {
		fmt.Fprintf(f.out, "## %s\n\n%s\n\n", oneLine(who), at.UTC().Format(time.RFC3339))
		f.last = who
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case "text":
			_, _ = f.out.WriteString(strings.TrimSpace(p.Text) + "\n\n")
		case "media":
			fmt.Fprintf(f.out, "*%s %s*\n\n", oneLine(p.MediaType), oneLine(p.Name))
		case "reasoning":
			f.fold("Reasoning", p.Text)
		case "call":
			f.fold("Call of "+p.Name, argumentsOf(p))
		case "result":
			f.fold(map[bool]string{true: "Failure", false: "Result"}[p.Failed], p.Text)
		}
	}
}

// fold writes a text that nothing in it can end: its fence is longer than any in it.
func (f *markdown) fold(title, text string) {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	fmt.Fprintf(f.out, "<details><summary>%s</summary>\n\n%s\n%s\n%s\n\n</details>\n\n", inert.Replace(oneLine(title)), fence, strings.TrimRight(text, "\n"), fence)
}

var inert = strings.NewReplacer("<", "&lt;", "&", "&amp;")

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
