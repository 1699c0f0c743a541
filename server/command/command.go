// Package command implements the command line: one file per noun, one type per command. Package main composes the
// types.
//
// Standard output carries only what programs read; messages for people go to standard error. Exit codes are [ExitOK],
// [ExitFailure] and [ExitUsage].
package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/config"
)

// Exit codes of every command.
const (
	ExitOK      = 0 // done
	ExitFailure = 1 // understood but failed; standard error says why
	ExitUsage   = 2 // the command line itself is wrong
)

// Env is a command's input and output, and what only the main package knows.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Program  string    // the path this program was called by
	Version  string    // set by the build; "" if it was not
	Simulate Simulator // starts the simulated provider; nil: not built in

	grammar *kong.Kong   // of the command line
	long    bytes.Buffer // shown in the pager when the command has ended
}

// Simulator starts the simulated provider on a free port of this machine and returns its origin, "http://host:port".
// The caller stops it.
type Simulator func() (origin string, stop func() error, err error)

// asTyped replaces words that people type out of habit with those of this command line.
func asTyped(args []string) []string {
	switch args[0] {
	case "help":
		return append(args[1:len(args):len(args)], "--help")
	case "--version", "-v":
		return append([]string{"version"}, args[1:]...)
	}
	return args
}

// commandLine returns the part of args that was understood: "mneme key create".
func commandLine(err error) string {
	var wrong *kong.ParseError
	if errors.As(err, &wrong) && wrong.Context.Command() != "" {
		node := wrong.Context.Selected()
		if node != nil {
			return node.FullPath()
		}
	}
	return "mneme"
}

// misuse describes the fault of a command line: the flag and the sentence, without the kind, which is for programs.
func misuse(err error) string {
	text := err.Error()
	var known *codec.Error
	if errors.As(err, &known) {
		text = strings.Replace(text, known.Error(), known.Message, 1)
	}
	return strings.Replace(text, `one of "",`, "one of ", 1) // "" means that the flag is left out
}

// explain writes an error for a person: one sentence each, without kinds and types, which are for programs.
func explain(err error) string {
	var problems config.Problems
	if errors.As(err, &problems) {
		return problems.Error() + "\n"
	}
	if errors.Is(err, context.Canceled) {
		return "mneme: interrupted\n"
	}
	var known *codec.Error
	if errors.As(err, &known) {
		return "mneme: " + known.Message + "\n"
	}
	return "mneme: " + err.Error() + "\n"
}

// writeJSON writes one value for a program, indented.
func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(v)
}

// jsonArray writes values for a program one by one, so that memory does not grow with their number.
type jsonArray struct {
	w     io.Writer
	begun bool
}

func (a *jsonArray) add(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	separator := "[\n  "
	if a.begun {
		separator = ",\n  "
	}
	a.begun = true
	_, err = fmt.Fprintf(a.w, "%s%s", separator, text)
	return err
}

func (a *jsonArray) end() error {
	closing := "[]\n"
	if a.begun {
		closing = "\n]\n"
	}
	_, err := io.WriteString(a.w, closing)
	return err
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// helpWithDefault prints the help of a noun, and that of the command which runs without another one.
func helpWithDefault(options kong.HelpOptions, parsed *kong.Context) error {
	if err := kong.DefaultHelpPrinter(options, parsed); err != nil {
		return err
	}
	noun := parsed.Selected()
	if noun == nil || noun.DefaultCmd == nil {
		return nil
	}
	command, err := kong.Trace(parsed.Kong, []string{noun.Name, noun.DefaultCmd.Name})
	if err != nil {
		return err
	}
	fmt.Fprintf(parsed.Stdout, "\nWithout a command:\n\n")
	return kong.DefaultHelpPrinter(options, command)
}
