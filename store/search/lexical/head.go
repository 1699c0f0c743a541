package lexical

import (
	"bytes"
	"slices"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
)

// head holds the newest documents in memory, where searches find them at once, until they are written as a segment. Its
// slabs have no pointers, so the garbage collector does not scan them. Documents are added under the index's lock.
type head struct {
	sections map[uint32]*headSection // by account
	size     int                     // bytes of the texts of its documents
	began    time.Time               // when it got its first document; zero: empty
	written  []func()                // called when it is on disk
	room     map[uint32]headRoom     // by account, what the head before it needed
}

// newHead returns an empty head. Its sections have room for as much as those of the head before it, if there was one:
// growing with every document they would allocate several times as much.
func newHead(before *head) *head {
	h := &head{sections: make(map[uint32]*headSection), room: make(map[uint32]headRoom)}
	if before != nil {
		for account, s := range before.sections {
			h.room[account] = s.room()
		}
	}
	return h
}

// headRoom is the size of a section.
type headRoom struct {
	documents, ids int
	fields         [fieldCount]termsRoom
	byID           termsRoom
}

type termsRoom struct{ slots, terms, text int }

func (h *head) touch() {
	if h.began.IsZero() {
		h.began = time.Now()
	}
}

// headSection is the documents of one account, numbered in arrival order.
type headSection struct {
	documents []headDocument
	ids       []byte
	byID      headTerms // the documents with each id; the last one is current
	groups    map[uint64]uint32
	fields    [fieldCount]headTerms
	totals    Totals          // of the current documents
	gone      *roaring.Bitmap // replaced or removed; nil: none. It is never changed, only replaced
}

type headDocument struct {
	id      uint32 // where it begins in ids
	before  uint32 // the previous document of the group, from 1; 0: none
	group   uint64
	lengths lengths
}

// headTerms is the terms of one field: a hash table into a list of terms, each of which leads to its last posting, and
// each posting to the previous one.
type headTerms struct {
	slots    []uint32 // places in terms from 1, 0 if empty; a power of two long
	terms    []headTerm
	text     []byte
	postings postingList
	fetched  byte // meaningless: keeps fetch from being optimized away
}

type headTerm struct {
	hash      uint32
	start     uint32 // in text
	length    uint32
	last      uint32 // posting
	documents uint32
}

type headPosting struct {
	number, frequency uint32
	before            uint32 // posting of the same term, from 1; 0: none
}

// postingsAtOnce is how many postings of a list are allocated together; 24 KB.
const postingsAtOnce = 2 << 10

// postingList is a list that grows without being copied: a head may have a million postings.
type postingList struct {
	pieces [][]headPosting // of postingsAtOnce each
	size   uint32
}

func (l *postingList) add(p headPosting) {
	last := len(l.pieces) - 1
	switch {
	case last < 0:
		l.pieces, last = append(l.pieces, nil), 0 // most accounts have few
	case len(l.pieces[last]) == postingsAtOnce:
		l.pieces, last = append(l.pieces, make([]headPosting, 0, postingsAtOnce)), last+1
	}
	l.pieces[last] = append(l.pieces[last], p)
	l.size++
}

// at returns a posting by its number from 1.
func (l *postingList) at(i uint32) *headPosting {
	return &l.pieces[(i-1)/postingsAtOnce][(i-1)%postingsAtOnce]
}

func (t *headTerms) at(i uint32) []byte {
	e := &t.terms[i]
	return t.text[e.start : e.start+e.length]
}

// find returns the place of a term; false if it is missing.
func (t *headTerms) find(text string, hash uint64) (uint32, bool) {
	if len(t.slots) == 0 {
		return 0, false
	}
	short := uint32(hash)
	for at, mask := short, uint32(len(t.slots)-1); ; at++ {
		slot := t.slots[at&mask]
		if slot == 0 {
			return 0, false
		}
		if t.terms[slot-1].hash == short && string(t.at(slot-1)) == text {
			return slot - 1, true
		}
	}
}

// fetch brings the data of terms into the processor's cache before they are looked up. A lookup waits for memory three
// times in a row; here all of them wait together.
func (t *headTerms) fetch(terms []tallied) {
	if len(t.slots) == 0 {
		return
	}
	mask, seen := uint32(len(t.slots)-1), byte(0)
	for i := range terms {
		if slot := t.slots[uint32(terms[i].hash)&mask]; slot != 0 {
			if start := t.terms[slot-1].start; start < uint32(len(t.text)) {
				seen ^= t.text[start]
			}
		}
	}
	t.fetched = seen
}

// add notes that the newest document contains a term.
func (t *headTerms) add(text string, hash uint64, number, frequency uint32) {
	i, known := t.find(text, hash)
	if !known {
		i = t.put(text, hash)
	}
	e := &t.terms[i]
	t.postings.add(headPosting{number, frequency, e.last})
	e.last = t.postings.size
	e.documents++
}

func (t *headTerms) put(text string, hash uint64) uint32 {
	if 4*(len(t.terms)+1) > 3*len(t.slots) {
		t.slots = make([]uint32, max(64, 2*len(t.slots)))
		for i := range t.terms {
			t.take(t.terms[i].hash, uint32(i))
		}
	}
	i := uint32(len(t.terms))
	t.terms = append(t.terms, headTerm{hash: uint32(hash), start: uint32(len(t.text)), length: uint32(len(text))})
	t.text = append(t.text, text...)
	t.take(uint32(hash), i)
	return i
}

func (t *headTerms) take(hash, i uint32) {
	at, mask := hash, uint32(len(t.slots)-1)
	for t.slots[at&mask] != 0 {
		at++
	}
	t.slots[at&mask] = i + 1
}

// section returns the documents of an account, creating the section if necessary.
func (h *head) section(account uint32) *headSection {
	s := h.sections[account]
	if s == nil {
		s = newHeadSection(h.room[account])
		h.sections[account] = s
	}
	return s
}

func newHeadSection(room headRoom) *headSection {
	s := &headSection{
		groups: make(map[uint64]uint32), documents: make([]headDocument, 0, room.documents), ids: make([]byte, 0, room.ids),
		byID: newHeadTerms(room.byID),
	}
	for f := range s.fields {
		s.fields[f] = newHeadTerms(room.fields[f])
	}
	return s
}

func newHeadTerms(room termsRoom) headTerms {
	return headTerms{
		slots: make([]uint32, room.slots), terms: make([]headTerm, 0, room.terms), text: make([]byte, 0, room.text),
	}
}

func (s *headSection) room() headRoom {
	room := headRoom{documents: len(s.documents), ids: len(s.ids), byID: s.byID.room()}
	for f := range s.fields {
		room.fields[f] = s.fields[f].room()
	}
	return room
}

func (t *headTerms) room() termsRoom {
	return termsRoom{len(t.slots), len(t.terms), len(t.text)}
}

// put adds a document, replacing one with the same id in the head.
func (h *head) put(a *analyzed) {
	h.touch()
	h.size += a.size
	s := h.section(a.account)
	s.take(a.id)
	number := uint32(len(s.documents))
	d := headDocument{id: uint32(len(s.ids)), group: a.group, lengths: a.lengths}
	if a.group != 0 {
		d.before = s.groups[a.group]
		s.groups[a.group] = number + 1
	}
	s.documents = append(s.documents, d)
	s.ids = append(s.ids, a.id...)
	s.byID.add(a.id, newTerm(a.id).hash, number, 1)
	for f := range fieldCount {
		s.fields[f].fetch(a.of(f))
		for _, t := range a.of(f) {
			s.fields[f].add(t.text, t.hash, number, uint32(t.times))
		}
	}
	s.totals.add(&a.lengths)
}

// take removes a document if it exists.
func (s *headSection) take(id string) {
	number, there := s.number(id, uint32(len(s.documents)))
	if !there || s.gone != nil && s.gone.Contains(number) {
		return
	}
	gone := roaring.New()
	if s.gone != nil {
		gone = s.gone.Clone()
	}
	gone.Add(number)
	s.gone = gone
	s.totals.remove(&s.documents[number].lengths)
}

// number returns the newest of the first count documents with an id; it may be gone.
func (s *headSection) number(id string, count uint32) (uint32, bool) {
	i, known := s.byID.find(id, newTerm(id).hash)
	if !known {
		return 0, false
	}
	for at := s.byID.terms[i].last; at != 0; {
		p := s.byID.postings.at(at)
		if p.number < count {
			return p.number, true
		}
		at = p.before
	}
	return 0, false
}

func (s *headSection) id(number uint32) []byte {
	end := len(s.ids)
	if int(number)+1 < len(s.documents) {
		end = int(s.documents[number+1].id)
	}
	return s.ids[s.documents[number].id:end]
}

// headView is a section as a searcher sees it: its first documents.
type headView struct {
	of    *headSection
	lock  *sync.RWMutex // held to add documents
	count uint32
}

func (v headView) id(number uint32) []byte {
	v.lock.RLock()
	defer v.lock.RUnlock()
	return v.of.id(number)
}

func (v headView) group(number uint32) uint64 {
	v.lock.RLock()
	defer v.lock.RUnlock()
	return v.of.documents[number].group
}

func (v headView) lengths(number uint32) lengths {
	v.lock.RLock()
	defer v.lock.RUnlock()
	return v.of.documents[number].lengths
}

func (v headView) number(id string) (uint32, bool) {
	v.lock.RLock()
	defer v.lock.RUnlock()
	return v.of.number(id, v.count)
}

func (v headView) members(group uint64, into []uint32) []uint32 {
	v.lock.RLock()
	defer v.lock.RUnlock()
	from := len(into)
	for next := v.of.groups[group]; next != 0; next = v.of.documents[next-1].before {
		if number := next - 1; number < v.count {
			into = append(into, number)
		}
	}
	slices.SortFunc(into[from:], func(a, b uint32) int { return bytes.Compare(v.of.id(a), v.of.id(b)) })
	return into
}

func (v headView) postings(f field, text string, into []posting) []posting {
	v.lock.RLock()
	defer v.lock.RUnlock()
	t := &v.of.fields[f]
	i, known := t.find(text, newTerm(text).hash)
	if !known {
		return into
	}
	from := len(into)
	into = t.appendPostings(into, i)
	slices.Reverse(into[from:])
	kept := into[:from]
	for _, p := range into[from:] {
		if p.number < v.count {
			kept = append(kept, p)
		}
	}
	return kept
}

func (v headView) measure(f field, list []posting) {
	v.lock.RLock()
	defer v.lock.RUnlock()
	for i := range list {
		list[i].length = v.of.documents[list[i].number].lengths.of(f)
	}
}

// appendPostings appends the postings of a term without lengths, last one first.
func (t *headTerms) appendPostings(into []posting, i uint32) []posting {
	for at := t.terms[i].last; at != 0; {
		p := t.postings.at(at)
		into = append(into, posting{number: p.number, frequency: p.frequency})
		at = p.before
	}
	return into
}

func (v headView) terms(f field, from, prefix string, limit int) (found []string) {
	v.lock.RLock()
	defer v.lock.RUnlock()
	t := &v.of.fields[f]
	for i := range t.terms {
		if text := t.at(uint32(i)); string(text) >= from && bytes.HasPrefix(text, []byte(prefix)) {
			found = append(found, string(text))
		}
	}
	slices.Sort(found)
	return found[:min(limit, len(found))]
}

// headSource is a section that is being written. It no longer grows.
type headSource struct {
	of   *headSection
	gone *roaring.Bitmap
}

func (s headSource) count() uint32                 { return uint32(len(s.of.documents)) }
func (s headSource) id(number uint32) []byte       { return s.of.id(number) }
func (s headSource) group(number uint32) uint64    { return s.of.documents[number].group }
func (s headSource) lengths(number uint32) lengths { return s.of.documents[number].lengths }
func (s headSource) isGone(number uint32) bool     { return s.gone != nil && s.gone.Contains(number) }

func (s headSource) cursor(f field) cursor {
	t := &s.of.fields[f]
	order := make([]uint32, len(t.terms))
	for i := range order {
		order[i] = uint32(i)
	}
	slices.SortFunc(order, func(a, b uint32) int { return bytes.Compare(t.at(a), t.at(b)) })
	return &headCursor{of: t, order: order, at: -1}
}

// headCursor iterates over the terms of a field in order.
type headCursor struct {
	of    *headTerms
	order []uint32
	at    int

	ahead []posting // of the terms in order from first on
	ends  []int     // in ahead, after the postings of each
	first int
}

func (c *headCursor) next() bool {
	c.at++
	return c.at < len(c.order)
}

func (c *headCursor) term() []byte { return c.of.at(c.order[c.at]) }

func (c *headCursor) postings(into []posting) []posting {
	if c.at >= c.first+len(c.ends) {
		c.gather()
	}
	n, from := c.at-c.first, 0
	if n > 0 {
		from = c.ends[n-1]
	}
	return append(into, c.ahead[from:c.ends[n]]...)
}

const (
	// gatheredAtOnce is how many postings are collected together, more if one term has more.
	gatheredAtOnce = 4 << 10

	// chainsAtOnce is how many chains of postings are followed together. Each waits for memory at every step; the
	// chains wait in parallel.
	chainsAtOnce = 16
)

// gather collects the postings of the terms from the cursor's position on.
func (c *headCursor) gather() {
	size := 0
	c.first, c.ends = c.at, c.ends[:0]
	for _, i := range c.order[c.at:] {
		if size += int(c.of.terms[i].documents); size > gatheredAtOnce && len(c.ends) > 0 {
			break
		}
		c.ends = append(c.ends, size)
	}
	c.ahead = slices.Grow(c.ahead[:0], size)[:c.ends[len(c.ends)-1]]
	type chain struct {
		next uint32 // posting, from 1; 0: none
		end  int    // in ahead, before what has been collected
	}
	var room [chainsAtOnce]chain
	chains, begun := room[:0], 0
	for ; begun < min(chainsAtOnce, len(c.ends)); begun++ {
		chains = append(chains, chain{c.last(begun), c.ends[begun]})
	}
	for len(chains) > 0 {
		for n := 0; n < len(chains); n++ {
			of := &chains[n]
			p := c.of.postings.at(of.next)
			of.end--
			c.ahead[of.end] = posting{number: p.number, frequency: p.frequency}
			if of.next = p.before; of.next != 0 {
				continue
			}
			if begun < len(c.ends) {
				*of = chain{c.last(begun), c.ends[begun]}
				begun++
				continue
			}
			*of = chains[len(chains)-1]
			chains = chains[:len(chains)-1]
			n--
		}
	}
}

// last returns the last posting of a term that is collected, from 1; every term has one.
func (c *headCursor) last(n int) uint32 { return c.of.terms[c.order[c.first+n]].last }
