package search

import (
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/record"
)

const (
	maxFailureLines = 8   // of one text
	maxFailureLine  = 400 // bytes of a line that count
	leastWords      = 3   // of a line that is identified by its words
)

// Signatures returns the signatures of the failures that lines of a text report. The same failure has the same signature
// whatever numbers, times, addresses and directories its message contains.
func Signatures(text string) []string {
	var found []string
	lines := 0
	for line := range strings.Lines(text) {
		if lines == maxFailureLines {
			break
		}
		if !tellsFailure(line) {
			continue
		}
		lines++
		stable := stableFailure(line)
		if len(strings.Fields(stable)) < leastWords {
			continue
		}
		sum := blake3.Sum256([]byte(stable))
		found = append(found, hex.EncodeToString(sum[:8]))
	}
	return found
}

// FailureLine returns the first line of a text that reports a failure; "" if none does.
func FailureLine(text string) string {
	for line := range strings.Lines(text) {
		if tellsFailure(line) {
			return strings.TrimSpace(cut(line, maxFailureLine))
		}
	}
	return ""
}

// failureOf returns the line of the last failure of a tool in a turn; "" if there is none.
func failureOf(t *record.Turn) (line string) {
	for _, list := range [][]record.Message{t.Messages, t.Answer} {
		for i := range list {
			for j := range list[i].Parts {
				if found, failed := Failure(&list[i].Parts[j]); failed && found != "" {
					line = found
				}
			}
		}
	}
	return line
}

// What differs between two occurrences of a failure.
var (
	directories = regexp.MustCompile(`(?:[a-z]:)?(?:[\w.~@+-]*[/\\])+`)
	addresses   = regexp.MustCompile(`\b0x[0-9a-f]+\b|\b[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\b|\b[0-9a-f]{12,}\b`)
	numbers     = regexp.MustCompile(`[+-]?\d+(?:[.:,_-]?\d+)*`)
	codes       = regexp.MustCompile(`\b[a-z]{1,4}\d{3,5}\b`)
)

// stableFailure removes from a line what differs between two occurrences. Error codes, a few letters with a number, stay.
func stableFailure(line string) string {
	line = strings.ToLower(strings.TrimSpace(cut(line, maxFailureLine)))
	line = directories.ReplaceAllString(line, "")
	line = addresses.ReplaceAllString(line, "#")
	var b strings.Builder
	from := 0
	for _, at := range codes.FindAllStringIndex(line, -1) {
		b.WriteString(numbers.ReplaceAllString(line[from:at[0]], "#"))
		b.WriteString(line[at[0]:at[1]])
		from = at[1]
	}
	b.WriteString(numbers.ReplaceAllString(line[from:], "#"))
	return strings.Join(strings.Fields(b.String()), " ")
}
