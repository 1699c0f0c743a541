// Package project finds the project of a request: the directory that an agent works in, as agents state it in their
// instructions and reminders (docs/wire/clients.md#1).
package project

import (
	"bytes"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// maxName is the longest name of a project that is kept, in bytes.
const maxName = 256

const (
	// maxLooked is how much of a text is looked at, in bytes. Claude Code states the directory some 30 KB after the
	// beginning of its instructions.
	maxLooked = 256 << 10
	// firstItems and lastItems are the messages that are looked at: agents state the environment before what was
	// asked first, Codex after five messages of instructions, and Claude Code also after what was asked last.
	firstItems = 10
	lastItems  = 2
)

// Clean returns the name under which a project is kept: of a directory without a slash at its end, of anything else as it is.
// It is "" where there is nothing that could be kept.
func Clean(name string) string {
	name = strings.TrimSpace(name)
	if strings.HasPrefix(name, "/") {
		name = path.Clean(name)
	} else if len(name) > 3 { // C:\ is a whole name
		name = strings.TrimRight(name, `/\`)
	}
	if len(name) > maxName || !utf8.ValidString(name) || codec.CheckContinuity("project", name) != nil || name == "/" {
		return ""
	}
	return name
}

// Is reports whether a project is the one that is asked for: by its name or, without a slash, by the last part of that.
func Is(asked, name string) bool {
	if asked == name {
		return true
	}
	return !strings.ContainsAny(asked, `/\`) && strings.EqualFold(asked, Last(name))
}

// Last returns the last part of a path.
func Last(path string) string { return path[strings.LastIndexAny(path, `/\`)+1:] }

// Of returns the project that a request states; "" if it states none. What a person or a tool says about directories does
// not count.
func Of(body []byte, e *codec.Envelope) string {
	for _, block := range e.Opening {
		if name := stated(block.Of(body)); name != "" {
			return name
		}
	}
	n := len(e.Items)
	for i, item := range e.Items {
		if i >= firstItems && i < n-lastItems {
			continue
		}
		if name := inItem(item.Of(body)); name != "" {
			return name
		}
	}
	return ""
}

// scenes are the tags in which clients state the environment among what a person says.
var scenes = [...][]byte{[]byte("<system-reminder>"), []byte("<environment_context>"), []byte("<env>")}

func inItem(item []byte) string {
	item = item[:min(len(item), maxLooked)]
	switch scan.String(scan.Get(item, "role")) {
	case "system", "developer":
		return stated(item)
	case "user":
		for _, scene := range scenes {
			if i := bytes.Index(item, scene); i >= 0 {
				if name := stated(item[i:]); name != "" {
					return name
				}
			}
		}
	}
	return ""
}

// marks stand right before the directory.
var marks = [...][]byte{[]byte("orking directory: "), []byte("<cwd>")}

// stated finds the directory in JSON text.
func stated(text []byte) string {
	text = text[:min(len(text), maxLooked)]
	for _, mark := range marks {
		for rest := text; ; {
			i := bytes.Index(rest, mark)
			if i < 0 {
				break
			}
			rest = rest[i+len(mark):]
			if name := Clean(scan.Text(upToEnd(rest))); isDirectory(name) {
				return name
			}
		}
	}
	return ""
}

// upToEnd cuts JSON text where a line, a tag or the string ends.
func upToEnd(text []byte) []byte {
	for i := 0; i < len(text) && i <= 2*maxName; i++ {
		switch text[i] {
		case '"', '<', '\n':
			return text[:i]
		case '\\':
			if i+1 < len(text) && (text[i+1] == 'n' || text[i+1] == 'r') {
				return text[:i]
			}
			i++
		}
	}
	return nil
}

func isDirectory(name string) bool {
	return strings.HasPrefix(name, "/") || strings.HasPrefix(name, "~") || len(name) > 2 && name[1] == ':' || strings.HasPrefix(name, `\\`)
}
