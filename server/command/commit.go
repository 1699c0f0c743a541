package command

import (
	"context"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// quorumRecorder lets exchanges end only when the cluster's brokers have them too.
type quorumRecorder struct {
	server.Recorder
	cluster *cluster.Edge
	log     *slog.Logger
	refuse  bool // refuse what they do not accept
	mark    func(ctx context.Context, account, exchange string) error
}

// outageRetry is the wait while brokers are unreachable: a lost one is replaced within seconds.
const outageRetry = 5 * time.Second

func (q *quorumRecorder) refusal() error {
	e := codec.Errorf(codec.KindStorage, "the brokers of the cluster do not accept the exchange, and this edge is configured to refuse exchanges that they do not have; try again in a moment")
	e.RetryAfter, e.Cause = outageRetry, cluster.ErrLocal
	return e
}

// Begin refuses exchanges at once while the brokers are unreachable.
func (q *quorumRecorder) Begin(ctx context.Context, o *record.Opening) (store.Recording, error) {
	if q.refuse && q.cluster.Away() {
		return nil, q.refusal()
	}
	r, err := q.Recorder.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	return &quorumRecording{r, q, o.Account}, nil
}

type quorumRecording struct {
	store.Recording
	recorder *quorumRecorder
	account  string
}

// Finish waits for the brokers after the local commit.
func (r *quorumRecording) Finish(closing *record.Closing) error {
	q := r.recorder
	err := r.Recording.Finish(closing)
	if err != nil || r.Shed() || q.cluster.Brokered() == nil {
		return err
	}
	if err := q.mark(context.Background(), r.account, r.ID()); err != nil {
		q.log.Warn("the record of an exchange could not be marked as being on this edge only", "exchange", r.ID(), "error", err)
	}
	if q.refuse {
		return q.refusal()
	}
	return nil
}
