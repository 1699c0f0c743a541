package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/codec/scrub"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
)

// ExchangeExportFixture is "mneme exchange export-fixture".
type ExchangeExportFixture struct {
	Target `embed:""`
	ID     string `arg:"" name:"id" help:"The exchange's id, exch_...; its answer is a stream of a real provider, in the client's own format."`
}

// Run writes a provider's stream as a test fixture, without its contents.
func (c *ExchangeExportFixture) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		x, err := client.Memory().Exchange(ctx, c.ID)
		if err != nil {
			return err
		}
		lines, err := fixtureOf(&x)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(s.Out, "# A stream of %s, scrubbed by mneme exchange export-fixture.\n# provenance: observed with %s through mneme %s, %s\n%s\n",
			x.Format, strings.Join([]string{x.Provider, cmp.Or(x.ModelServed, x.ModelSent)}, " "), cmp.Or(s.Version, "0"), x.Started.UTC().Format("2006-01-02"), strings.Join(lines, "\n"))
		return err
	})
}

func fixtureOf(x *api.Exchange) ([]string, error) {
	switch {
	case x.Simulated:
		return nil, errors.New("the simulated provider answered; a fixture is what a real one sent")
	case x.Format != x.Surface:
		return nil, fmt.Errorf("the answer was translated from %s to %s, and the provider's own bytes are not recorded; ask for the model in its own format", orDash(x.Format), x.Surface)
	case x.ResponseUnrecorded > 0:
		return nil, errors.New("only part of the answer is recorded; raise capture.answer_bytes, and ask again")
	}
	answer, err := x.Response()
	if err != nil {
		return nil, err
	}
	return scrub.Stream(answer)
}
