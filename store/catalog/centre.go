package catalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// CentreOf returns the id of the centre that a database belongs to.
func CentreOf(ctx context.Context, url string) (id string, err error) {
	connection, err := connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	var there bool
	if err := connection.QueryRow(ctx, "select to_regclass($1) is not null", schemaName+".meta").Scan(&there); err != nil || !there {
		return "", errors.Join(err, errNoTables)
	}
	err = connection.QueryRow(ctx, "select value from meta where name = 'centre'").Scan(&id)
	return id, err
}

// MakeCentre is CentreOf for a centre: it creates the tables with the id own if there are none.
func MakeCentre(ctx context.Context, url, own string) (id string, err error) {
	connection, err := connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = connection.Close(context.WithoutCancel(ctx)) }()
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err = pgx.BeginFunc(ctx, connection, func(tx pgx.Tx) error {
		if err := lockTables(ctx, tx, own); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "select value from meta where name = 'centre'").Scan(&id)
	})
	if err != nil {
		return "", fmt.Errorf("open the database in centre.postgres: %w", advised(err))
	}
	return id, nil
}

func connect(ctx context.Context, url string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("centre.postgres: %w", hideURL(err))
	}
	setParameters(config)
	connection, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the database in centre.postgres: %w", advised(err))
	}
	return connection, nil
}

// setParameters completes the settings of a connection.
func setParameters(config *pgx.ConnConfig) {
	config.RuntimeParams["search_path"] = schemaName
	config.RuntimeParams["application_name"] = "mneme"
	config.RuntimeParams["default_transaction_isolation"] = "read committed" // statements see what was committed while they waited for a lock
	config.RuntimeParams["jit"] = "off"                                      // compiling a search takes longer than running it
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = dialTimeout
	}
}

var errNoTables = errors.New("there is no memory in the database yet; start a centre before its workers")
