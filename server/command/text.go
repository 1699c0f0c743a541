package command

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// table writes rows under headings, with columns as wide as necessary. Cells are made safe to print.
func table(w io.Writer, headings []string, rows [][]string) error {
	columns := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, strings.Join(headings, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cell)
		}
		fmt.Fprintln(columns, strings.Join(row, "\t"))
	}
	return columns.Flush()
}

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
