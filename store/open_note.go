package store

import (
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Open exchanges have to be found after their process is gone. Those of an account that began in one commit share a
// note, under the key of the first of them. The note is deleted in the commit in which the last of them ends. So most
// exchanges of a busy store cost no entry when they begin or end.

// openNote is such a note. The writer owns it.
type openNote struct {
	account kv.AccountNumber
	first   kv.ExchangeID
	others  []byte // their ids; unused once the note is committed
	running int    // exchanges of the note that have not ended
}

func (n *openNote) key() []byte { return kv.ExchangeKey(kv.SpaceOpen, n.account, n.first) }

// noteOpen adds an exchange to its account's note in this group.
func (g *commitGroup) noteOpen(account kv.AccountNumber, id kv.ExchangeID) *openNote {
	i := slices.IndexFunc(g.notes, func(n *openNote) bool { return n.account == account })
	if i < 0 {
		n := &openNote{account: account, first: id, others: []byte{}, running: 1}
		g.notes = append(g.notes, n)
		return n
	}
	n := g.notes[i]
	n.others = append(n.others, id[:]...)
	n.running++
	return n
}

func (g *commitGroup) notedOpen(account kv.AccountNumber, id kv.ExchangeID) bool {
	noted, err := journal.NotedOpen(g.Committed(), account, id)
	g.Fail(err)
	return noted
}
