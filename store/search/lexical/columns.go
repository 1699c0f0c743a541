package lexical

import (
	"bytes"
	"cmp"
	"hash/fnv"
	"slices"
	"sync"
)

// columns holds what ranking needs of every document of one segment: its id and its group. Bleve keeps both in
// compressed rows at 1 to 2 µs a row; a ranking compares thousands of them. They take some 60 bytes a document,
// holds no pointers into the documents, and never changes, because segments do not.
type columns struct {
	ids    []byte   // of all documents, one after the other
	ends   []uint32 // where each id ends in ids
	groups []uint64 // 0: none
	order  []uint32 // documents that are in a group, by group and then by id
	sorted []uint64 // the groups of order, side by side, for looking groups up
}

func (c *columns) id(number uint32) []byte {
	start := uint32(0)
	if number > 0 {
		start = c.ends[number-1]
	}
	return c.ids[start:c.ends[number]]
}

// members gives the documents of a group in the order of their ids.
func (c *columns) members(group uint64) []uint32 {
	from, found := slices.BinarySearch(c.sorted, group)
	if !found {
		return nil
	}
	to, _ := slices.BinarySearch(c.sorted[from:], group+1)
	return c.order[from : from+to]
}

// columnsOf reads the columns of a segment, or gives those that were read before.
func (s *Searcher) columnsOf(p *part) (*columns, error) {
	if p.columns != nil {
		return p.columns, nil
	}
	var err error
	p.columns, err = s.table.of(s, p)
	return p.columns, err
}

// readColumns reads those of all segments, as comparing documents takes for granted.
func (s *Searcher) readColumns() error {
	for i := range s.parts {
		if _, err := s.columnsOf(&s.parts[i]); err != nil {
			return err
		}
	}
	return nil
}

// columnTable keeps the columns of the segments that searches have met. It holds those of a segment until a searcher
// comes that does not see the segment any more.
type columnTable struct {
	mu   sync.Mutex
	held map[segmentName]*columns
}

type segmentName struct {
	shard   int
	segment uint64
}

func newColumnTable() *columnTable { return &columnTable{held: make(map[segmentName]*columns)} }

func (t *columnTable) of(s *Searcher, p *part) (*columns, error) {
	name := segmentName{s.shard, p.id}
	t.mu.Lock()
	c := t.held[name]
	t.mu.Unlock()
	if c != nil {
		return c, nil
	}
	c, err := decodeColumns(s, p)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for other := range t.held {
		if other.shard == s.shard && !slices.ContainsFunc(s.parts, func(p part) bool { return p.id == other.segment }) {
			delete(t.held, other)
		}
	}
	t.held[name] = c
	return c, nil
}

// forget lets go of the columns of a shard.
func (t *columnTable) forget(shard int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for name := range t.held {
		if name.shard == shard {
			delete(t.held, name)
		}
	}
}

func decodeColumns(s *Searcher, p *part) (*columns, error) {
	count := uint32(p.segment.Count())
	c := &columns{ends: make([]uint32, count), groups: make([]uint64, count)}
	for number := range count {
		if number%1024 == 0 && s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
		err := p.segment.VisitStoredFields(uint64(number), func(field string, _ byte, value []byte, _ []uint64) bool {
			switch field {
			case fieldID:
				c.ids = append(c.ids, value[min(accountSize, len(value)):]...)
			case fieldLength:
				_, c.groups[number] = decodeStored(value)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
		c.ends[number] = uint32(len(c.ids))
		if c.groups[number] != 0 {
			c.order = append(c.order, number)
		}
	}
	slices.SortFunc(c.order, func(a, b uint32) int {
		return cmp.Or(cmp.Compare(c.groups[a], c.groups[b]), bytes.Compare(c.id(a), c.id(b)))
	})
	c.sorted = make([]uint64, len(c.order))
	for i, number := range c.order {
		c.sorted[i] = c.groups[number]
	}
	return c, nil
}

// partOf gives the part that a document is in.
func (s *Searcher) partOf(number uint32) *part {
	i, found := slices.BinarySearchFunc(s.parts, number, func(p part, number uint32) int { return cmp.Compare(p.first, number) })
	if !found {
		return &s.parts[i-1]
	}
	for i+1 < len(s.parts) && s.parts[i+1].first == number { // those before it are empty
		i++
	}
	return &s.parts[i]
}

// neighbours gives the documents of the same group whose ids come right before and right after that of a document; one
// that is not there is left out.
func (s *Searcher) neighbours(number uint32, into []uint32) ([]uint32, error) {
	own := s.partOf(number)
	c, err := s.columnsOf(own)
	if err != nil {
		return nil, err
	}
	group, id := c.groups[number-own.first], c.id(number-own.first)
	if group == 0 {
		return into, nil
	}
	var before, after struct {
		number uint32
		id     []byte // nil: nothing found yet
	}
	for i := range s.parts {
		p := &s.parts[i]
		c, err := s.columnsOf(p)
		if err != nil {
			return nil, err
		}
		members := c.members(group)
		at, here := slices.BinarySearchFunc(members, id, func(number uint32, id []byte) int { return bytes.Compare(c.id(number), id) })
		for j := at - 1; j >= 0; j-- {
			if found := members[j]; !p.isGone(found) {
				if before.id == nil || bytes.Compare(c.id(found), before.id) > 0 {
					before.number, before.id = p.first+found, c.id(found)
				}
				break
			}
		}
		if here {
			at++
		}
		for j := at; j < len(members); j++ {
			if found := members[j]; !p.isGone(found) {
				if after.id == nil || bytes.Compare(c.id(found), after.id) < 0 {
					after.number, after.id = p.first+found, c.id(found)
				}
				break
			}
		}
	}
	if before.id != nil {
		into = append(into, before.number)
	}
	if after.id != nil {
		into = append(into, after.number)
	}
	return into, nil
}

// laterThan reports whether a document has the higher id. Its columns have been read.
func (s *Searcher) laterThan(number, than uint32) bool {
	a, b := s.partOf(number), s.partOf(than)
	return bytes.Compare(a.columns.id(number-a.first), b.columns.id(than-b.first)) > 0
}

// key gives the id of a document; it is valid as long as the searcher.
func (s *Searcher) key(number uint32) ([]byte, error) {
	p := s.partOf(number)
	c, err := s.columnsOf(p)
	if err != nil {
		return nil, err
	}
	return c.id(number - p.first), nil
}

// group gives the group of a document; 0 is none.
func (s *Searcher) group(number uint32) (uint64, error) {
	p := s.partOf(number)
	c, err := s.columnsOf(p)
	if err != nil {
		return 0, err
	}
	return c.groups[number-p.first], nil
}

// GroupKey stands for a group of an account; 0 for no group.
func GroupKey(account uint32, group string) uint64 {
	if group == "" {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write(termKey(account, group))
	return max(h.Sum64(), 1)
}
