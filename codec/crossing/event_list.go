package crossing

import (
	"sync"

	"github.com/mnemeproxy/mneme/codec"
)

// eventList is the events of a complete answer. Lists are used again: a short answer has half a dozen events, and an event
// is a long value, so that a list that grows from nothing costs more than reading the answer.
type eventList struct{ list []codec.Event }

var eventLists = sync.Pool{New: func() any { return new(eventList) }}

// maxEvents is the longest list that is kept, about 64 KB.
const maxEvents = 256

func takeEvents() *eventList { return eventLists.Get().(*eventList) }

// release gives the list back. Its events, which are views, must not be used any more.
func (l *eventList) release() {
	if cap(l.list) > maxEvents {
		return
	}
	clear(l.list)
	l.list = l.list[:0]
	eventLists.Put(l)
}
