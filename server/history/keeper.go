package history

import (
	"context"
	"errors"
	"log/slog"
	"os"
)

// Keeper imports into an account what agents of this user write.
type Keeper struct {
	Agents  []string // see [Watchable]
	Home    string   // of the user
	Archive Archive
	Account string
	Log     *slog.Logger

	watches map[string]*Watch
	said    map[string]string // the last problem of each agent's history, which is not logged again
}

// Start imports until the returned function is called, which waits for what is under way.
func (k *Keeper) Start() (stop func()) {
	k.watches, k.said = make(map[string]*Watch), make(map[string]string)
	for _, agent := range k.Agents {
		k.watches[agent] = NewWatch()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Repeatedly(ctx, func() bool {
			for _, agent := range k.Agents {
				k.look(ctx, agent)
			}
			return ctx.Err() == nil
		})
	}()
	k.Log.Info("what agents write is imported", "agents", k.Agents, "account", k.Account)
	return func() {
		cancel()
		<-done
	}
}

func (k *Keeper) look(ctx context.Context, agent string) {
	taken, err := k.take(ctx, agent)
	problem := ""
	if err != nil && ctx.Err() == nil {
		problem = err.Error()
	}
	if problem != "" && problem != k.said[agent] {
		k.Log.Warn("a history is not imported completely", "agent", agent, "error", problem)
	}
	k.said[agent] = problem
	if taken.Exchanges > 0 {
		k.Log.Info("a history was imported", "agent", agent, "sessions", taken.Sessions, "exchanges", taken.Exchanges)
	}
}

func (k *Keeper) take(ctx context.Context, agent string) (taken Taken, err error) {
	found, err := Look(ctx, agent, &Search{Home: k.Home, Lookup: os.LookupEnv, Watch: k.watches[agent]})
	if err != nil {
		return taken, err
	}
	if len(found.Sessions()) == 0 {
		found.Imported()
	} else {
		taken, err = found.Import(ctx, k.Archive, k.Account, nil)
	}
	return taken, errors.Join(err, errors.Join(found.Problems...))
}
