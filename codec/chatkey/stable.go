package chatkey

import (
	"bytes"
	"iter"
	"slices"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// maxText is how many bytes of one side's text are used, well above the instructions of any agent, and maxLooked how
// many bytes of a text are read for them, including what is omitted.
const (
	maxText   = 64 << 10
	maxLooked = 16 * maxText
)

// transcript collects the stable form of one side's text: without white space, and without what clients change by
// themselves.
type transcript struct {
	stable []byte
	plain  []byte // scratch: a text without its escapes
	inner  []byte // scratch: JSON text that was a string
}

func (t *transcript) full() bool { return len(t.stable) >= maxText }

// text adds a string body.
func (t *transcript) text(body []byte) {
	if t.full() {
		return
	}
	t.plain = scan.Unescape(t.plain[:0], looked(body))
	t.stable = appendStable(t.stable, t.plain)
	t.cut()
}

// plainText adds a string body that clients do not change: everything except white space.
func (t *transcript) plainText(body []byte) {
	if t.full() {
		return
	}
	t.plain = scan.Unescape(t.plain[:0], looked(body))
	t.stable = appendWords(t.stable, t.plain)
	t.cut()
}

func (t *transcript) reset() {
	for _, b := range []*[]byte{&t.stable, &t.plain, &t.inner} {
		*b = (*b)[:0]
		if cap(*b) > 4*maxText {
			*b = nil
		}
	}
}

func looked(body []byte) []byte { return body[:min(len(body), maxLooked)] }

func (t *transcript) cut() { t.stable = t.stable[:min(len(t.stable), maxText)] }

// volatileTags enclose text that clients add to the opening by themselves (docs/wire/clients.md#1).
var volatileTags = [...]string{
	"system-reminder", "env", "environment", "environment_context", "environment_details", "environment_info",
	"user_info", "workspace_info", "directories", "git_status", "current_date", "current_time", "cwd", "total_tokens",
	"session_context", // Gemini CLI
	// what this proxy and other tools recall from earlier conversations
	"mneme-recall", "deja-recall", "hook_context", "relevant-memories", "supermemory-context", "claude-mem-context",
}

// appendStable appends the stable part of a text.
func appendStable(dst, text []byte) []byte {
	blocks := volatileBlocks{text: text}
	for len(blocks.text) > 0 && len(dst) < maxText {
		dst = appendLines(dst, blocks.next())
	}
	return dst
}

// volatileBlocks iterates over the enclosed blocks of a text that have to be omitted.
type volatileBlocks struct {
	text     []byte                  // remaining text
	unclosed [len(volatileTags)]bool // tags without an end in the remaining text, so that it is searched only once
	tag      int                     // of the block skipped last; -1: no block followed the text
	size     int                     // of that block, with its tags
}

// next returns the text up to the next block, or all remaining text, and skips the block.
func (b *volatileBlocks) next() (before []byte) {
	text := b.text
	for at := 0; ; {
		i := bytes.IndexByte(text[at:], '<')
		if i < 0 {
			b.text, b.tag = nil, -1
			return text
		}
		start := at + i
		at = start + 1
		tag := volatileTag(text[at:])
		if tag < 0 || b.unclosed[tag] {
			continue
		}
		closing := "</" + volatileTags[tag] + ">"
		if end := bytes.Index(text[at:], []byte(closing)); end >= 0 {
			b.text = text[at+end+len(closing):]
			b.tag, b.size = tag, at+end+len(closing)-start
			return text[:start]
		}
		b.unclosed[tag] = true
	}
}

// volatileTag returns the index of the tag at the start of text, -1 if there is none.
func volatileTag(text []byte) int {
	for i, tag := range volatileTags {
		if len(text) > len(tag) && string(text[:len(tag)]) == tag && (text[len(tag)] == '>' || text[len(tag)] == ' ') {
			return i
		}
	}
	return -1
}

// volatileLines are the beginnings of lines about the environment, the time or the bill, in lower case.
var volatileLines = byFirst(
	"x-anthropic-billing-header:",
	"working directory", "primary working directory", "current working directory", "additional working directories",
	"cwd:", "workspace root", "workspace path", "workspace folder", "workspace:", "current workspace",
	"i'm currently working in the director", "is directory a git repo", "is a git repo", "current branch",
	"platform:", "os:", "os version", "operating system", "my operating system is", "shell:", "default shell", "hostname",
	"today's date", "today is", "today:", "the current date", "current date", "date:", "the date is",
	"the current time", "current time", "time:", "timezone", "time zone", "you are powered by the model",
)

func byFirst(beginnings ...string) (table [256][]string) {
	for _, b := range beginnings {
		table[b[0]] = append(table[b[0]], b)
	}
	return table
}

// appendLines appends the stable lines, without white space and dates.
func appendLines(dst, text []byte) []byte {
	for len(text) > 0 && len(dst) < maxText {
		line := text
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			line, text = text[:i], text[i+1:]
		} else {
			text = nil
		}
		if !isVolatile(line) {
			dst = appendUndated(dst, line)
		}
	}
	return dst
}

func isVolatile(line []byte) bool {
	for len(line) > 0 && (line[0] <= ' ' || line[0] == '-' || line[0] == '*' || line[0] == '#' || line[0] == '>') {
		line = line[1:]
	}
	if len(line) == 0 {
		return true
	}
	for _, beginning := range volatileLines[lower(line[0])] {
		if hasBeginning(line, beginning) {
			return true
		}
	}
	return false
}

func hasBeginning(line []byte, beginning string) bool {
	if len(line) < len(beginning) {
		return false
	}
	for i := range len(beginning) {
		if lower(line[i]) != beginning[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c-'A' < 26 {
		return c + 'a' - 'A'
	}
	return c
}

// appendWords appends text without white space.
func appendWords(dst, text []byte) []byte {
	n := len(dst)
	dst = slices.Grow(dst, len(text))[:n+len(text)]
	for _, c := range text {
		dst[n] = c
		if c > ' ' {
			n++
		}
	}
	return dst[:n]
}

// setsScene reports whether a text of a first message is one that clients send by themselves before the user's. stable has no
// white space.
func setsScene(stable []byte) bool {
	return bytes.Contains(stable[:min(len(stable), 200)], []byte("settingupthecontextforourchat"))
}

// AppendSaid appends what a person, a tool or a model said: a text without the notes that clients add to it by
// themselves. dst may be text[:0].
func AppendSaid(dst, text []byte) []byte {
	for blocks := (volatileBlocks{text: text}); len(blocks.text) > 0; {
		dst = append(dst, blocks.next()...)
	}
	return dst
}

// Notes yields what [AppendSaid] omits from a text: the name of each note, and its size in bytes.
func Notes(text []byte) iter.Seq2[string, int] {
	return func(yield func(string, int) bool) {
		for blocks := (volatileBlocks{text: text}); len(blocks.text) > 0; {
			if blocks.next(); blocks.tag >= 0 && !yield(volatileTags[blocks.tag], blocks.size) {
				return
			}
		}
	}
}
