package lexical

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/mnemeproxy/mneme/store/internal/wake"
)

// Version is raised when older indexes become unreadable, or would rank differently from new ones.
const Version = 7

// Document is an indexed document.
type Document struct {
	Account uint32
	ID      string // unique in the account
	Own     string // what the person said: words of the text, which count once more
	Text    string // the rest of the text; found by its words and names
	Names   string // found only by the names in it
	Output  string // found by its words, which count less than those of Text
	Group   string // documents of a group are neighbors in the order of their ids; "": it has none
	Facets  []Facet
}

// Facet is a property that searches can filter by.
type Facet struct{ Name, Value string }

// Key identifies a document.
type Key struct {
	Account uint32
	ID      string
}

// Index holds the documents of all accounts. It may be used from any goroutine.
type Index struct {
	dir        string
	failed     func(error) // called with errors of the index's goroutines
	writeAfter time.Duration
	merging    gate // of segments

	// Locks are taken in this order.
	writing  *semaphore.Weighted // held while the head is written
	merges   *semaphore.Weighted // held while segments are merged
	changing sync.Mutex          // held while documents or segments are added or removed
	noting   sync.Mutex          // held while the list of segments is written
	mu       sync.RWMutex        // guards the fields below

	head     *head
	full     *head // being written; nil: none is
	segments []*segment
	replaced []*segment // their files are removed once a list without them is on disk
	removals uint64     // documents removed since the index was opened
	purged   uint64     // of them, those that are no longer in any file
	removed  bool       // files may contain documents removed earlier
	last     uint64     // number of a file of a segment

	due    wake.Signal // the head is to be written
	grown  wake.Signal // segments may have to be merged
	cancel context.CancelFunc
	beside sync.WaitGroup
}

// Over returns an immutable index of documents in memory. It need not be closed.
func Over(ctx context.Context, documents []Document) (*Index, error) {
	counted, err := analyzeAll(ctx, documents)
	if err != nil {
		return nil, err
	}
	ix := &Index{head: newHead(nil)}
	for _, a := range counted {
		ix.head.put(a)
		a.release()
	}
	return ix, nil
}

// mostInHead is how many bytes of text a head may have before it is written. It takes about as much memory.
const mostInHead = 8 << 20

// Apply adds documents to the index, replacing those with the same keys, and removes others. When Apply returns,
// searches see all of it or nothing. When all of it is on disk, written is called from another goroutine, which it must
// not block. It is not called after an error, or if the index is closed first.
func (ix *Index) Apply(ctx context.Context, documents []Document, gone []Key, written func()) error {
	counted, err := analyzeAll(ctx, documents)
	if err != nil {
		return err
	}
	ix.changing.Lock()
	defer ix.changing.Unlock()
	var replaced []place
	err = Contain(func() error {
		find := ix.finder()
		for _, a := range counted {
			replaced = find(replaced, a.account, a.id)
		}
		for _, key := range gone {
			replaced = find(replaced, key.Account, key.ID)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the lexical index: %w", err)
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	for _, key := range gone {
		if ix.has(key, replaced) {
			ix.removals++
		}
	}
	take(replaced)
	for _, a := range counted {
		ix.head.put(a)
		ix.full.take(Key{a.account, a.id})
		a.release()
	}
	for _, key := range gone {
		ix.head.take(key)
		ix.full.take(key)
	}
	ix.head.touch()
	ix.head.written = append(ix.head.written, written)
	if ix.head.size >= mostInHead {
		ix.due.Notify()
	}
	return nil
}

// take removes a document from a head, if it has it.
func (h *head) take(key Key) {
	if h != nil && h.sections[key.Account] != nil {
		h.sections[key.Account].take(key.ID)
	}
}

// place is a document's place in a segment.
type place struct {
	section *diskSection
	number  uint32
}

// finder returns a function that appends the places of a document in segments. Segments do not change meanwhile.
func (ix *Index) finder() func(into []place, account uint32, id string) []place {
	known := make(map[uint32][]*diskSection)
	return func(into []place, account uint32, id string) []place {
		sections, looked := known[account]
		if !looked {
			for _, s := range ix.segments {
				if d := s.section(account); d != nil {
					sections = append(sections, d)
				}
			}
			known[account] = sections
		}
		for _, d := range sections {
			if string(d.id(d.many-1)) < id { // most documents are newer than everything on disk
				continue
			}
			if number, there := d.number(id); there {
				into = append(into, place{d, number})
			}
		}
		return into
	}
}

// has reports whether a document exists, in a head or at one of the places.
func (ix *Index) has(key Key, places []place) bool {
	for _, h := range [...]*head{ix.head, ix.full} {
		if h == nil || h.sections[key.Account] == nil {
			continue
		}
		s := h.sections[key.Account]
		if number, there := s.number(key.ID, uint32(len(s.documents))); there && (s.gone == nil || !s.gone.Contains(number)) {
			return true
		}
	}
	for _, p := range places {
		if p.section.account == key.Account && string(p.section.id(p.number)) == key.ID {
			if g := p.section.segment.gone[key.Account]; g == nil || !g.numbers.Contains(p.number) {
				return true
			}
		}
	}
	return false
}

// take removes documents from their segments.
func take(places []place) {
	type set struct {
		segment *segment
		account uint32
	}
	changed := make(map[set]*goneSet)
	for _, p := range places {
		at := set{p.section.segment, p.section.account}
		g := changed[at]
		if g == nil {
			g = &goneSet{numbers: roaring.New()}
			if before := at.segment.gone[at.account]; before != nil {
				g.numbers, g.totals = before.numbers.Clone(), before.totals
			}
			changed[at] = g
			at.segment.gone[at.account] = g
		}
		if g.numbers.CheckedAdd(p.number) {
			l := p.section.lengths(p.number)
			g.totals.add(&l)
		}
	}
}

// analyzeTogether is how many documents one goroutine analyzes before another one helps.
const analyzeTogether = 16

// analyzeAll analyzes documents, on every core if there are many.
func analyzeAll(ctx context.Context, documents []Document) ([]*analyzed, error) {
	counted := make([]*analyzed, len(documents))
	workers, ctx := errgroup.WithContext(ctx)
	step := max(1, min(runtime.GOMAXPROCS(0), len(documents)/analyzeTogether))
	for first := range step {
		workers.Go(func() error {
			for i := first; i < len(documents) && ctx.Err() == nil; i += step {
				counted[i] = analyze(&documents[i])
			}
			return ctx.Err()
		})
	}
	return counted, workers.Wait()
}

// Totals are the account statistics for scoring: its documents and their terms.
type Totals struct{ Documents, TextTerms, NameTerms, OutputTerms, OwnTerms uint64 }

func (t *Totals) add(l *lengths) {
	t.plus(&Totals{1, uint64(l.text), uint64(l.names), uint64(l.output), uint64(l.own)})
}

func (t *Totals) remove(l *lengths) {
	t.minus(&Totals{1, uint64(l.text), uint64(l.names), uint64(l.output), uint64(l.own)})
}

func (t *Totals) plus(o *Totals) {
	t.Documents += o.Documents
	t.TextTerms += o.TextTerms
	t.NameTerms += o.NameTerms
	t.OutputTerms += o.OutputTerms
	t.OwnTerms += o.OwnTerms
}

func (t *Totals) minus(o *Totals) {
	t.Documents -= o.Documents
	t.TextTerms -= o.TextTerms
	t.NameTerms -= o.NameTerms
	t.OutputTerms -= o.OutputTerms
	t.OwnTerms -= o.OwnTerms
}

// Totals returns the statistics of an account.
func (ix *Index) Totals(account uint32) (t Totals, err error) {
	err = Contain(func() error {
		ix.mu.RLock()
		defer ix.mu.RUnlock()
		ix.eachPart(account, func(_ *segment, _ part, totals Totals) { t.plus(&totals) })
		return nil
	})
	return t, err
}

// eachPart visits the sections of an account: those of segments, then those of heads, whose segment is nil.
func (ix *Index) eachPart(account uint32, visit func(s *segment, p part, totals Totals)) {
	for _, s := range ix.segments {
		d := s.section(account)
		if d == nil {
			continue
		}
		p, totals := part{section: d, count: d.many}, d.totals
		if g := s.gone[account]; g != nil {
			p.gone = g.numbers
			totals.minus(&g.totals)
		}
		visit(s, p, totals)
	}
	for _, h := range [...]*head{ix.full, ix.head} {
		if h == nil || h.sections[account] == nil {
			continue
		}
		s := h.sections[account]
		count := uint32(len(s.documents))
		visit(nil, part{section: headView{s, &ix.mu, count}, count: count, gone: s.gone}, s.totals)
	}
}

// Bytes returns the size of the index on disk.
func Bytes(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, gone := entry.Info(); gone == nil { // files come and go while segments are merged
				size += info.Size()
			}
		}
		return nil
	})
	return size
}

// writeAgain is the pause after a failed write.
const writeAgain = 2 * time.Second

// write writes the head when it is full or has waited long enough.
func (ix *Index) write(ctx context.Context) {
	for {
		wait := ix.untilDue()
		select {
		case <-ctx.Done():
			return
		case <-ix.due:
		case <-time.After(wait):
			if ix.untilDue() > 0 {
				continue
			}
		}
		if err := ix.Flush(ctx); err != nil && ctx.Err() == nil {
			ix.failed(fmt.Errorf("write the lexical index: %w", err))
			select {
			case <-ctx.Done():
			case <-time.After(writeAgain):
				ix.due.Notify()
			}
		}
	}
}

// untilDue returns how long the head may still wait.
func (ix *Index) untilDue() time.Duration {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	if ix.head.began.IsZero() {
		return ix.writeAfter
	}
	return time.Until(ix.head.began.Add(ix.writeAfter))
}

// Flush writes what is in memory to disk.
func (ix *Index) Flush(ctx context.Context) error {
	if err := ix.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer ix.writing.Release(1)
	for range 2 { // an earlier failed write, and what has arrived since
		ix.changing.Lock()
		ix.mu.Lock()
		if ix.full == nil && !ix.head.began.IsZero() {
			ix.full, ix.head = ix.head, newHead(ix.head)
		}
		full := ix.full
		ix.mu.Unlock()
		ix.changing.Unlock()
		if full == nil {
			return nil
		}
		if err := ix.writeHead(full); err != nil {
			return err
		}
	}
	return nil
}

// writeHead writes a head as a segment, which replaces it.
func (ix *Index) writeHead(h *head) error {
	sources := make(map[uint32]headSource, len(h.sections))
	ix.mu.RLock()
	for account, s := range h.sections {
		sources[account] = headSource{s, s.gone}
	}
	ix.mu.RUnlock()
	s, err := ix.createSegment(func(w *segmentWriter) error {
		for _, account := range sorted(sources) {
			if err := w.add(context.Background(), account, []source{sources[account]}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	ix.changing.Lock()
	err = Contain(func() error {
		var late []place // removed while it was written
		if s != nil {
			for account, from := range sources {
				late = appendLate(late, s.section(account), from, h.sections[account].gone)
			}
		}
		ix.mu.Lock()
		defer ix.mu.Unlock()
		take(late)
		if s != nil {
			ix.segments = append(ix.segments, s)
		}
		ix.full = nil
		return nil
	})
	ix.changing.Unlock()
	if err != nil {
		return err
	}
	if err := ix.note(); err != nil {
		ix.mu.Lock()
		defer ix.mu.Unlock()
		ix.head.written = append(h.written, ix.head.written...) // in the next list
		ix.head.touch()
		return err
	}
	for _, written := range h.written {
		written()
	}
	ix.grown.Notify()
	return nil
}

// appendLate appends the documents removed from a source since it was taken, by their places in the result.
func appendLate(into []place, made *diskSection, from source, gone *roaring.Bitmap) []place {
	if gone == nil || made == nil {
		return into
	}
	for it := gone.Iterator(); it.HasNext(); {
		if number := it.Next(); !from.isGone(number) {
			if at, there := made.number(string(from.id(number))); there {
				into = append(into, place{made, at})
			}
		}
	}
	return into
}

// closeTimeout is how long writing may take when the index is closed.
const closeTimeout = 5 * time.Second

// Close writes what is in memory to disk, if that is quick, and closes the index.
func (ix *Index) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = ix.Flush(ctx) // unwritten documents were not confirmed
	ix.cancel()
	ix.beside.Wait()
	for _, s := range ix.segments {
		s.release()
	}
	for _, s := range ix.replaced {
		s.release()
	}
	ix.segments, ix.replaced = nil, nil
}
