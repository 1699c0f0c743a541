package cluster

import (
	"time"

	"github.com/mnemeproxy/mneme/store/ship"
)

const (
	partialBytes   = 512 << 20       // of all edges together; the largest exchange has 128 MiB
	partialSilence = 5 * time.Minute // without another part, after which a frame is given up
)

// partials are frames of which parts have come, one of each log. The brokers keep their parts meanwhile. What is given up is
// shipped again by its edge, which finds that it has not arrived; an edge that is gone for good has nobody wait for it.
type partials struct {
	now  func() time.Time
	logs map[ship.LogID]*partial
}

type partial struct {
	ship.Joiner
	began uint64    // message of the stream with its first part
	heard time.Time // when its last part was read
}

func newPartials(now func() time.Time) partials {
	return partials{now, make(map[ship.LogID]*partial)}
}

// add takes a part, which is a message of the stream, and gives the frame that is whole with it; nil: none is. A part whose
// frame was given up, or has not begun, is left out.
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

// bound gives up frames of others while too much is held, and then this one.
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

// giveUp drops the frames for which nothing has come for too long.
func (ps *partials) giveUp() {
	for log, at := range ps.logs {
		if ps.now().Sub(at.heard) > partialSilence {
			delete(ps.logs, log)
		}
	}
}

// freed is up to which message the brokers need to keep nothing for these frames, of those up to one.
func (ps *partials) freed(upTo uint64) uint64 {
	for _, at := range ps.logs {
		upTo = min(upTo, at.began-1)
	}
	return upTo
}
