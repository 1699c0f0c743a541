package command

import (
	"context"
	"fmt"

	"github.com/mnemeproxy/mneme/server/admin"
)

// MasterKey is the noun for the key that seals accounts' own provider credentials.
type MasterKey struct {
	Rotate MasterKeyRotate `cmd:"" help:"Make a new master key and reseal every credential."`
}

// MasterKeyRotate is "mneme master-key rotate".
type MasterKeyRotate struct {
	Target `embed:""`
}

// Run changes the key while the server runs. An interruption loses nothing: both keys are kept until it is done.
func (c *MasterKeyRotate) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if err := client.Upkeep().RotateMasterKey(ctx); err != nil {
			return err
		}
		fmt.Fprintln(s.Out, "every credential is sealed with the new master key; earlier backups need the old one, which is no longer on this machine")
		return nil
	})
}
