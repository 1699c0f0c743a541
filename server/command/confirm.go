package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
)

// confirm shows a warning and asks for a yes. Without a terminal it fails, and its error names the flag.
func (s *Env) confirm(ctx context.Context, what string) error {
	fmt.Fprintln(s.Err, what)
	file, ok := s.In.(*os.File)
	if !ok || !isTerminal(file) {
		return errors.New("nothing was changed; confirm with --yes")
	}
	fmt.Fprint(s.Err, "Go on? Type yes: ")
	answer := make(chan string, 1)
	go func() { // ends with the process where no line comes
		line, _ := bufio.NewReader(file).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case line := <-answer:
		if line != "yes" && line != "y" {
			return errors.New("nothing was changed")
		}
		return nil
	}
}
