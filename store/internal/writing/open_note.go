package writing

import (
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Open exchanges have to be found after their process is gone. Those of an account that began in one commit share a
// note, under the key of the first of them. The note is deleted in the commit in which the last of them ends. So most
// exchanges of a busy store cost no entry when they begin or end.

// OpenNote is such a note. The writer owns it.
type OpenNote struct {
	account kv.AccountNumber
	first   kv.ExchangeID
	others  []byte // their ids; unused once the note is committed
	running int    // exchanges of the note that have not ended
}

// Begin writes the note with the first of its exchanges to be committed, so that it exists before any exchange that it
// covers.
func (n *OpenNote) Begin(b *commit.Batch, id kv.ExchangeID) {
	if n.first == id {
		b.Set(n.key(), n.others)
	}
}

// End counts an exchange that has ended, and deletes the note with the last.
func (n *OpenNote) End(b *commit.Batch) {
	if n.running--; n.running == 0 {
		b.Delete(n.key())
	}
}

// Reopen takes back an End that could not be committed. The note stays until the store is reopened.
func (n *OpenNote) Reopen() { n.running++ }

func (n *OpenNote) key() []byte { return kv.ExchangeKey(kv.SpaceOpen, n.account, n.first) }

// NoteOpen adds an exchange to its account's note in this group.
func (g *Group) NoteOpen(account kv.AccountNumber, id kv.ExchangeID) *OpenNote {
	i := slices.IndexFunc(g.notes, func(n *OpenNote) bool { return n.account == account })
	if i < 0 {
		n := &OpenNote{account: account, first: id, others: []byte{}, running: 1}
		g.notes = append(g.notes, n)
		return n
	}
	n := g.notes[i]
	n.others = append(n.others, id[:]...)
	n.running++
	return n
}

// NotedOpen reports whether a note covers an exchange.
func (g *Group) NotedOpen(account kv.AccountNumber, id kv.ExchangeID) bool {
	noted, err := journal.NotedOpen(g.Committed(), account, id)
	g.Fail(err)
	return noted
}
