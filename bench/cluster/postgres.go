package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// postgresName is what the database is called in cluster.json.
const postgresName = "postgres"

// startPostgres starts the database of the centre, and gives its URL. It is "" where there is no Postgres, and where the centre
// has begun without: its memory stays where it is.
func (c *installation) startPostgres(ctx context.Context, dir string) (url string, err error) {
	data := filepath.Join(dir, postgresName)
	begun := exists(filepath.Join(dir, "centre"))
	switch {
	case exists(data):
	case begun:
		return "", nil
	case !postgrestest.Installed() && installPostgres(ctx) != nil:
		fmt.Println("no Postgres is installed, and only root can install Debian's postgresql: the centre keeps its memory in its data directory")
		return "", nil
	default:
		if err := initPostgres(dir, data); err != nil {
			fmt.Println("no Postgres, the centre keeps its memory in its data directory:", err)
			return "", os.RemoveAll(data)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	_ = free.Close()
	log, err := os.OpenFile(filepath.Join(dir, postgresName+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer log.Close()
	process := postgrestest.Command("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	process.Dir, process.Stdout, process.Stderr = data, log, log
	if err := process.Start(); err != nil {
		return "", err
	}
	url = fmt.Sprintf("postgres://mneme@127.0.0.1:%s/postgres?sslmode=disable", port)
	n := &node{Name: postgresName, PID: process.Process.Pid, URL: url, process: process, ended: make(chan struct{})}
	c.Nodes = append(c.Nodes, n)
	go func() {
		_ = process.Wait()
		close(n.ended)
	}()
	return url, n.awaitPostgres(ctx, log.Name())
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installPostgres installs Debian's package, as root alone can.
func installPostgres(ctx context.Context) error {
	if os.Getuid() != 0 {
		return os.ErrPermission
	}
	for _, arguments := range [][]string{{"update", "-q"}, {"install", "-qy", "--no-install-recommends", "postgresql"}} {
		install := exec.CommandContext(ctx, "apt-get", arguments...)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		install.Stderr = os.Stderr
		if err := install.Run(); err != nil && !postgrestest.Installed() { // a service of the package that does not start is no matter
			return err
		}
	}
	return nil
}

// initPostgres makes the files of a database. They are nobody's where root runs this, who has to reach them.
func initPostgres(dir, data string) error {
	if os.Getuid() == 0 {
		if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // its files are not to be read
			return err
		}
	}
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if err := postgrestest.HandOver(data); err != nil {
		return err
	}
	made := postgrestest.Command("initdb", "--auth=trust", "--username=mneme", "--encoding=UTF8", "--locale=C", data)
	made.Dir = data
	if out, err := made.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}

// awaitPostgres waits until the database takes connections.
func (n *node) awaitPostgres(ctx context.Context, log string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		connection, err := pgx.Connect(ctx, n.URL)
		if err == nil {
			return connection.Close(ctx)
		}
		select {
		case <-n.ended:
			return fmt.Errorf("postgres has ended; %s says why", log)
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
