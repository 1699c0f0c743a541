// Package service runs the server in the background: under systemd, launchd or the Windows task scheduler if one of
// them is available, else as a plain process.
package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Program is the program to keep running.
type Program struct {
	Executable  string // its full path
	Args        []string
	Environment []string // NAME=value, in addition to the user's session
	Log         string   // output file, if the keeper has no log of its own
}

// Keeper starts and stops the program.
type Keeper interface {
	// Name returns the name that people use for it.
	Name() string
	// Up starts the program, or restarts it with its newest settings.
	Up(ctx context.Context, p Program) error
	// Down stops it permanently. managed is false if the keeper does not know it.
	Down(ctx context.Context) (managed bool, err error)
	// Logs returns how people read its output.
	Logs(p Program) string
}

// Run runs a tool of the system and returns its output.
type Run func(ctx context.Context, name string, args ...string) (string, error)

// Tool is the system's [Run].
func Tool(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return string(out), err
}

// Find returns the keeper of this system. start starts a plain process, for systems without one.
func Find(ctx context.Context, run Run, home string, start func(Program) error) Keeper {
	return find(ctx, runtime.GOOS, run, home, os.Getuid(), start)
}

func find(ctx context.Context, system string, run Run, home string, user int, start func(Program) error) Keeper {
	switch system {
	case "darwin":
		return &launchd{run: run, file: filepath.Join(home, "Library", "LaunchAgents", label+".plist"), domain: fmt.Sprintf("gui/%d", user)}
	case "windows":
		return &scheduler{run: run}
	case "linux":
		if _, err := run(ctx, "systemctl", "--user", "show-environment"); err == nil {
			return &systemd{run: run, file: filepath.Join(home, ".config", "systemd", "user", unit)}
		}
	}
	return &process{start: start}
}

// systemd is a unit of the user's own instance.
type systemd struct {
	run  Run
	file string
}

const unit = "mneme.service"

func (*systemd) Name() string { return "systemd, as the user's unit mneme" }

func (*systemd) Logs(Program) string { return "journalctl --user -u mneme" }

func (s *systemd) Up(ctx context.Context, p Program) error {
	var b strings.Builder
	b.WriteString("[Unit]\nDescription=mneme, a memory proxy for language models\n\n[Service]\nExecStart=")
	b.WriteString(systemdWord(p.Executable))
	for _, arg := range p.Args {
		b.WriteString(" " + systemdWord(arg))
	}
	b.WriteString("\n")
	for _, variable := range p.Environment {
		b.WriteString("Environment=" + systemdWord(variable) + "\n")
	}
	b.WriteString("Restart=on-failure\nTimeoutStopSec=60\nUMask=0077\n\n[Install]\nWantedBy=default.target\n")
	if err := put(s.file, b.String()); err != nil {
		return err
	}
	return s.each(ctx, []string{"daemon-reload"}, []string{"enable", unit}, []string{"restart", unit})
}

func (s *systemd) Down(ctx context.Context) (bool, error) {
	return takeOut(s.file, func() error { return s.each(ctx, []string{"disable", "--now", unit}) }, func() error {
		return s.each(ctx, []string{"daemon-reload"})
	})
}

func (s *systemd) each(ctx context.Context, commands ...[]string) error {
	for _, args := range commands {
		if _, err := s.run(ctx, "systemctl", append([]string{"--user"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// systemdWord quotes a word (systemd.syntax(7), systemd.unit(5)): % and $ start substitutions.
func systemdWord(word string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "%", "%%", "$", "$$", "\n", `\n`).Replace(word) + `"`
}

// launchd is an agent of the user's session.
type launchd struct {
	run    Run
	file   string
	domain string
}

const label = "dev.mneme.server"

func (*launchd) Name() string { return "launchd, as the agent " + label }

func (*launchd) Logs(p Program) string { return "tail -f " + p.Log }

func (l *launchd) Up(ctx context.Context, p Program) error {
	var b strings.Builder
	b.WriteString("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" +
		"<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n" +
		"<plist version=\"1.0\"><dict>\n<key>Label</key><string>" + label + "</string>\n<key>ProgramArguments</key><array>\n")
	for _, word := range append([]string{p.Executable}, p.Args...) {
		b.WriteString("<string>" + xmlText(word) + "</string>\n")
	}
	b.WriteString("</array>\n<key>EnvironmentVariables</key><dict>\n")
	for _, variable := range p.Environment {
		name, value, _ := strings.Cut(variable, "=")
		b.WriteString("<key>" + xmlText(name) + "</key><string>" + xmlText(value) + "</string>\n")
	}
	b.WriteString("</dict>\n<key>RunAtLoad</key><true/>\n<key>KeepAlive</key><dict><key>SuccessfulExit</key><false/></dict>\n" +
		"<key>StandardErrorPath</key><string>" + xmlText(p.Log) + "</string>\n</dict></plist>\n")
	_, _ = l.run(ctx, "launchctl", "bootout", l.domain+"/"+label) // one that runs with other settings
	if err := put(l.file, b.String()); err != nil {
		return err
	}
	_, err := l.run(ctx, "launchctl", "bootstrap", l.domain, l.file)
	return err
}

func (l *launchd) Down(ctx context.Context) (bool, error) {
	return takeOut(l.file, func() error {
		_, err := l.run(ctx, "launchctl", "bootout", l.domain+"/"+label)
		return err
	}, nil)
}

func xmlText(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// scheduler is a task at logon: a Windows service would need an administrator, and would not see the user's data.
type scheduler struct{ run Run }

const task = "mneme"

func (*scheduler) Name() string { return "the task scheduler, as the task mneme" }

func (*scheduler) Logs(p Program) string { return "type " + p.Log }

func (s *scheduler) Up(ctx context.Context, p Program) error {
	words := append([]string{p.Executable}, p.Args...)
	for i, word := range words {
		words[i] = `"` + strings.ReplaceAll(word, `"`, `\"`) + `"`
	}
	if _, err := s.run(ctx, "schtasks", "/Create", "/F", "/SC", "ONLOGON", "/TN", task, "/TR", strings.Join(words, " ")); err != nil {
		return err
	}
	_, err := s.run(ctx, "schtasks", "/Run", "/TN", task)
	return err
}

func (s *scheduler) Down(ctx context.Context) (bool, error) {
	if _, err := s.run(ctx, "schtasks", "/Query", "/TN", task); err != nil {
		return false, nil //nolint:nilerr // there is no such task
	}
	if _, err := s.run(ctx, "schtasks", "/End", "/TN", task); err != nil {
		return true, err
	}
	_, err := s.run(ctx, "schtasks", "/Delete", "/F", "/TN", task)
	return true, err
}

// process is a plain process. mneme down finds it by the data that it has open.
type process struct{ start func(Program) error }

func (*process) Name() string {
	return "no service manager: a plain process, which does not come back after a restart"
}

func (*process) Logs(p Program) string { return "tail -f " + p.Log }

func (p *process) Up(_ context.Context, program Program) error { return p.start(program) }

func (*process) Down(context.Context) (bool, error) { return false, nil }

// put writes a file only for this user: arguments and variables may be private.
func put(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // shared with other programs' units
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// takeOut stops what a file describes, and removes the file.
func takeOut(file string, end, after func() error) (bool, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := end(); err != nil {
		return true, err
	}
	if err := os.Remove(file); err != nil || after == nil {
		return true, err
	}
	return true, after()
}
