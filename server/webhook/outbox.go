package webhook

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// maxWaiting bounds an outbox: the oldest messages are dropped first. A receiver that is down for a day finds at most
// these.
const maxWaiting = 1000

// message is a message for a receiver.
type message struct {
	ID       string          `json:"id"` // also the name of its file; ids ascend with time
	Body     json.RawMessage `json:"body"`
	Attempts int             `json:"attempts"`
	Next     time.Time       `json:"next,omitzero"` // when it is to be sent
}

func newID(at time.Time) string { return fmt.Sprintf("msg_%013x%s", at.UnixMilli(), rand.Text()) }

// outbox keeps messages as files of a directory.
type outbox struct {
	dir     string
	waiting []*message
}

const suffix = ".json"

// open reads existing messages. Unreadable ones stay where they are.
func (o *outbox) open() error {
	if err := os.MkdirAll(o.dir, 0o700); err != nil {
		return err
	}
	entries, err := os.ReadDir(o.dir) // sorted by name
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), suffix) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(o.dir, entry.Name()))
		if err != nil {
			return err
		}
		m := new(message)
		if json.Unmarshal(text, m) == nil && m.ID+suffix == entry.Name() {
			o.waiting = append(o.waiting, m)
		}
	}
	return nil
}

// keep writes a message that is new or had another attempt. dropped is the message that was removed to make room.
func (o *outbox) keep(m *message) (dropped *message, err error) {
	if !slices.Contains(o.waiting, m) {
		o.waiting = append(o.waiting, m)
		if len(o.waiting) > maxWaiting {
			dropped = o.waiting[0]
			err = o.remove(dropped)
		}
	}
	text, failed := json.Marshal(m)
	if failed != nil {
		return dropped, errors.Join(err, failed)
	}
	name := filepath.Join(o.dir, m.ID+suffix)
	if failed = os.WriteFile(name+".new", text, 0o600); failed == nil {
		failed = os.Rename(name+".new", name)
	}
	return dropped, errors.Join(err, failed)
}

func (o *outbox) remove(m *message) error {
	o.waiting = slices.DeleteFunc(o.waiting, func(w *message) bool { return w == m })
	err := os.Remove(filepath.Join(o.dir, m.ID+suffix))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// next returns the message to send first; nil: none waits.
func (o *outbox) next() *message {
	if len(o.waiting) == 0 {
		return nil
	}
	return slices.MinFunc(o.waiting, func(a, b *message) int { return a.Next.Compare(b.Next) })
}
