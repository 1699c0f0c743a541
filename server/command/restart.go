package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/listen"
)

// restart has the server drain and then become the installed program: the same process and the same listening sockets,
// on which new clients wait meanwhile. Only one process at a time can have the store, so the old one ends before the
// new one starts.
type restart struct {
	program string           // "" until a restart has begun
	sockets *listen.Handover // passed on to it
}

// checkTime is how long the new program may take to check the configuration.
const checkTime = 30 * time.Second

// await starts the drain at the signal, once the new program has found no mistake in the configuration. stop ends the
// waiting; after it, r.begun reports whether there is a program to become.
func (r *restart) await(ctx context.Context, service *server.Server, config string, log *slog.Logger, drain func()) (stop func()) {
	if len(restartSignals) == 0 {
		return func() {}
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, restartSignals...)
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-ctx.Done():
				return
			case <-asked:
			}
			err := r.begin(ctx, service, config)
			if err == nil {
				log.Info("restarting: new connections wait until open requests have ended", "program", r.program)
				drain()
				return
			}
			log.Error("the restart was refused; this server keeps running", "reason", err.Error())
		}
	}()
	return func() { // the signal stays caught: a second one must not end the process
		cancel()
		<-ended
	}
}

func (r *restart) begin(ctx context.Context, service *server.Server, config string) error {
	program, err := installedProgram()
	if err != nil {
		return err
	}
	if err := checkBy(ctx, program, config); err != nil {
		return err
	}
	if r.sockets, err = service.HandOver(); err != nil {
		return err
	}
	r.program = program
	return nil
}

// installedProgram returns the file that this program's name refers to at present: another one, after an upgrade.
func installedProgram() (string, error) {
	program, err := exec.LookPath(os.Args[0])
	if errors.Is(err, exec.ErrNotFound) {
		return os.Executable()
	}
	if err != nil {
		return "", err
	}
	return filepath.Abs(program)
}

// checkBy has a program check the configuration.
func checkBy(ctx context.Context, program, config string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	args := []string{"config", "check"}
	if config != "" {
		args = append(args, "--config", config)
	}
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s config check: %w: %s", program, err, strings.TrimSpace(string(output)))
	}
	return nil
}

// begun reports whether there is a program to become.
func (r *restart) begun() bool { return r.program != "" }

// become replaces this process. It returns only on failure.
func (r *restart) become() error {
	sockets, err := r.sockets.Environment()
	if err != nil {
		return err
	}
	return become(r.program, os.Args, append(os.Environ(), sockets))
}
