package lexical

import (
	"container/list"
	"sync"
	"unsafe"
)

// listMemory is how many bytes of decoded lists are kept: those of some sixty of the commonest words of an account of
// 100,000 documents. A shard that nobody searches has none.
const listMemory = 32 << 20

// lists keeps the long lists of postings that were used last, decoded. Bleve decodes them at a tenth of the speed at which
// they can be scored. Segments do not change, so that a list is right as long as there are searchers that see its segment.
type lists struct {
	mu     sync.Mutex
	held   map[listName]*list.Element // of *keptList
	recent list.List                  // the most recently used first
	bytes  int
}

type listName struct {
	shard   int
	segment uint64
	field   string
	term    string // begins with its account
}

type keptList struct {
	name     listName
	postings []posting
}

func newLists() *lists { return &lists{held: make(map[listName]*list.Element)} }

func (l *lists) get(name listName) []posting {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.held[name]
	if e == nil {
		return nil
	}
	l.recent.MoveToFront(e)
	return e.Value.(*keptList).postings
}

func (l *lists) put(name listName, postings []posting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := &keptList{name, postings}
	if l.held[name] != nil || k.size() > listMemory { // another searcher has decoded it too; or it has no room
		return
	}
	l.held[name] = l.recent.PushFront(k)
	l.bytes += k.size()
	for l.bytes > listMemory {
		l.drop(l.recent.Back())
	}
}

// forget lets go of the lists of a shard.
func (l *lists) forget(shard int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, e := range l.held {
		if name.shard == shard {
			l.drop(e)
		}
	}
}

func (l *lists) drop(e *list.Element) {
	k := l.recent.Remove(e).(*keptList)
	delete(l.held, k.name)
	l.bytes -= k.size()
}

func (k *keptList) size() int {
	return cap(k.postings)*int(unsafe.Sizeof(posting{})) + len(k.name.term)
}
