package lexical

import (
	"fmt"
	"testing"
)

// A head has room for what the one before it had, so the same documents again make none of its lists grow.
func TestAHeadHasRoomForAsMuchAsTheOneBeforeIt(t *testing.T) {
	g := newGenerator()
	documents := make([]Document, 200)
	for i := range documents {
		documents[i] = g.document(i, 600)
	}
	put := func(h *head, documents []Document) {
		for i := range documents {
			h.put(analyze(&documents[i]))
		}
	}
	first := newHead(nil)
	put(first, documents)
	next := newHead(first)
	rooms := func() string {
		s := next.sections[1]
		list := [][2]int{{cap(s.documents), cap(s.ids)}}
		for f := range s.fields {
			terms := &s.fields[f]
			list = append(list, [2]int{cap(terms.terms), len(terms.slots)})
		}
		return fmt.Sprint(list)
	}
	put(next, documents[:1])
	before := rooms()
	put(next, documents[1:])
	if got := rooms(); got != before {
		t.Errorf("the room for documents and terms grew from %s to %s", before, got)
	}
	if got, want := next.sections[1].room(), first.sections[1].room(); got != want {
		t.Errorf("%+v was put into the head, want %+v", got, want)
	}
}

func TestPostingsStayWhereTheyAreWhileTheirListGrows(t *testing.T) {
	var l postingList
	places := make(map[uint32]*headPosting)
	for i := uint32(1); i <= 5*postingsAtOnce; i++ {
		l.add(headPosting{number: i})
		if i%postingsAtOnce == 0 {
			places[i] = l.at(i)
		}
	}
	for i := uint32(1); i <= l.size; i++ {
		if p := l.at(i); p.number != i || places[i] != nil && places[i] != p {
			t.Fatalf("posting %d is %d at %p, was at %p", i, p.number, p, places[i])
		}
	}
}
