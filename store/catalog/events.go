package catalog

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/record"
)

// eventChannel is the Postgres channel on which committed events are published.
const eventChannel = "mneme_events"

// notifiedEvents limits the events in a notification: Postgres accepts 8,000 bytes, and an event has less than 300.
const notifiedEvents = 24

// notifiedEvent is an event in a notification.
type notifiedEvent struct {
	Account record.AccountNumber `json:"account"`
	record.Event
}

// queueEvents publishes events when the transaction commits.
func queueEvents(batch *pgx.Batch, events []record.Event) {
	for len(events) > 0 {
		n := min(len(events), notifiedEvents)
		notified := make([]notifiedEvent, n)
		for i, e := range events[:n] {
			notified[i] = notifiedEvent{e.Account, e}
		}
		text, err := json.Marshal(notified)
		if err != nil {
			panic(err) // plain structs
		}
		batch.Queue("select pg_notify($1, $2)", eventChannel, string(text))
		events = events[n:]
	}
}

func completed(account record.AccountNumber, info *record.ExchangeInfo, session *string) record.Event {
	e := record.Event{Kind: record.ExchangeCompleted, Account: account, Exchange: info.ID, KeyID: info.KeyID, Outcome: info.Outcome, Time: time.Now().UTC()}
	if session != nil {
		e.Session = *session
	}
	return e
}

func digested(account record.AccountNumber, info *record.ExchangeInfo) record.Event {
	e := completed(account, info, &info.Session)
	e.Kind = record.TurnDigested
	return e
}

// Events are the events that all programs on the database commit, from the first subscription on.
type Events struct {
	catalog *database
	hub     record.EventHub

	mu        sync.Mutex // held while a connection is made
	listening bool       // guarded by mu
}

// Subscribe subscribes to the events of an account after the one with number after; 0 means from now on. Exchanges are
// reported when they have arrived, not when they begin. The subscriber must close the subscription.
func (e *Events) Subscribe(account string, after uint64) (*record.Subscription, error) {
	number, err := e.catalog.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	if err := e.listen(); err != nil {
		return nil, unreadable(err)
	}
	return e.hub.Subscribe(number, after), nil
}

// listen starts receiving events, unless it has been started.
func (e *Events) listen() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.listening {
		return nil
	}
	ctx, cancel := context.WithTimeout(e.catalog.life, readTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, e.catalog.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, "listen "+eventChannel); err != nil {
		_ = conn.Close(ctx)
		return err
	}
	e.listening = true
	e.catalog.running.Go(func() { e.hear(conn) })
	return nil
}

// hear publishes events until the connection is lost. Then events are missed until somebody subscribes again.
func (e *Events) hear(conn *pgx.Conn) {
	life := e.catalog.life
	defer func() { _ = conn.Close(context.WithoutCancel(life)) }()
	for {
		n, err := conn.WaitForNotification(life)
		if err != nil {
			break
		}
		var notified []notifiedEvent
		if err := json.Unmarshal([]byte(n.Payload), &notified); err != nil {
			e.catalog.Log.Warn("a notification of the database cannot be read", "error", err)
			continue
		}
		events := make([]record.Event, len(notified))
		for i := range notified {
			events[i] = notified[i].Event
			events[i].Account = notified[i].Account
		}
		e.hub.Publish(events)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listening = false
	e.hub.Miss()
}
