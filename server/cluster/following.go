package cluster

import "context"

// Following is a store, such as a worker's, that follows the roster of a centre and ships nothing. It masks the
// accounts' credentials. [Follow] starts it, and Close ends it.
type Following struct {
	*follower
	broker *broker
}

// Follow makes a store follow a roster. It does not wait for brokers or centre.
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

// Whole is closed when the store has the complete roster.
func (f *Following) Whole() <-chan struct{} { return f.whole }

// Close stops following.
func (f *Following) Close() {
	f.close()
	f.broker.Close()
}
