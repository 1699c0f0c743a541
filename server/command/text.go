package command

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/mnemeproxy/mneme/store/record"
)

// table writes rows under headings, with columns as wide as necessary. Cells are made safe to print.
func table(w io.Writer, headings []string, rows [][]string) error {
	widths := make([]int, len(headings))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
	}
	lines := append([][]string{headings}, rows...)
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], displayWidth(cell))
		}
	}
	out := bufio.NewWriter(w)
	for _, line := range lines {
		for i, cell := range line {
			_, _ = out.WriteString(cell)
			if i < len(line)-1 {
				_, _ = out.WriteString(strings.Repeat(" ", widths[i]-displayWidth(cell)+columnGap))
			}
		}
		_ = out.WriteByte('\n')
	}
	return out.Flush()
}

// fitted writes a table in lines of at most so many columns; 0: no limit. Those of the optional columns that come first are left
// out until the others have room. Wide cells are cut, the last column first and most.
func fitted(w io.Writer, width int, headings []string, rows [][]string, optional ...string) error {
	if width <= 0 {
		return table(w, headings, rows)
	}
	taken := func(column int) int {
		widest := displayWidth(headings[column])
		for _, row := range rows {
			row[column] = printable(row[column])
			widest = max(widest, min(displayWidth(row[column]), widestCell))
		}
		return widest + columnGap
	}
	room := width + columnGap
	for i := range headings {
		room -= taken(i)
	}
	for ; room < 0 && len(optional) > 0; optional = optional[1:] {
		if i := slices.Index(headings, optional[0]); i >= 0 {
			room += taken(i)
			headings = slices.Delete(slices.Clone(headings), i, i+1)
			for r := range rows {
				rows[r] = slices.Delete(slices.Clone(rows[r]), i, i+1)
			}
		}
	}
	last := len(headings) - 1
	room = width
	for i := range last {
		room -= taken(i)
	}
	for _, row := range rows {
		for i := range last {
			row[i] = clipped(row[i], widestCell)
		}
		row[last] = clipped(printable(row[last]), max(room, leastCell))
	}
	return table(w, headings, rows)
}

// columnGap is between two columns of a table.
const columnGap = 2

// Widths of cells in a table that has to fit, in columns.
const (
	widestCell = 20 // but the last of a row
	leastCell  = 8  // the last of a row
)

// clipped returns a text of at most so many columns.
func clipped(text string, columns int) string {
	if displayWidth(text) <= columns {
		return text
	}
	var b strings.Builder
	left := columns - 1
	for _, r := range text {
		if left -= runeWidth(r); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	return b.String() + "…"
}

func displayWidth(text string) (columns int) {
	for _, r := range text {
		columns += runeWidth(r)
	}
	return columns
}

// runeWidth is how many columns of a terminal a character takes: two in scripts of wide characters, and as an emoji.
func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case r >= 0x1100 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul), r >= 0x3000 && r <= 0x303f, r >= 0xff00 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
		return 2
	}
	return 1
}

// width returns how many columns the lines of a list may have: those of the terminal, or $COLUMNS; 0: any number.
func (s *Env) width() int {
	if file, ok := s.Out.(*os.File); ok {
		if columns, _, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 {
			return columns
		}
	}
	columns, err := strconv.Atoi(os.Getenv("COLUMNS"))
	if err != nil || columns < leastColumns {
		return 0
	}
	return columns
}

const leastColumns = 40

// counted returns a number with a noun that takes an s in the plural.
func counted[N int | int64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// printable writes control characters as escapes, so that what callers sent cannot move the cursor, hide text or
// break a table.
func printable(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

// printableLines is printable for text of many lines.
func printableLines(s string) string {
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = printable(strings.TrimSuffix(line, "\r"))
	}
	return strings.Join(lines, "\n")
}

// ago formats how long ago t was, or its date if that is more useful.
func ago(now, t time.Time) string {
	switch since := now.Sub(t); {
	case t.IsZero():
		return "-"
	case since < time.Minute:
		return "just now"
	case since < time.Hour:
		return fmt.Sprintf("%d min ago", int(since.Minutes()))
	case since < 24*time.Hour:
		return fmt.Sprintf("%d h ago", int(since.Hours()))
	}
	return t.Local().Format("2006-01-02 15:04")
}

// agoShort is ago in at most ten columns.
func agoShort(now, t time.Time) string {
	if now.Sub(t) < 24*time.Hour {
		return ago(now, t)
	}
	return t.Local().Format(time.DateOnly)
}

// lasted formats a duration with at most three digits.
func lasted(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < 10*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	}
	return fmt.Sprintf("%d min", int(d.Minutes()))
}

// amount formats a number of bytes in the largest unit that leaves at least one.
func amount(bytes int64) string {
	if bytes < 1000 {
		return fmt.Sprintf("%d B", bytes)
	}
	value, unit := float64(bytes)/1e3, "KB"
	for _, larger := range []string{"MB", "GB", "TB"} {
		if value < 1000 {
			break
		}
		value, unit = value/1e3, larger
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// orDash replaces an empty cell with a dash.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// dollars formats the cost of exchanges; ~ marks a cost that is partly estimated or incomplete.
func dollars(s *record.Spending) string {
	amount := s.USD + s.Notional
	switch {
	case amount == 0 && s.Unpriced > 0:
		return "?"
	case s.Unpriced > 0 || s.Estimated > 0:
		return "~" + amount.Rounded()
	}
	return amount.Rounded()
}
