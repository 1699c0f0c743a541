package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// timeout bounds an attempt.
const timeout = 15 * time.Second

// keepFor is how long a message is tried that need not arrive.
const keepFor = 24 * time.Hour

// pauses are the waits after each attempt; the last one repeats. The first is for a receiver that restarts, the last
// ones for one that is repaired.
var pauses = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour}

func pause(attempt int) time.Duration { return pauses[min(attempt, len(pauses))-1] }

// receiver is a hook with its outbox.
type receiver struct {
	hook   Hook
	name   string // for logs
	signer *standardwebhooks.Webhook
	client http.Client
	log    *slog.Logger
	pause  func(attempt int) time.Duration
	box    outbox
	added  chan struct{} // wakes run

	unreachable bool // since the last attempt; belongs to run
}

// tell puts an event into the outbox and wakes run.
func (r *receiver) tell(kind string, at time.Time, data any) {
	m, err := newMessage(kind, at, data)
	if err != nil {
		r.log.Error("an event cannot be encoded for a webhook", "event", kind, "error", err)
		return
	}
	dropped, err := r.box.add(m)
	if dropped != nil {
		r.log.Error("a message to a webhook was dropped: too many are waiting",
			"webhook", r.name, "message", dropped.ID, "event", dropped.kind, "account", dropped.account)
	}
	if err != nil {
		r.log.Error("a message to a webhook could not be stored and may not survive a restart",
			"webhook", r.name, "message", m.ID, "event", kind, "account", m.account, "error", err)
	}
	select {
	case r.added <- struct{}{}:
	default:
	}
}

// run sends messages that are due, until ctx is done.
func (r *receiver) run(ctx context.Context) {
	for ctx.Err() == nil {
		m, wait := r.box.next(time.Now())
		if m != nil {
			r.deliver(ctx, m)
			continue
		}
		due := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-r.added:
		case <-due.C:
		}
		due.Stop()
	}
}

func (r *receiver) deliver(ctx context.Context, m *message) {
	err := r.send(ctx, m)
	switch {
	case err == nil:
		r.remove(m)
		if r.unreachable { // what failed because of that need not wait
			r.unreachable = false
			r.box.hasten()
		}
		return
	case ctx.Err() != nil:
		return
	}
	answered := answerError(0)
	r.unreachable = !errors.As(err, &answered) || answered.fromGateway()
	m.attempts++
	if !m.lasting && time.Since(m.told) > keepFor {
		r.log.Error("a message to a webhook was dropped: it was not accepted in time", "webhook", r.name, "message", m.ID, "attempts", m.attempts, "error", err)
		r.remove(m)
		return
	}
	wait := r.pause(m.attempts)
	r.log.Warn("a webhook did not accept a message; it will be sent again", "webhook", r.name, "message", m.ID, "in", wait, "error", err)
	m.next = time.Now().Add(wait)
}

func (r *receiver) remove(m *message) {
	if err := r.box.remove(m); err != nil {
		r.log.Error("a message could not be removed from the outbox of a webhook", "message", m.ID, "error", err)
	}
}

// answerError is the status of a receiver that does not accept a message.
type answerError int

func (e answerError) Error() string { return fmt.Sprintf("it answers with status %d", int(e)) }

// fromGateway reports whether the status says that the receiver is behind a gateway that cannot reach it.
func (e answerError) fromGateway() bool {
	return e == http.StatusBadGateway || e == http.StatusServiceUnavailable || e == http.StatusGatewayTimeout
}

func (r *receiver) send(ctx context.Context, m *message) error {
	now := time.Now()
	signature, err := r.signer.Sign(m.ID, now, m.Body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.hook.URL, bytes.NewReader(m.Body))
	if err != nil {
		return withoutURL(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "mneme")
	request.Header.Set(standardwebhooks.HeaderWebhookID, m.ID)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	response, err := r.client.Do(request)
	if err != nil {
		return withoutURL(err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return answerError(response.StatusCode)
	}
	return nil
}

// withoutURL returns an error of net/http without the address, whose path is a credential at some receivers.
func withoutURL(err error) error {
	if wrapped := new(url.Error); errors.As(err, &wrapped) {
		return wrapped.Err
	}
	return err
}
