package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// maxSecret bounds what is read as a secret, in bytes.
const maxSecret = 16 << 10

// readSecret reads one secret from standard input and trims the white space around it. On a terminal it prompts and
// does not echo.
func readSecret(ctx context.Context, s *Env, prompt string) (string, error) {
	text, err := readInput(ctx, s, prompt)
	secret := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", fmt.Errorf("the secret could not be read from standard input: %w", err)
	case secret == "":
		return "", errors.New("no secret on standard input; pipe it in, or run this on a terminal and type it")
	case len(text) > maxSecret:
		return "", fmt.Errorf("the secret on standard input is longer than %d bytes; pipe in the secret alone", maxSecret)
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		return "", errors.New("the secret on standard input contains a space, a line break or a character that no key has; pipe in the secret alone")
	}
	return secret, nil
}

// readInput reads a line from a terminal, or everything from other input. When ctx ends first, the terminal is restored;
// the read then lasts until the process ends.
func readInput(ctx context.Context, s *Env, prompt string) ([]byte, error) {
	read := func() ([]byte, error) { return io.ReadAll(io.LimitReader(s.In, maxSecret+1)) }
	restore := func() {}
	if file, ok := s.In.(*os.File); ok && isTerminal(file) {
		before, err := term.GetState(int(file.Fd()))
		if err != nil {
			return nil, err
		}
		restore = func() { _ = term.Restore(int(file.Fd()), before) }
		read = func() ([]byte, error) { return term.ReadPassword(int(file.Fd())) }
		fmt.Fprint(s.Err, prompt)
		defer fmt.Fprintln(s.Err)
	}

	type input struct {
		text []byte
		err  error
	}
	done := make(chan input, 1)
	go func() {
		text, err := read()
		done <- input{text, err}
	}()
	select {
	case in := <-done:
		return in.text, in.err
	case <-ctx.Done():
		restore()
		return nil, ctx.Err()
	}
}
