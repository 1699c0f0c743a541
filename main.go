// Command mneme is a memory proxy for language models. See README.md, or mneme --help.
package main

import (
	"os"
	"time"

	"github.com/mnemeproxy/mneme/bench"
	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/server/command"
)

// version is set by the build (Makefile).
var version string

type commands struct {
	Serve     command.Serve     `cmd:"" help:"Serve the proxy."`
	Key       command.Key       `cmd:"" help:"Manage service keys: what callers present."`
	Account   command.Account   `cmd:"" help:"Manage accounts and their own provider credentials."`
	MasterKey command.MasterKey `cmd:"" help:"Change the key that credentials are sealed under."`
	Audit     command.Audit     `cmd:"" help:"See who administered what."`
	Session   command.Session   `cmd:"" help:"Look at conversations, and put right what belongs together."`
	Exchange  command.Exchange  `cmd:"" help:"Look at what passed."`
	Search    command.Search    `cmd:"" help:"Find what was said, by words and names."`
	Reindex   command.Reindex   `cmd:"" help:"Build the search index anew."`
	Tail      command.Tail      `cmd:"" help:"Tell what passes, as it does."`
	Stats     command.Stats     `cmd:"" help:"Say what takes the space, and why."`
	Export    command.Export    `cmd:"" help:"Write an account's memory as lines of JSON."`
	Import    command.Import    `cmd:"" help:"Take in what was exported."`
	Check     command.Check     `cmd:"" help:"Verify the store."`
	Backup    command.Backup    `cmd:"" help:"Write a backup, while the server goes on."`
	Restore   command.Restore   `cmd:"" help:"Make a store out of backups."`
	Compact   command.Compact   `cmd:"" help:"Give back the space of what was erased."`
	Config    command.Config    `cmd:"" help:"Check the configuration."`
	Doctor    command.Doctor    `cmd:"" help:"Look for what keeps mneme from working, and say what to do."`
	Wrap      command.Wrap      `cmd:"" help:"Run an agent, Claude Code or Codex, on the running server."`
	Bench     bench.Command     `cmd:"" help:"Measure mneme and other gateways on this machine."`
	Version   command.Version   `cmd:"" help:"Show the version."`
}

func main() {
	os.Exit(command.Main(&commands{}, os.Args[1:], &command.Surroundings{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Program: os.Args[0], Version: version, Simulate: simulated,
	}))
}

// simulated starts the provider that stands in for families without a key.
func simulated() (origin string, stop func() error, err error) {
	server, err := provider.Start(provider.Options{FreshIDs: true, Clock: time.Now, Keep: -1})
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Close, nil
}
