package memory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// An event id is the run's name and the number of the event in that run of the server: numbers restart with each run,
// and no run knows what happened between two.

// newEpoch names a run by its start time.
func newEpoch() string { return strconv.FormatInt(time.Now().UnixMilli(), 36) }

// eventMissed tells a returning caller that it has missed events and has to list again.
const eventMissed = "missed"

// signOfLife is the interval of keep-alives on a silent tail, and of checks that the caller is still authorized.
const signOfLife = 15 * time.Second

// events streams what is committed for the account until the caller leaves or the server closes.
func (h *handler) events(c *call) (any, error) {
	last := c.query.text("after")
	if id := c.r.Header.Get("Last-Event-ID"); id != "" {
		last = id
	}
	only := onlyEvents{sessions: c.query.list("session"), keys: c.query.list("key")}
	if slices.ContainsFunc(only.keys, func(id string) bool { return !strings.HasPrefix(id, "key_") }) { // it may be a secret
		c.query.fail("key", "key takes the ids of service keys, which begin with key_")
	}
	if err := c.query.end(); err != nil {
		return nil, err
	}
	after, missed, err := h.resume(last)
	if err != nil {
		return nil, err
	}
	c.w.Header().Set("Content-Type", "text/event-stream")
	c.w.Header().Set("Cache-Control", "no-cache")
	c.w.Header().Set("X-Accel-Buffering", "no")
	if c.r.Method == http.MethodHead {
		c.w.WriteHeader(http.StatusOK)
		return nil, nil
	}
	sub, err := h.Archive.Subscribe(c.account, after)
	if err != nil {
		return nil, err
	}
	defer sub.Close()
	t := tail{handler: h, call: c, only: only, out: http.NewResponseController(c.w)}
	if missed || sub.Missed {
		t.text("event: " + eventMissed + "\ndata: {}\n\n")
	} else {
		t.text(": tail\n\n")
	}
	t.follow(sub)
	return nil, nil
}

// resume parses the id of the last event that a caller received.
func (h *handler) resume(last string) (after uint64, missed bool, err error) {
	if last == "" {
		return 0, false, nil
	}
	epoch, number, _ := strings.Cut(last, "-")
	if after, err = strconv.ParseUint(number, 10, 64); err != nil {
		return 0, false, codec.Invalid("after", "%q is not the id of an event", last)
	}
	if epoch != h.epoch {
		return 0, true, nil
	}
	return after, false, nil
}

// onlyEvents selects events by session and by key. An empty list selects all.
type onlyEvents struct{ sessions, keys []string }

func (o *onlyEvents) have(e *record.Event) bool {
	return (len(o.sessions) == 0 || slices.Contains(o.sessions, e.Session)) && (len(o.keys) == 0 || slices.Contains(o.keys, e.KeyID))
}

// tail writes events to one caller.
type tail struct {
	handler *handler
	call    *call
	only    onlyEvents
	out     *http.ResponseController
	err     error // the caller has left
}

func (t *tail) follow(sub *record.Subscription) {
	alive := time.NewTicker(signOfLife)
	defer alive.Stop()
	for t.err == nil {
		select {
		case <-t.call.ctx().Done():
			return
		case <-t.handler.Closing:
			return
		case <-alive.C:
			if _, err := t.handler.Identify(t.call.r, store.ScopeRead); err != nil {
				return
			}
			t.text(": alive\n\n")
		case e, more := <-sub.Events:
			if !more {
				return
			}
			if t.only.have(&e) {
				t.event(&e)
			}
		}
	}
}

func (t *tail) event(e *record.Event) {
	text, err := json.Marshal(e)
	if err != nil {
		panic(err) // a plain struct
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "id: %s-%d\nevent: %s\ndata: %s\n\n", t.handler.epoch, e.Seq, e.Kind, text)
	t.text(b.String())
}

func (t *tail) text(s string) {
	if _, t.err = t.call.w.Write([]byte(s)); t.err == nil {
		t.err = t.out.Flush()
	}
}
