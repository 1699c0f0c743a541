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

const pageStyle = `:root{color-scheme:light dark;--bg:#fff;--text:#1b1d22;--dim:#5c626e;--line:#e3e4e8;--bad:#b3261e;--ask:#f3f5fb}@media(prefers-color-scheme:dark){:root{--bg:#131418;--text:#e6e8ec;--dim:#a0a6b2;--line:#2b2e36;--bad:#ff8f86;--ask:#1c2130}}` +
	`body{font:15px/1.55 system-ui,sans-serif;max-width:52rem;margin:2rem auto;padding:0 1rem;background:var(--bg);color:var(--text)}h1{font-size:1.4rem;line-height:1.3;overflow-wrap:anywhere;margin:0 0 .3rem}header p,time,h2,summary{color:var(--dim);overflow-wrap:anywhere}header p{margin:0 0 1.5rem;font-size:.9rem}` +
	`section{margin:1rem 0 0;padding:.7rem 0 .2rem;border-top:1px solid var(--line)}section.asks{background:var(--ask);border:0;border-radius:8px;padding:.7rem .9rem .4rem}h2{font-size:.85rem;font-weight:600;margin:0}h2 time{font-weight:400;margin-left:.4rem}pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit;margin:.4rem 0}` +
	`details{margin:.25rem 0;font-size:.9rem}summary{cursor:pointer}details pre{font:13px/1.5 ui-monospace,monospace;border-left:2px solid var(--line);padding-left:.8rem}.failed>summary{color:var(--bad)}`

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
		class := map[string]string{"user": "asks"}[m.Role]
		fmt.Fprintf(f.out, "<section class=\"%s\"><h2>%s <time>%s</time></h2>\n", class, f.text(oneLine(who)), at.UTC().Format("15:04"))
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
