package webhook

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	maxIncoming = 256              // events waiting for an outbox
	timeout     = 15 * time.Second // for a receiver's answer
)

// pauses are the waits after each attempt. The first is for a receiver that restarts, the last ones for one that is
// repaired.
var pauses = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour, 10 * time.Hour}

func pause(attempt int) time.Duration {
	if attempt > len(pauses) {
		return 0
	}
	return pauses[attempt-1]
}

// receiver is a hook with its pending messages. Everything except incoming belongs to run.
type receiver struct {
	hook     Hook
	signer   *standardwebhooks.Webhook
	client   http.Client
	log      *slog.Logger
	pause    func(attempt int) time.Duration
	incoming chan *message
	box      outbox
}

// run keeps incoming events and sends messages that are due, until ctx is done.
func (r *receiver) run(ctx context.Context) {
	defer r.takeIn() // so that the next run sends what is left
	for {
		due := time.NewTimer(time.Hour)
		next := r.box.next()
		if next != nil {
			due.Reset(time.Until(next.Next))
		}
		select {
		case <-ctx.Done():
			due.Stop()
			return
		case m := <-r.incoming:
			r.keep(m)
		case <-due.C:
			if next != nil {
				r.deliver(ctx, next)
			}
		}
		due.Stop()
	}
}

func (r *receiver) takeIn() {
	for {
		select {
		case m := <-r.incoming:
			r.keep(m)
		default:
			return
		}
	}
}

func (r *receiver) keep(m *message) {
	dropped, err := r.box.keep(m)
	if dropped != nil {
		r.log.Error("a message to a webhook was dropped: too many are waiting", "url", r.hook.URL, "message", dropped.ID)
	}
	if err != nil {
		r.log.Error("a message to a webhook could not be stored and will not survive a restart", "url", r.hook.URL, "message", m.ID, "error", err)
	}
}

func (r *receiver) deliver(ctx context.Context, m *message) {
	err := r.send(ctx, m)
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		r.drop(m)
		return
	}
	m.Attempts++
	wait := r.pause(m.Attempts)
	if wait == 0 {
		r.log.Error("a message to a webhook was dropped after its last attempt", "url", r.hook.URL, "message", m.ID, "attempts", m.Attempts, "error", err)
		r.drop(m)
		return
	}
	r.log.Warn("a webhook did not accept a message; it will be sent again", "url", r.hook.URL, "message", m.ID, "in", wait, "error", err)
	m.Next = time.Now().Add(wait)
	r.keep(m)
}

func (r *receiver) drop(m *message) {
	if err := r.box.remove(m); err != nil {
		r.log.Error("a message could not be removed from the outbox of a webhook", "message", m.ID, "error", err)
	}
}

func (r *receiver) send(ctx context.Context, m *message) error {
	now := time.Now()
	signature, err := r.signer.Sign(m.ID, now, m.Body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.hook.URL, bytes.NewReader(m.Body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("User-Agent", "mneme")
	request.Header.Set(standardwebhooks.HeaderWebhookID, m.ID)
	request.Header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(now.Unix(), 10))
	request.Header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	response, err := r.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("it answers with status %d", response.StatusCode)
	}
	return nil
}
