package commit

import (
	"runtime"
	"time"
)

const (
	groupLength = 256     // operations committed together
	groupBytes  = 4 << 20 // bytes committed together

	// Most of the cost of a small commit is fixed. Openings and parts of answers, for which no caller waits at first, are
	// committed with the next operation that has one, or after this time. At 1,300
	// chat requests a second that halves the commits.
	holdTime = 2 * time.Millisecond
)

// gathering collects the operations of the queue into groups. The writer owns it.
type gathering struct {
	queue   *queue
	group   []Step
	size    int64 // bytes in group
	awaited bool  // a caller waits for an operation of group, or it has been held for long enough
	held    bool  // the timer runs
	timer   *time.Timer
}

func newGathering(q *queue) *gathering {
	c := &gathering{queue: q, group: make([]Step, 0, groupLength), timer: time.NewTimer(holdTime)}
	c.timer.Stop()
	return c
}

// next waits for operations and returns those to commit together, until the next call; nil once the queue is closed and
// empty.
//
// If operations wait already, it gives way once: answers whose ends have just been committed go on before the next
// commit instead of after it, and goroutines that are about to enqueue join, which takes 5 % less CPU time with 16 busy
// connections.
func (c *gathering) next() []Step {
	clear(c.group)
	c.group, c.size, c.awaited, c.held = c.group[:0], 0, false, false
	if len(c.queue.writes) > 0 {
		runtime.Gosched()
	}
	first, ok := <-c.queue.writes
	if !ok {
		return nil
	}
	for c.add(first); len(c.group) < groupLength && c.size < groupBytes; {
		w, ok := c.queue.poll()
		switch {
		case ok:
			c.add(w)
		case !c.awaited:
			c.hold()
		default:
			return c.group
		}
	}
	return c.group
}

func (c *gathering) add(s Step) {
	c.group = append(c.group, s)
	c.size += s.op().Weight
	c.awaited = c.awaited || !s.op().Held
}

// hold waits for another operation, or until the group is to be committed.
func (c *gathering) hold() {
	if !c.held {
		c.held = true
		c.timer.Reset(holdTime)
	}
	select {
	case w, ok := <-c.queue.writes:
		if ok {
			c.add(w)
		} else {
			c.awaited = true
		}
	case <-c.queue.hurry:
		c.awaited = true
	case <-c.timer.C:
		c.awaited = true
	}
}
