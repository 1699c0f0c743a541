package recall

import (
	"strings"
	"sync"
)

// Counts are the results of questions since the start.
type Counts struct {
	Spoke  int64 `json:"spoke"`
	Silent int64 `json:"silent"` // for any reason but lack of time
	Late   int64 `json:"late"`   // silence because the search took too long
	Tokens int64 `json:"tokens"` // of the texts, estimated
}

func (c *Counts) add(o Counts) {
	c.Spoke += o.Spoke
	c.Silent += o.Silent
	c.Late += o.Late
	c.Tokens += o.Tokens
}

// tallies has the counts of each account that has asked.
type tallies struct {
	mu       sync.Mutex
	accounts map[string]*Counts
}

// add counts a decision.
func (t *tallies) add(account string, r *Recalled) {
	one := Counts{Silent: 1}
	switch {
	case r.Text != "":
		one = Counts{Spoke: 1, Tokens: int64(r.Tokens)}
	case r.Reason == ReasonDeadline:
		one = Counts{Late: 1}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.accounts[account]
	if c == nil {
		if t.accounts == nil {
			t.accounts = make(map[string]*Counts)
		}
		c = new(Counts)
		t.accounts[strings.Clone(account)] = c // it may be a view of a request that ends earlier
	}
	c.add(one)
}

// Counts returns the counts of an account.
func (m *Memory) Counts(account string) (c Counts) {
	m.counts.mu.Lock()
	defer m.counts.mu.Unlock()
	if known := m.counts.accounts[account]; known != nil {
		c = *known
	}
	return c
}

// Total returns the counts of all accounts.
func (m *Memory) Total() (c Counts) {
	m.counts.mu.Lock()
	defer m.counts.mu.Unlock()
	for _, one := range m.counts.accounts {
		c.add(*one)
	}
	return c
}
