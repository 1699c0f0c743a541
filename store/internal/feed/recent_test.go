package feed

import "testing"

func TestChangesInMemoryAreBounded(t *testing.T) {
	r := recentChanges{forget: func(*Change) {}}
	for seq := range uint64(3 * mostRecent) {
		size := int64(0)
		if seq > 2*mostRecent {
			size = mostRecentBytes / 3
		}
		r.add(seq+1, []*Change{{Seq: seq + 1, Size: size}}, true)
		if r.size > mostRecentBytes || len(r.list) > mostRecent {
			t.Fatalf("%d changes of %d bytes are held", len(r.list), r.size)
		}
	}
	if some, all := r.after(r.from, r.from+2, 10); !all || len(some) != 2 || some[0].Seq != r.from+1 {
		t.Errorf("%d changes, all of them: %v; want the two after %d", len(some), all, r.from)
	}
	if _, all := r.after(r.from-1, 1<<63, 10); all {
		t.Error("what was dropped is said to be there")
	}
	if r.release(3 * mostRecent); len(r.list) > 0 || r.size != 0 {
		t.Errorf("%d changes of %d bytes are held after all were done", len(r.list), r.size)
	}
	r.add(1<<40, nil, false)
	if _, all := r.after(r.from-1, 1<<63, 10); all || len(r.list) != 0 {
		t.Error("after a commit that may be partly stored, changes are in memory")
	}
}
