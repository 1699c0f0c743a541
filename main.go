// Command mneme is a memory proxy for language models. See README.md and docs/, or mneme --help.
package main

import (
	"os"
	"time"

	_ "golang.org/x/crypto/x509roots/fallback" // for images and systems without certificates of authorities

	"github.com/mnemeproxy/mneme/bench"
	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/server/command"
)

// version is set by the build (Makefile).
var version string

type commands struct {
	Serve      command.Serve      `cmd:"" help:"Serve the proxy."`
	Centre     command.Centre     `cmd:"" help:"Run the centre of a cluster, ship a store to it, or write off an edge."`
	Up         command.Up         `cmd:"" help:"Run the server in the background."`
	Down       command.Down       `cmd:"" help:"Stop the background server."`
	Status     command.Status     `cmd:"" help:"Show whether the server runs, where, and on which data."`
	Key        command.Key        `cmd:"" help:"Manage service keys."`
	Account    command.Account    `cmd:"" help:"Manage accounts and their own provider credentials."`
	MasterKey  command.MasterKey  `cmd:"" help:"Manage the key that provider credentials are sealed with."`
	Audit      command.Audit      `cmd:"" help:"Show who administered what."`
	Session    command.Session    `cmd:"" help:"List and show conversations; merge, split and erase them."`
	Exchange   command.Exchange   `cmd:"" help:"List, show and replay exchanges."`
	Search     command.Search     `cmd:"" help:"Search recorded conversations."`
	Recall     command.Recall     `cmd:"" help:"Recall what earlier sessions say about a question."`
	Reindex    command.Reindex    `cmd:"" help:"Rebuild the search index."`
	Tail       command.Tail       `cmd:"" help:"Stream exchanges as they happen."`
	UI         command.UI         `cmd:"" name:"ui" help:"Open the page of the running server in a browser."`
	Usage      command.Usage      `cmd:"" help:"Show tokens and costs by day, account, key, project, client or model."`
	Stats      command.Stats      `cmd:"" help:"Show disk usage, and the backlog and cost of each stage after an answer."`
	Export     command.Export     `cmd:"" help:"Export an account's memory, as JSON lines or for other programs."`
	Handoff    command.Handoff    `cmd:"" help:"Hand a session to another agent, which goes on with it."`
	Import     command.Import     `cmd:"" help:"Import an export, or the history of another program."`
	Check      command.Check      `cmd:"" help:"Verify the store, and repair what can be derived."`
	Backup     command.Backup     `cmd:"" help:"Back up the store while the server runs."`
	Restore    command.Restore    `cmd:"" help:"Restore a store from backups."`
	Recover    command.Recover    `cmd:"" help:"Recover what can be read of a damaged store into a new one."`
	Compact    command.Compact    `cmd:"" help:"Reclaim the space of erased data."`
	Config     command.Config     `cmd:"" help:"Check the configuration."`
	Doctor     command.Doctor     `cmd:"" help:"Diagnose the installation and say what to fix."`
	Login      command.Login      `cmd:"" help:"Save the address and key of a remote server for later commands."`
	Logout     command.Logout     `cmd:"" help:"Forget the login."`
	Wrap       command.Wrap       `cmd:"" help:"Run an agent (Claude Code, Codex, opencode, …) through the running server."`
	Setup      command.Setup      `cmd:"" help:"Connect an agent to the server permanently, or undo that."`
	Bench      bench.Command      `cmd:"" help:"Measure mneme and other gateways on this machine."`
	Completion command.Completion `cmd:"" help:"Write the completion for a shell: bash, zsh, fish or powershell."`
	Complete   command.Complete   `cmd:"" hidden:"" help:"List what may come next on a command line."`
	Man        command.Man        `cmd:"" help:"Write the manual page."`
	Version    command.Version    `cmd:"" help:"Show the version."`
}

func main() {
	os.Exit(command.Main(&commands{}, os.Args[1:], &command.Env{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Program: os.Args[0], Version: version, Simulate: simulated,
	}))
}

// simulated starts the provider that stands in for families without a key.
func simulated() (origin string, stop func() error, err error) {
	server, err := provider.Start(provider.Options{FreshIDs: true, Clock: time.Now, Keep: -1, LookRound: true})
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Close, nil
}
