package cluster

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// A conversation may continue at any node. An exchange that its next request refers to is asked for at the edge that
// answered it, which the exchange's id names, and at the centre. Each node answers at a subject of its own.
const (
	findSubject = "mneme.find."
	findCentre  = "centre"
	findWorker  = "worker" // any one of the workers

	findTime  = time.Second // for the first message of a reply, and between messages
	findBytes = 192 << 20   // of a reply; the largest exchange has 128 MiB
	findsMost = 8           // concurrent searches: replies are held in memory
	findAgain = 5 * time.Second
)

// Answers are the exchanges that a node has answered itself, or a centre was shipped.
type Answers interface {
	Exchange(account, id string) (*record.Exchange, error)
	AnsweredAs(account, response string) (exchange string, err error)
}

// answerFinds answers other nodes' questions about exchanges, until the connection is closed: one of those with the name
// does, or the one for which when is true.
func answerFinds(b *broker, o *Options, name string, answers Answers, when func() bool) error {
	queue := name
	if when != nil {
		queue = ""
	}
	_, err := b.QueueSubscribe(findSubject+name, queue, func(m *nats.Msg) {
		if when != nil && !when() {
			return
		}
		asked, err := ship.OpenFind(o.Key, m.Data)
		if err != nil || m.Reply == "" {
			return
		}
		found, err := lookUp(answers, &asked)
		if err != nil {
			o.Log.Warn("another node's question about an exchange could not be answered", "exchange", asked.Exchange, "cause", err)
			return
		}
		f := ship.Frame{Log: asked.Nonce, Last: 1, Entries: found}
		for _, packet := range f.Packets(o.Key, ship.KindFound, packetBytes) {
			if err := m.Respond(packet); err != nil {
				return // the asking node gives up
			}
		}
	})
	if err != nil {
		return fmt.Errorf("listen to other nodes: %w", err)
	}
	return nil
}

// lookUp returns the wanted exchange as an entry; nothing if it is not here.
func lookUp(answers Answers, asked *ship.Find) (found []ship.Entry, err error) {
	id := asked.Exchange
	if asked.Response != "" {
		id, err = answers.AnsweredAs(asked.Account, asked.Response)
	}
	var x *record.Exchange
	if err == nil {
		x, err = answers.Exchange(asked.Account, id)
	}
	if codec.AsError(err, "").Kind == codec.KindNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	stored, err := json.Marshal(&x.ExchangeInfo)
	if err != nil {
		return nil, err
	}
	return []ship.Entry{{Account: asked.Account, Exchange: x.ID, Record: stored, Skeleton: x.RawRequest, Parts: [][]byte{x.RawResponse}}}, nil
}

// Exchange returns an exchange that this edge does not have; the error is a [codec.KindNotFound] if no node has it. If
// a node that may have it is away, the error has a RetryAfter.
func (e *Edge) Exchange(account, id string) (*record.Exchange, error) {
	names := []string{findCentre}
	if node, ok := record.NodeOf(id); ok && node != e.node {
		names = []string{strconv.Itoa(int(node)), findCentre}
	}
	return e.find(&ship.Find{Account: account, Exchange: id}, names...)
}

// AnsweredAs is Exchange for the provider's id of an answer. It only asks the centre.
func (e *Edge) AnsweredAs(account, response string) (exchange string, err error) {
	x, err := e.find(&ship.Find{Account: account, Response: response}, findCentre)
	if err != nil {
		return "", err
	}
	return x.ID, nil
}

func (e *Edge) find(asked *ship.Find, names ...string) (*record.Exchange, error) {
	e.finding <- struct{}{}
	defer func() { <-e.finding }()
	var away error
	for _, name := range names {
		x, err := e.ask(name, asked)
		if x != nil {
			return x, nil
		}
		if err != nil {
			away = err
		}
		if err != nil && name == findCentre {
			if x, _ := e.ask(findWorker, asked); x != nil { // it may not have everything: the caller is still told to retry
				return x, nil
			}
		}
	}
	notFound := codec.Errorf(codec.KindNotFound, "no node of the cluster has that")
	if away != nil {
		notFound = codec.Errorf(codec.KindNotFound, "it is not here, and a node of the cluster that may have it is away; try again in a moment")
		notFound.RetryAfter, notFound.Cause = findAgain, away
	}
	return nil, notFound
}

// errFind is returned for a reply that does not belong to the question.
var errFind = errors.New("a node's reply does not match the question")

// ask asks one node. Without an error and an exchange, the node does not have it.
func (e *Edge) ask(name string, asked *ship.Find) (*record.Exchange, error) {
	_, _ = rand.Read(asked.Nonce[:]) // never fails: crypto/rand ends the program instead
	inbox := e.broker.NewInbox()
	replies, err := e.broker.SubscribeSync(inbox)
	if err == nil {
		defer func() { _ = replies.Unsubscribe() }()
		err = errors.Join(replies.SetPendingLimits(-1, findBytes), e.broker.PublishRequest(findSubject+name, inbox, asked.Seal(e.options.Key)))
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", name, err)
	}
	var parts ship.Joiner
	for {
		m, err := replies.NextMsg(cmp.Or(e.options.findTime, findTime))
		if err != nil {
			return nil, fmt.Errorf("ask %s: %w", name, err)
		}
		p, err := ship.OpenPacket(e.options.Key, ship.KindFound, m.Data)
		if err != nil || p.Log != asked.Nonce {
			return nil, errors.Join(errFind, err)
		}
		f, err := parts.Add(&p)
		if err != nil || parts.Held() > findBytes {
			return nil, errors.Join(errFind, err)
		}
		if f == nil {
			continue
		}
		if len(f.Entries) == 0 {
			return nil, nil //nolint:nilnil // the node does not have it
		}
		return foundIn(&f.Entries[0], asked)
	}
}

// foundIn decodes an entry of lookUp.
func foundIn(entry *ship.Entry, asked *ship.Find) (*record.Exchange, error) {
	x := &record.Exchange{RawRequest: entry.Skeleton}
	if json.Unmarshal(entry.Record, &x.ExchangeInfo) != nil || len(entry.Parts) != 1 {
		return nil, errFind
	}
	x.RawResponse = entry.Parts[0]
	if x.Account != asked.Account || asked.Response == "" && x.ID != asked.Exchange {
		return nil, errFind
	}
	return x, nil
}
