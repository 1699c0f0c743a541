package lexical

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
)

// Segments of similar size are merged, so that searches read few of them and each document is rewritten once per size
// class.
const (
	mergeTogether = 8
	smallest      = 256 << 10 // bytes; anything smaller is of the lowest class
	largest       = 16 << 20  // anything larger is rewritten only when half of it is gone
)

func sorted[T any](byAccount map[uint32]T) []uint32 { return slices.Sorted(maps.Keys(byAccount)) }

// merge merges segments as they come.
func (ix *Index) merge(ctx context.Context) {
	select {
	case <-ix.merging.open:
	case <-ctx.Done():
		return
	}
	for ctx.Err() == nil {
		merged, err := ix.mergeSome(ctx)
		if err != nil && ctx.Err() == nil {
			ix.failed(fmt.Errorf("merge segments of the lexical index: %w", err))
		}
		if merged && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-ix.grown:
		}
	}
}

func (ix *Index) mergeSome(ctx context.Context) (merged bool, err error) {
	if err := ix.merges.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer ix.merges.Release(1)
	segments := ix.plan()
	if len(segments) == 0 {
		return false, nil
	}
	return true, ix.rewrite(ctx, segments)
}

// class returns how many merges it takes from the lowest class to this size.
func (s *segment) class() (class int) {
	for size := s.size; size > smallest; size /= mergeTogether {
		class++
	}
	return class
}

// plan returns the segments to merge; none if all are fine.
func (ix *Index) plan() []*segment {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	classes := make(map[int][]*segment)
	for _, s := range ix.segments {
		if s.halfGone() {
			return []*segment{s}
		}
		if s.size <= largest {
			classes[s.class()] = append(classes[s.class()], s)
		}
	}
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		if same := classes[class]; len(same) >= mergeTogether {
			slices.SortStableFunc(same, func(a, b *segment) int { return cmp.Compare(a.size, b.size) })
			return same[:mergeTogether]
		}
	}
	return nil
}

// halfGone reports whether at least half of the documents are gone.
func (s *segment) halfGone() bool {
	gone, all := uint64(0), uint64(0)
	for _, g := range s.gone {
		gone += g.totals.Documents
	}
	if gone == 0 {
		return false
	}
	for i := range s.accounts {
		all += uint64(s.sectionAt(i).many)
	}
	return 2*gone >= all
}

// rewrite merges segments into one, without removed documents.
func (ix *Index) rewrite(ctx context.Context, segments []*segment) error {
	sources := make(map[uint32][]source)
	err := Contain(func() error {
		ix.mu.RLock()
		defer ix.mu.RUnlock()
		for _, s := range segments {
			for i := range s.accounts {
				d := s.sectionAt(i)
				from := diskSource{diskSection: d}
				if g := s.gone[d.account]; g != nil {
					from.gone = g.numbers
				}
				sources[d.account] = append(sources[d.account], from)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	made, err := ix.createSegment(func(w *segmentWriter) error {
		for _, account := range sorted(sources) {
			if err := w.add(ctx, account, sources[account]); err != nil {
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
		var late []place
		for account, list := range sources {
			for _, from := range list {
				s := from.(diskSource).segment
				var gone *roaring.Bitmap
				if g := s.gone[account]; g != nil {
					gone = g.numbers
				}
				if made != nil {
					late = appendLate(late, made.section(account), from, gone)
				}
			}
		}
		ix.mu.Lock()
		defer ix.mu.Unlock()
		take(late)
		ix.segments = slices.DeleteFunc(slices.Clone(ix.segments), func(s *segment) bool { return slices.Contains(segments, s) })
		if made != nil {
			ix.segments = append(ix.segments, made)
		}
		ix.replaced = append(ix.replaced, segments...)
		return nil
	})
	ix.changing.Unlock()
	if err != nil {
		return err
	}
	return ix.note()
}
