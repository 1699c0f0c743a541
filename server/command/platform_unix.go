//go:build unix

package command

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// platformNotice says at the start what differs on this system from Linux; "" for nothing.
const platformNotice = ""

// keepFilesPrivate hides the files that this process creates from other users, whichever library creates them.
func keepFilesPrivate() { syscall.Umask(0o077) }

// terminate asks a process to end.
func terminate(process *os.Process) error { return process.Signal(syscall.SIGTERM) }

// restartSignals make the server restart its program.
var restartSignals = []os.Signal{syscall.SIGUSR2}

// become replaces this process by another program. Signals to the server do not end it while it starts.
func become(program string, args, environment []string) error {
	signal.Ignore(syscall.SIGHUP, syscall.SIGUSR2)
	return fmt.Errorf("run %s in place of this process: %w", program, syscall.Exec(program, args, environment))
}

// detach lets a process outlive this one and its terminal.
func detach(c *exec.Cmd) { c.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// private checks that a file is not open to other users.
func private(check, path string, info fs.FileInfo) finding {
	if others := info.Mode().Perm() & 0o077; others != 0 {
		return finding{
			check, problem, fmt.Sprintf("%s can be opened by other users (mode %#o)", path, info.Mode().Perm()),
			fmt.Sprintf("Restrict it with: chmod go= %s", path),
		}
	}
	return finding{check, good, path + " belongs to this user only", ""}
}
