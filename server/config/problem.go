package config

import (
	"fmt"
	"strings"
)

// Problem is one fault and what to do about it.
type Problem struct {
	Source  string `json:"source"`         // the file as it was named, a variable, or a flag
	Line    int    `json:"line,omitempty"` // in the file, from 1; 0 when Source is not a file or the file cannot be read
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Line == 0 {
		return p.Source + ": " + p.Message
	}
	return fmt.Sprintf("%s:%d: %s", p.Source, p.Line, p.Message)
}

// Problems is the error that [Load] returns: everything found, in the order of the file. Never empty as an error.
type Problems []Problem

// Error returns one problem per line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

// origin is where a value was set.
type origin struct {
	source string
	line   int
}

func (o origin) problem(format string, args ...any) Problem {
	return Problem{Source: o.source, Line: o.line, Message: fmt.Sprintf(format, args...)}
}
