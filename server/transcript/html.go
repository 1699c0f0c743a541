package transcript

import (
	"bufio"
	"fmt"
	"html"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/mnemeproxy/mneme/store/record"
)

// page is one HTML page for people, with all it needs: it loads nothing, and holds no script. Everything that was said is
// text in it. Credentials are masked once more, for records made without masking.
type page struct {
	out  *bufio.Writer
	mask func(string) string
}

const pageStyle = `:root{color-scheme:light dark}body{font:15px/1.55 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem}h1{font-size:1.4rem;overflow-wrap:anywhere}header p,time,summary{color:GrayText}section{margin:1.2rem 0;padding-top:.6rem;border-top:1px solid ButtonBorder}h2{font-size:.85rem;margin:0}pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:.4rem 0}details pre{font:13px/1.5 ui-monospace,monospace;border-left:2px solid ButtonBorder;padding-left:.8rem}.failed>summary{font-weight:600}`

func (f *page) begin(c *Conversation) {
	title := c.Title
	if title == "" {
		title = c.ID
	}
	about := append([]string{c.Began.UTC().Format("2006-01-02 15:04 UTC"), c.Project}, c.Models...)
	about = slices.DeleteFunc(about, func(fact string) bool { return fact == "" })
	fmt.Fprintf(f.out, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"><meta name="referrer" content="no-referrer"><title>%[1]s</title><style>%[2]s</style></head>
<body><header><h1>%[1]s</h1><p>%[3]s</p></header><main>
`, f.text(oneLine(title)), pageStyle, f.text(strings.Join(about, " · ")))
}

func (f *page) end() { _, _ = f.out.WriteString("</main></body></html>\n") }

func (f *page) message(m *record.Message, at time.Time, model string) {
	who := map[string]string{"user": "You", "assistant": model, "system": "System"}[m.Role]
	section := who != "" && said(m) != ""
	if section {
		fmt.Fprintf(f.out, "<section><h2>%s <time>%s</time></h2>\n", f.text(oneLine(who)), at.UTC().Format("15:04"))
	}
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case "text":
			fmt.Fprintf(f.out, "<pre>%s</pre>\n", f.text(strings.TrimSpace(p.Text)))
		case "media":
			fmt.Fprintf(f.out, "<p>[%s]</p>\n", f.text(strings.TrimSpace(p.MediaType+" "+p.Name)))
		case "reasoning":
			f.fold("", "Reasoning", p.Text)
		case "call":
			f.fold("", "Call of "+p.Name, argumentsOf(p))
		case "result":
			f.fold(map[bool]string{true: "failed"}[p.Failed], map[bool]string{true: "Failure", false: "Result"}[p.Failed], p.Text)
		}
	}
	if section {
		_, _ = f.out.WriteString("</section>\n")
	}
}

func (f *page) fold(class, title, text string) {
	fmt.Fprintf(f.out, "<details class=\"%s\"><summary>%s</summary><pre>%s</pre></details>\n", class, f.text(oneLine(title)), f.text(text))
}

// text is a text as a page shows it: without credentials, and with control characters as signs.
func (f *page) text(s string) string {
	return html.EscapeString(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ':
			return '\u2400' + r
		case unicode.Is(unicode.Cc, r), unicode.Is(unicode.Bidi_Control, r):
			return '\ufffd'
		}
		return r
	}, f.mask(s)))
}
