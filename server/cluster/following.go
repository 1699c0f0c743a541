package cluster

import "context"

// Following is a store that follows the roster of a centre and ships nothing, as that of a worker does: it masks what accounts
// have as their credentials. It is started by [Follow], and ended by Close.
type Following struct {
	*follower
	broker *broker
}

// Follow has a store follow a roster. It does not wait for brokers or centre.
func Follow(ctx context.Context, roster Followed, o Options) (*Following, error) {
	b, err := connect(&o)
	if err != nil {
		return nil, err
	}
	f, err := startFollower(ctx, b, roster, 0, &o)
	if err != nil {
		b.Close()
		return nil, err
	}
	return &Following{f, b}, nil
}

// Whole is closed once the store has all of the roster.
func (f *Following) Whole() <-chan struct{} { return f.whole }

// Close ends it.
func (f *Following) Close() {
	f.close()
	f.broker.Close()
}
