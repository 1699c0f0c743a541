package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Subjects at the brokers. An edge publishes below shipSubject and asks questions. A centre publishes below markSubject
// and reads the stream.
const (
	streamName      = "MNEME"
	shipSubject     = "mneme.ship." // and the number of the node
	markSubject     = "mneme.mark." // likewise
	questionSubject = "mneme.question"
)

const (
	packetBytes = 512 << 10 // maximum of entries in a packet; brokers accept messages of 1 MiB
	reach       = 10 * time.Second
	look        = 3 * time.Second // for something that may be missing: brokers that have just been started do not answer at all
	pause       = time.Second     // between attempts
	resend      = time.Second     // until a message without an acknowledgement, which may be lost with a broker, is published again
)

func shipSubjectOf(node uint16) string { return shipSubject + strconv.Itoa(int(node)) }

func markSubjectOf(node uint16) string { return markSubject + strconv.Itoa(int(node)) }

// broker is a connection to the brokers. It reconnects without limit.
type broker struct {
	*nats.Conn
	stream jetstream.JetStream

	mu    sync.Mutex
	again []chan struct{} // one for each caller of reconnects
}

// reconnects returns a channel that is signaled after each reconnection. Each caller gets its own channel.
func (b *broker) reconnects() <-chan struct{} {
	again := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.again = append(b.again, again)
	return again
}

func (b *broker) reconnected() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, again := range b.again {
		select {
		case again <- struct{}{}:
		default:
		}
	}
}

func connect(o *Options) (*broker, error) {
	b := new(broker)
	options := []nats.Option{
		nats.Name(cmp.Or(o.Name, "mneme")), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1),
		nats.ReconnectWait(pause), nats.ReconnectBufSize(-1), // publishing while disconnected is an error; nothing is buffered
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				o.Log.Warn("lost the connection to the brokers", "cause", err)
			}
		}),
		nats.ReconnectHandler(func(*nats.Conn) {
			o.Log.Info("reconnected to the brokers")
			b.reconnected()
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { o.Log.Debug("brokers", "cause", err) }),
	}
	if o.Credentials != "" {
		options = append(options, nats.UserCredentials(o.Credentials))
	}
	if o.CA != "" {
		options = append(options, nats.RootCAs(o.CA))
	}
	conn, err := nats.Connect(strings.Join(o.NATS, ","), options...)
	if err != nil {
		return nil, fmt.Errorf("connect to the brokers in cluster.nats: %w", err)
	}
	b.Conn = conn
	if b.stream, err = jetstream.New(conn); err != nil {
		conn.Close()
		return nil, fmt.Errorf("use JetStream of the brokers in cluster.nats: %w", err)
	}
	return b, nil
}

// ownerField is the key in the stream's metadata whose value is the id of the centre that owns the stream.
const ownerField = "mneme-centre"

// errOwned is returned at a centre that finds the stream of another one.
var errOwned = errors.New("another centre takes what the edges ship here")

// errNoStream is returned at a worker that finds no stream.
var errNoStream = errors.New("the brokers have no stream: the centre that keeps the accounts makes it when it starts")

// openStream returns the stream. With create, openStream creates it if it does not exist, and bounds it. The stream of
// another centre stays unchanged and is an error.
func (b *broker) openStream(ctx context.Context, o *Options, centre string, create bool) (jetstream.Stream, error) {
	looking, looked := context.WithTimeout(ctx, look)
	defer looked()
	stream, err := b.stream.Stream(looking, streamName)
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	if errors.Is(err, jetstream.ErrStreamNotFound) && !create {
		return nil, errNoStream
	}
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err := b.stream.CreateStream(ctx, jetstream.StreamConfig{
			Name: streamName, Subjects: []string{shipSubject + "*"}, Storage: jetstream.FileStorage,
			Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardNew, // when it is full, the edges keep their entries
			MaxBytes: cmp.Or(o.Waiting, -1), Replicas: max(1, o.Replicas), Metadata: map[string]string{ownerField: centre},
		})
		if err != nil {
			return nil, fmt.Errorf("make the stream %s of %d bytes (cluster.waiting): %w", streamName, o.Waiting, err)
		}
		return stream, nil
	}
	if err != nil {
		return nil, err
	}
	made := stream.CachedInfo().Config
	if owner := made.Metadata[ownerField]; owner != centre {
		return nil, fmt.Errorf("%w (%s); give this one its data directory, or delete the stream %s at the brokers: the edges ship again what it holds",
			errOwned, owner, streamName)
	}
	if create && o.Waiting > 0 && made.MaxBytes != o.Waiting {
		made.MaxBytes = o.Waiting
		bounded, err := b.stream.UpdateStream(ctx, made)
		if err != nil { // they may have too little space for it
			o.Log.Warn("the stream of the brokers could not be bounded by cluster.waiting", "stream", streamName, "bytes", o.Waiting, "cause", err)
			return stream, nil
		}
		stream = bounded
	}
	return stream, nil
}
