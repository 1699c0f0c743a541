package command

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
)

// envPager names the user's pager; empty means none.
const envPager = "PAGER"

// pages returns the writer for output that may be long: at a terminal it goes to the user's pager, which shows it once
// the command has released the store, elsewhere to standard output.
func (s *Env) pages() io.Writer {
	if pagerCommand() == "" || !isTerminal(s.In) || !isTerminal(s.Out) {
		return s.Out
	}
	return &s.long
}

func pagerCommand() string {
	command, named := os.LookupEnv(envPager)
	if _, err := exec.LookPath("less"); !named && err == nil {
		return "less"
	}
	return command
}

// showPages shows the collected output in the pager.
func (s *Env) showPages() error {
	if s.long.Len() == 0 {
		return nil
	}
	return s.through(pagerCommand(), &s.long)
}

// through pipes a text to a command line, until the user ends it.
func (s *Env) through(command string, text *bytes.Buffer) error {
	shell := exec.CommandContext(context.Background(), "sh", "-c", command)
	if runtime.GOOS == "windows" {
		shell = exec.CommandContext(context.Background(), "cmd", "/c", command)
	}
	shell.Stdout, shell.Stderr = s.Out, s.Err
	shell.Env = os.Environ()
	if _, set := os.LookupEnv("LESS"); !set {
		shell.Env = append(shell.Env, "LESS=FRX") // exits by itself if everything fits on the screen, and leaves it there
	}
	shell.Stdin = text
	if err := shell.Run(); err != nil { // not an error if the user has seen enough
		return fmt.Errorf("the pager %q failed: %w; set %s to another one, or to nothing for none", command, err, envPager)
	}
	return nil
}
