package cluster

import (
	"time"

	"github.com/mnemeproxy/mneme/store/ship"
)

const (
	partialBytes   = 512 << 20       // of all edges together; the largest exchange has 128 MiB
	partialSilence = 5 * time.Minute // without another part, after which a frame is dropped
)

// partials are incomplete frames, at most one for each log. The brokers keep their parts meanwhile. A dropped frame is
// shipped again by its edge, which notices that it has not arrived. Nobody waits for the frame of an edge that is gone
// for good.
type partials struct {
	now  func() time.Time
	logs map[ship.LogID]*partial
}

type partial struct {
	ship.Joiner
	began uint64    // stream sequence of its first part
	heard time.Time // when its last part was read
}

func newPartials(now func() time.Time) partials {
	return partials{now, make(map[ship.LogID]*partial)}
}

// add adds a part, which is the message of the stream with that sequence, and returns the frame that it completes, or
// nil. It ignores a part whose frame was dropped or has not begun.
func (ps *partials) add(p *ship.Packet, message uint64) (*ship.Frame, error) {
	at := ps.logs[p.Log]
	if at == nil || p.Part == 0 {
		at = &partial{began: message}
		ps.logs[p.Log] = at
	}
	at.heard = ps.now()
	f, err := at.Add(p)
	if at.Held() == 0 {
		delete(ps.logs, p.Log)
	}
	ps.bound(p.Log)
	return f, err
}

// bound drops frames of other logs while too much is held, and this log's last.
func (ps *partials) bound(of ship.LogID) {
	held := 0
	for _, at := range ps.logs {
		held += at.Held()
	}
	for log, at := range ps.logs {
		if held > partialBytes && log != of {
			held -= at.Held()
			delete(ps.logs, log)
		}
	}
	if held > partialBytes {
		delete(ps.logs, of)
	}
}

// giveUp drops the frames that have not had another part for too long.
func (ps *partials) giveUp() {
	for log, at := range ps.logs {
		if ps.now().Sub(at.heard) > partialSilence {
			delete(ps.logs, log)
		}
	}
}

// freed returns up to which message, at most upTo, the brokers may free.
func (ps *partials) freed(upTo uint64) uint64 {
	for _, at := range ps.logs {
		upTo = min(upTo, at.began-1)
	}
	return upTo
}
