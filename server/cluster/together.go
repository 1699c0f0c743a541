package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// Consecutive frames of a log are taken as one, since a transaction of the archive costs about the same whatever its
// size: busy edges, and edges that were cut off, ship many small frames.
const (
	togetherEntries = 256
	togetherBytes   = 8 << 20
	togetherWait    = 50 * time.Millisecond // for a message that the brokers have announced

	// GatherEach is how long frames wait at most for others after some were taken. An exchange that arrives alone does not wait.
	GatherEach = time.Second
)

// together collects frames that are taken together.
type together struct {
	frames  []*ship.Frame // in order of arrival
	entries int
	bytes   int
}

func (w *together) add(f *ship.Frame) {
	w.frames = append(w.frames, f)
	w.entries += len(f.Entries)
	for i := range f.Entries {
		w.bytes += f.Entries[i].Size()
	}
}

func (w *together) full() bool { return w.entries >= togetherEntries || w.bytes >= togetherBytes }

// runs groups the frames by log, into runs of consecutive frames.
func (w *together) runs() (runs [][]*ship.Frame) {
	last := make(map[ship.LogID]int) // the run that a log's next frame may extend
	for _, f := range w.frames {
		at, begun := last[f.Log]
		if begun && follows(runs[at][len(runs[at])-1], f) {
			runs[at] = append(runs[at], f)
			continue
		}
		last[f.Log] = len(runs)
		runs = append(runs, []*ship.Frame{f})
	}
	return runs
}

func follows(before, f *ship.Frame) bool { return f.After == before.Last && f.Node == before.Node }

// joined joins a run into one frame.
func joined(run []*ship.Frame) *ship.Frame {
	end := run[len(run)-1]
	f := &ship.Frame{Node: end.Node, Log: end.Log, After: run[0].After, Last: end.Last, Tail: end.Tail, Whole: true}
	for _, part := range run {
		f.Whole = f.Whole && part.Whole
		f.Entries = append(f.Entries, part.Entries...)
	}
	return f
}

// takeTogether takes the waiting frames. After an error, the brokers must keep all of them.
func (c *Centre) takeTogether(ctx context.Context) error {
	waiting := c.waiting
	c.waiting = together{}
	runs := waiting.runs()
	// Centres that share an archive take the logs in different orders, and so rarely wait for each other.
	slices.SortStableFunc(runs, func(a, b []*ship.Frame) int { return cmp.Compare(a[0].Log[0]^c.order, b[0].Log[0]^c.order) })
	for _, run := range runs {
		if err := c.takeRun(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// takeRun takes consecutive frames of a log. What other processes take meanwhile is left out, and the rest is tried
// together again: a transaction for each frame would cost a multiple.
func (c *Centre) takeRun(ctx context.Context, run []*ship.Frame) error {
	for before, tried := uint64(0), false; ; tried = true {
		at, err := c.archive.Mark(run[0].Log)
		if err != nil {
			return err
		}
		mark := at.Mark
		run = slices.DeleteFunc(run, func(f *ship.Frame) bool { return f.Last <= mark })
		if len(run) == 0 || run[0].After != mark || tried && mark == before {
			return nil // all are taken, or an earlier frame is missing
		}
		before = mark
		if len(run) == 1 {
			return c.take(ctx, run[0])
		}
		taken, err := c.tryTake(ctx, joined(run), len(run))
		if errors.Is(err, shipped.ErrIncomplete) {
			err = c.take(ctx, run[0])
		}
		if err != nil || taken {
			return err
		}
	}
}
