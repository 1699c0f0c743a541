package command

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// platformNotice says at the start what differs on this system from Linux; "" for nothing.
const platformNotice = "Windows has no SIGHUP and no file modes: a changed configuration is applied when its file is saved, " +
	"and only the access list of the data directory keeps other users out"

func keepFilesPrivate() {}

// terminate ends a process: Windows has no way to ask one.
func terminate(process *os.Process) error { return process.Kill() }

// restartSignals is empty: a Windows process cannot become another program.
var restartSignals []os.Signal

func become(string, []string, []string) error { return errors.ErrUnsupported }

// detach lets a process outlive this one and its console.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP, HideWindow: true}
}

func private(check, path string, _ fs.FileInfo) finding {
	return finding{
		check, warning, path + " has an access list, which this check does not read",
		"Make sure that only this user has access, with: icacls  " + path,
	}
}
