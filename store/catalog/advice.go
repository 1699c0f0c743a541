package catalog

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// advised adds advice to the error of a database that cannot be opened.
func advised(err error) error {
	var refused *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &refused):
		if advice := advices[refused.Code]; advice != "" {
			return fmt.Errorf("%s: %w", advice, err)
		}
	case errors.As(err, &connect):
		return fmt.Errorf("Postgres cannot be reached; the centre does not start without it, and edges keep their exchanges until it does: %w", err) //nolint:staticcheck // a name
	}
	return err
}

// advices maps error codes of Postgres' documentation to advice.
var advices = map[string]string{
	"28P01": "the password is wrong; set the right one in PGPASSWORD, or in a password file",
	"28000": "the server rejects the user; see its pg_hba.conf",
	"3D000": "the database does not exist; create it with createdb",
	"42501": "the user lacks a privilege; allow it to create a schema: GRANT CREATE ON DATABASE … TO …",
	"57P03": "Postgres is starting or stopping; start the centre again when it is up",
}
