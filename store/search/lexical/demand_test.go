package lexical

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// What is demanded leaves out just the hits that hold too little, whatever words a question has, and changes nothing about
// the others.
func TestADemandLeavesOutWhatHoldsTooLittle(t *testing.T) {
	ok := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ix := openIndex(t, t.TempDir())
	defer ix.Close()
	random := rand.New(rand.NewPCG(5, 6))
	word := func() string { return fmt.Sprintf("w%cx", 'a'+int(math.Abs(random.NormFloat64())*9)) }
	said := func(count int) string {
		var b strings.Builder
		for range count {
			b.WriteString(word() + " ")
		}
		return b.String()
	}
	name := func() string { return fmt.Sprintf("pkg/m/f%d.go", random.IntN(120)) }
	for chunk := range 6 {
		var documents []Document
		for n := range 100 {
			id := fmt.Sprintf("exch_%03d", (chunk*80+n)%480) // some of each chunk replace others
			documents = append(documents, Document{Account: 1, ID: id, Text: said(2 + n%9), Names: name(), Output: said(n % 4), Facets: []Facet{{"half", fmt.Sprint(n % 2)}}})
		}
		if chunk < 3 {
			applyToDisk(t, ix, documents)
		} else {
			apply(t, ix, documents)
		}
	}
	s, err := ix.Searcher(t.Context(), 1)
	ok(t, err)
	defer func() { _ = s.Close() }()
	half, err := s.Facet("half", "1")
	ok(t, err)
	spoke := 0
	for round := range 300 {
		text := said(4 + round%6)
		named := round%3 == 0
		if named {
			text += name()
		}
		allowed := half
		if round%2 == 0 {
			allowed = nil
		}
		q, d := Plain(text), Demand{Share: 0.3 + 0.1*float64(round%4), Name: named, Enough: func(c Covered) bool { return c.Words+c.Names > 1 }}
		ranking, err := s.Rank(q, allowed)
		ok(t, err)
		var hits []Hit
		var numbers []uint32
		for hit, found := ranking.Next(); found; hit, found = ranking.Next() {
			hits, numbers = append(hits, hit), append(numbers, hit.Number)
		}
		covered, err := s.Coverage(q, numbers)
		ok(t, err)
		want, closest := make(map[uint32]int), 0.0 // places in hits
		for i, c := range covered {
			if c.Share >= d.Share && (c.Names > 0 || !named) {
				closest = max(closest, c.Share)
				if d.Enough(c) {
					want[hits[i].Number] = i
				}
			}
		}
		ranking.Close()
		demanded, err := s.RankDemanding(q, allowed, d)
		ok(t, err)
		if closest > 0 && math.Abs(demanded.Closest()-closest) > 1e-9 {
			t.Errorf("%s: the closest holds %v, want %v", text, demanded.Closest(), closest)
		}
		last := math.Inf(1)
		for hit, found := demanded.Next(); found; hit, found = demanded.Next() {
			i, wanted := want[hit.Number]
			if !wanted || math.Abs(hits[i].Score-hit.Score) > 1e-9 || hit.Score > last {
				t.Errorf("%s: %v comes behind %v; wanted: %v", text, hit, last, wanted)
				continue
			}
			held, _ := demanded.Covered([]uint32{hit.Number})
			if c := covered[i]; math.Abs(c.Share-held[0].Share) > 1e-9 || c.Names != held[0].Names || c.Words != held[0].Words {
				t.Errorf("%s: %d holds %v, want %v", text, hit.Number, held[0], c)
			}
			delete(want, hit.Number)
			last = hit.Score
			spoke++
		}
		if len(want) > 0 {
			t.Errorf("%s: %d hits are missing", text, len(want))
		}
		demanded.Close()
	}
	if spoke < 300 {
		t.Errorf("%d hits in all rounds, too few to say anything", spoke)
	}
}
