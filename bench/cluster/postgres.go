package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// postgresName is the name of the database in cluster.json.
const postgresName = "postgres"

// startPostgres starts the database of the centre, and returns its URL.
func (c *installation) startPostgres(ctx context.Context, dir string) (url string, err error) {
	data := filepath.Join(dir, postgresName)
	if !exists(data) {
		if !postgrestest.Installed() && !installPostgres(ctx) {
			return "", errors.New("a centre needs Postgres: install Debian's postgresql, or put initdb and postgres into PATH")
		}
		if err := initPostgres(data); err != nil {
			return "", errors.Join(err, os.RemoveAll(data))
		}
	}
	port, err := keptPort(dir, postgresName)
	if err != nil {
		return "", err
	}
	process := postgrestest.Command("postgres", "-D", data, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	process.Dir = data
	url = fmt.Sprintf("postgres://mneme@127.0.0.1:%s/postgres?sslmode=disable", port)
	return url, c.startEngine(ctx, dir, &node{Name: postgresName, URL: url, process: process}, func(ctx context.Context) error {
		connection, err := pgx.Connect(ctx, url)
		if err == nil {
			err = connection.Close(ctx)
		}
		return err
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// installPostgres installs Debian's package, which only root can, and reports whether Postgres is available afterwards.
func installPostgres(ctx context.Context) bool {
	if os.Getuid() != 0 {
		return false
	}
	for _, arguments := range [][]string{{"update", "-q"}, {"install", "-qy", "--no-install-recommends", "postgresql"}} {
		install := exec.CommandContext(ctx, "apt-get", arguments...)
		install.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		install.Stderr = os.Stderr
		_ = install.Run() // it does not matter if the package's service does not start
	}
	return postgrestest.Installed()
}

// initPostgres creates the files of a database. If root runs this, they belong to user nobody.
func initPostgres(data string) error {
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
