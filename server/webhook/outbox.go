package webhook

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/store/volume"
)

// keeping is how an outbox keeps the messages of one kind of event.
type keeping struct {
	room    int  // how many may wait. Each kind has its own room, so no kind displaces another
	lasting bool // on disk before Tell returns, sent before others, and kept until it is accepted
}

var (
	keepings       = map[string]keeping{Erasure: {10_000, true}, Budget: {10_000, true}, Failure: {1_000, false}, Repeats: {1_000, false}}
	unknownKeeping = keeping{1_000, false} // of kinds of another version
)

func keepingOf(kind string) keeping {
	if k, known := keepings[kind]; known {
		return k
	}
	return unknownKeeping
}

// message is a message for a receiver. Its file has the exported fields; the others are read from the body.
type message struct {
	ID   string          `json:"id"` // also the name of its file; ids ascend with time
	Body json.RawMessage `json:"body"`

	keeping
	kind, account string
	told          time.Time

	// These belong to the goroutine that sends.
	attempts int
	next     time.Time // when it is to be sent
}

// body is the payload of a message.
type body struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      any       `json:"data"`
}

func newMessage(kind string, at time.Time, data any) (*message, error) {
	text, err := json.Marshal(body{kind, at.UTC(), data})
	if err != nil {
		return nil, err
	}
	m := &message{ID: fmt.Sprintf("msg_%013x%s", at.UnixMilli(), rand.Text()), Body: text}
	if err := m.describe(); err != nil {
		return nil, err
	}
	return m, nil
}

// describe sets what the body says of the event.
func (m *message) describe() error {
	var owner struct {
		Account string `json:"account"`
	}
	b := body{Data: &owner}
	if err := json.Unmarshal(m.Body, &b); err != nil {
		return err
	}
	m.kind, m.account, m.told, m.keeping = b.Type, owner.Account, b.Timestamp, keepingOf(b.Type)
	return nil
}

// outbox keeps messages as files of a directory.
type outbox struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	waiting []*message // in the order of their ids, nearly: several may be added at once
}

const suffix = ".json"

// open reads existing messages. Unreadable ones are logged and stay where they are.
func (o *outbox) open() error {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(o.dir) // sorted by name
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := filepath.Join(o.dir, entry.Name())
		if strings.HasSuffix(name, suffix+".new") { // cut off while it was written: Tell has not returned
			err = errors.Join(err, os.Remove(name))
		}
		if !strings.HasSuffix(name, suffix) {
			continue
		}
		m, unreadable := read(name)
		if unreadable != nil {
			o.log.Error("a message to a webhook cannot be read and is not sent; remove the file or repair it", "file", name, "error", unreadable)
			continue
		}
		o.waiting = append(o.waiting, m)
	}
	return err
}

func read(name string) (*message, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	m := new(message)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, err
	}
	if m.ID+suffix != filepath.Base(name) {
		return nil, fmt.Errorf("it holds message %q", m.ID)
	}
	if err := m.describe(); err != nil {
		return nil, err
	}
	return m, nil
}

// add writes a new message. dropped is the message that made room for it. After an error the message is kept in
// memory only.
func (o *outbox) add(m *message) (dropped *message, err error) {
	err = o.write(m)
	o.mu.Lock()
	o.waiting = append(o.waiting, m)
	dropped = o.excess(m.kind)
	o.mu.Unlock()
	if dropped != nil {
		err = errors.Join(err, o.remove(dropped))
	}
	return dropped, err
}

func (o *outbox) write(m *message) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	name := filepath.Join(o.dir, m.ID+suffix)
	if m.lasting {
		return volume.WriteSynced(name, text)
	}
	if err := os.WriteFile(name+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// excess returns the message to drop if a kind has more than its room: the oldest of the account with the most, so
// that no account displaces another's.
func (o *outbox) excess(kind string) *message {
	total, of := 0, map[string]int{}
	for _, m := range o.waiting {
		if m.kind == kind {
			total++
			of[m.account]++
		}
	}
	if total <= keepingOf(kind).room {
		return nil
	}
	most := 0
	for _, n := range of {
		most = max(most, n)
	}
	for _, m := range o.waiting {
		if m.kind == kind && of[m.account] == most {
			return m
		}
	}
	return nil
}

func (o *outbox) remove(m *message) error {
	o.mu.Lock()
	o.waiting = slices.DeleteFunc(o.waiting, func(w *message) bool { return w == m })
	o.mu.Unlock()
	err := os.Remove(filepath.Join(o.dir, m.ID+suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// next returns the message to send now, lasting ones first. If none is due, m is nil, and wait is how long until one
// is, or an hour.
func (o *outbox) next(now time.Time) (m *message, wait time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait = time.Hour
	for _, w := range o.waiting {
		if until := w.next.Sub(now); until > 0 {
			wait = min(wait, until)
		} else if m == nil || w.lasting && !m.lasting {
			m = w
		}
	}
	return m, wait
}

// hasten makes all messages due.
func (o *outbox) hasten() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, m := range o.waiting {
		m.next = time.Time{}
	}
}
