package command

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

// Main runs the command in args by the kong grammar in commands, and returns the exit code. The first SIGINT or SIGTERM
// cancels the command's context; a second one ends the process.
func Main(commands any, args []string, s *Env) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	parser, err := kong.New(commands,
		kong.Name("mneme"),
		kong.Description("A memory proxy for language models: routes, translates and records every exchange.\n\n"+
			"Exit codes: 0 done; 1 could not be done, standard error says why; 2 the command line is wrong."),
		kong.Writers(s.Out, s.Err),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
		kong.Help(helpWithDefault),
		kong.Bind(s),
		kong.BindTo(ctx, (*context.Context)(nil)))
	if err != nil {
		fmt.Fprintln(s.Err, "mneme:", err)
		return ExitFailure
	}
	s.grammar = parser
	if len(args) == 0 {
		fmt.Fprintln(s.Err, "mneme: no command given; try \"mneme serve\", or mneme --help for all commands")
		return ExitUsage
	}
	parsed, err := parser.Parse(asTyped(args))
	if err != nil {
		fmt.Fprintf(s.Err, "mneme: %s; see %s --help\n", misuse(err), commandLine(err))
		return ExitUsage
	}
	if err := errors.Join(parsed.Run(), s.showPages()); err != nil {
		var agent agentEnded
		if errors.As(err, &agent) {
			return agent.code
		}
		fmt.Fprint(s.Err, explain(err))
		return ExitFailure
	}
	return ExitOK
}
