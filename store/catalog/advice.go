package catalog

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// advised adds to the error of a database that cannot be opened what is to be done about it.
func advised(err error) error {
	var refused *pgconn.PgError
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &refused):
		if advice := advices[refused.Code]; advice != "" {
			return fmt.Errorf("%s: %w", advice, err)
		}
	case errors.As(err, &connect):
		return fmt.Errorf("Postgres cannot be reached; the centre does not start without it, and edges keep what they record meanwhile: %w", err) //nolint:staticcheck // a name
	}
	return err
}

// advices are what is to be done, by the codes of errors in Postgres' documentation.
var advices = map[string]string{
	"28P01": "the password is wrong; give the right one in PGPASSWORD, or in a password file",
	"28000": "the user is not let in; see pg_hba.conf of the server",
	"3D000": "there is no such database; make it with createdb",
	"42501": "the user lacks a right; let it create a schema: GRANT CREATE ON DATABASE … TO …",
	"57P03": "Postgres is starting or ending; start the centre again when it is there",
}
