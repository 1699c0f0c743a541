package search

import (
	"sync"

	"github.com/mnemeproxy/mneme/store"
)

// handover holds the texts of turns that the lexical index has just read, so that the vectors behind it do not read the
// same turns from the store again. The lexical index puts or drops a turn at each of its changes, and the vectors never
// are ahead of it; so what is taken out is as new as the change it is taken for. What is not there is read.
type handover struct {
	mu    sync.Mutex
	texts map[store.TurnRef]turnText // nil: nobody takes any
	size  int                        // bytes of texts and entries
}

// turnText is what a vector is made of.
type turnText struct {
	account string // its name
	text    string
	seq     uint64 // of the change it was read for
	fresh   bool   // the turn has just been digested, so that it has no vector unless all turns are being gone through
}

// mostHandedOver is how many bytes of texts may wait. When there are more all are let go: the vectors are far behind then,
// and read for themselves.
const mostHandedOver = 4 << 20

// handedOverEntry is what a text takes beside its bytes, about.
const handedOverEntry = 256

// begin lets texts be put. Every change from now on has to come to the one who takes them, too.
func (h *handover) begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.texts == nil {
		h.texts = make(map[store.TurnRef]turnText)
	}
}

// put holds the text of a turn as it is after a change; d is nil where there is none any more.
func (h *handover) put(c store.Change, account string, d *document, fresh bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.texts == nil {
		return
	}
	turn := turnRef(c)
	h.remove(turn)
	if d == nil {
		return
	}
	text := d.embedded()
	if h.size+len(text)+handedOverEntry > mostHandedOver {
		clear(h.texts)
		h.size = 0
	}
	h.texts[turn] = turnText{account, text, c.Seq, fresh}
	h.size += len(text) + handedOverEntry
}

// take gives the text of a turn, once.
func (h *handover) take(turn store.TurnRef) (t turnText, there bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, there = h.texts[turn]
	h.remove(turn)
	return t, there
}

func (h *handover) remove(turn store.TurnRef) {
	if t, there := h.texts[turn]; there {
		h.size -= len(t.text) + handedOverEntry
		delete(h.texts, turn)
	}
}
