package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/ship"
)

const (
	surveySubject = "mneme.survey"
	surveyBytes   = 64 << 10 // maximum size of a reply
	surveyNodes   = 10_000   // replies that are read at most
)

// Node is what a node reports about itself.
type Node struct {
	Name      string    `json:"name"`              // "centre", "edge" and its number, or the name of a worker or of one of several centres
	Worker    bool      `json:"worker,omitempty"`  // Centre is a worker's
	Standby   bool      `json:"standby,omitempty"` // Centre is that of a centre beside the one that leads
	Version   string    `json:"version"`
	MasterKey string    `json:"master_key"` // identifies its master key without revealing anything about it
	Time      time.Time `json:"time"`
	Edge      *Shipping `json:"edge,omitempty"`
	Centre    *Arriving `json:"centre,omitempty"`

	Skew time.Duration `json:"-"` // of its clock against the asking node's, as far as the round trip tells
}

// MasterKeyMark returns a fingerprint of a master key, which only holders of the cluster's key can compute.
func MasterKeyMark(k *ship.Key, masterKey []byte) string {
	sum := blake3.Sum256(k.Seal(ship.KindNode, masterKey))
	return hex.EncodeToString(sum[:8])
}

// survey is a question to all nodes. Replies carry its nonce.
type survey struct {
	Nonce []byte
	Node
}

// answerSurveys answers surveys, until the connection is closed.
func answerSurveys(b *broker, o *Options, describe func() Node) error {
	_, err := b.Subscribe(surveySubject, func(m *nats.Msg) {
		body, err := o.Key.Open(ship.KindSurvey, m.Data)
		var asked survey
		if err != nil || json.Unmarshal(body, &asked) != nil {
			return
		}
		n := describe()
		n.Version, n.MasterKey, n.Time = o.Version, o.MasterKey, time.Now()
		if said, err := json.Marshal(survey{asked.Nonce, n}); err == nil {
			_ = m.Respond(o.Key.Seal(ship.KindNode, said)) // without it, the survey misses this node
		}
	})
	if err != nil {
		return fmt.Errorf("listen to other nodes: %w", err)
	}
	return nil
}

// Survey asks all nodes for their state, and returns those that answer within wait, by name.
func Survey(ctx context.Context, o Options, wait time.Duration) (nodes []Node, err error) {
	b, err := connect(&o)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if err := b.FlushWithContext(ctx); err != nil {
		return nil, errors.New(o.unreachable())
	}
	inbox := b.NewInbox()
	replies, err := b.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask the nodes: %w", err)
	}
	asked := survey{Nonce: make([]byte, 16)}
	_, _ = rand.Read(asked.Nonce) // never fails: crypto/rand ends the program instead
	question, err := json.Marshal(asked)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := b.PublishRequest(surveySubject, inbox, o.Key.Seal(ship.KindSurvey, question)); err != nil {
		return nil, fmt.Errorf("ask the nodes: %w", err)
	}
	for len(nodes) < surveyNodes {
		m, err := replies.NextMsgWithContext(ctx)
		if err != nil {
			break // no more replies
		}
		took := time.Since(began)
		body, err := o.Key.Open(ship.KindNode, m.Data)
		var said survey
		if err != nil || len(body) > surveyBytes || json.Unmarshal(body, &said) != nil || !slices.Equal(said.Nonce, asked.Nonce) {
			continue
		}
		said.Skew = said.Time.Sub(began.Add(took / 2))
		if said.Skew.Abs() <= took/2 {
			said.Skew = 0 // within the error of measurement
		}
		nodes = append(nodes, said.Node)
	}
	slices.SortFunc(nodes, func(a, b Node) int { return cmp.Compare(a.Name, b.Name) })
	return nodes, nil
}
