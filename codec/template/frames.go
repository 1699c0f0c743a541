package template

import (
	"bytes"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
)

// Frames is a part of an event stream, the stretch, split into runs of frames with the same template and what is
// between them. All positions are relative to the stretch. It stays valid as long as only the content of the runs'
// slots changes.
type Frames struct {
	Runs        []Run
	matcher     Matcher
	templates   []Sample
	ofTemplates []codec.Span // the slots of the templates, one template's after the other's
	slots       []codec.Span // the slots of the runs' frames, one frame's after the other's
}

// Sample is a frame whose template other frames match.
type Sample struct {
	Start, End int
	slots      int // in ofTemplates, up to and including its own
}

// Run is consecutive frames of one template.
type Run struct {
	Template   int // its frame precedes the run
	Start, End int
	Count      int
	slots      int // in slots, before the first of the run
}

var (
	framesPool = sync.Pool{New: func() any { return new(Frames) }}
	blankLine  = []byte("\n\n")
)

// Cut splits a stretch that begins with a frame. If lines do not end with a single line feed, which is rare, it finds
// no runs. The caller has to release the result.
func Cut(stretch []byte) *Frames {
	f := framesPool.Get().(*Frames)
	for at := 0; at < len(stretch) && !f.matcher.worn(); {
		known := len(f.slots)
		slots, n, ok := f.matcher.Match(f.slots, stretch[at:])
		if f.slots = slots; ok {
			shift(slots[known:], at)
			f.add(at, n, known)
			f.matcher.Used()
			at += n
			continue
		}
		end := bytes.Index(stretch[at:], blankLine)
		if end < 0 {
			break
		}
		end += at + len(blankLine)
		if f.matcher.Learn(stretch[at:end]) {
			known := len(f.ofTemplates)
			f.ofTemplates = f.matcher.appendSlots(f.ofTemplates)
			shift(f.ofTemplates[known:], at)
			f.templates = append(f.templates, Sample{at, end, len(f.ofTemplates)})
		}
		at = end
	}
	return f
}

// Release returns the memory to its pool, if there is any. f must not be used afterwards.
func (f *Frames) Release() {
	if f == nil {
		return
	}
	*f = Frames{
		Runs: f.Runs[:0], matcher: f.matcher.Emptied(), templates: f.templates[:0],
		ofTemplates: f.ofTemplates[:0], slots: f.slots[:0],
	}
	framesPool.Put(f)
}

func shift(spans []codec.Span, by int) {
	for i := range spans {
		spans[i].Start += by
		spans[i].End += by
	}
}

// add adds a frame of the newest template.
func (f *Frames) add(start, length, slots int) {
	newest := len(f.templates) - 1
	if last := len(f.Runs) - 1; last >= 0 && f.Runs[last].End == start && f.Runs[last].Template == newest {
		f.Runs[last].End += length
		f.Runs[last].Count++
		return
	}
	f.Runs = append(f.Runs, Run{newest, start, start + length, 1, slots})
}

// Sample returns the frame of a template, and its slots.
func (f *Frames) Sample(template int) (sample Sample, slots []codec.Span) {
	from := 0
	if template > 0 {
		from = f.templates[template-1].slots
	}
	return f.templates[template], f.ofTemplates[from:f.templates[template].slots]
}

// Slots returns the slots of a run's frames, frame by frame; each frame has as many as the template, per.
func (f *Frames) Slots(r *Run) (slots []codec.Span, per int) {
	_, of := f.Sample(r.Template)
	return f.slots[r.slots : r.slots+r.Count*len(of)], len(of)
}

// Frame returns the position of a run's i-th frame.
func (f *Frames) Frame(r *Run, i int) codec.Span {
	sample, of := f.Sample(r.Template)
	slots, per := f.Slots(r)
	lead := of[0].Start - sample.Start
	frame := codec.Span{Start: slots[i*per].Start - lead, End: r.End}
	if i+1 < r.Count {
		frame.End = slots[(i+1)*per].Start - lead
	}
	return frame
}

// Pieces visits the pieces of text in the frames of a run after its first frame, whose piece is text: a view into the
// stretch. It stops at a frame that differs in anything else that has a meaning, or that may not be JSON, and returns
// how many frames it has visited.
func (f *Frames) Pieces(stretch []byte, r *Run, text []byte, visit func(piece codec.Span)) (visited int) {
	slots, per := f.Slots(r)
	piece := -1
	first := f.Frame(r, 0)
	for i, span := range slots[:per] {
		body := span.Of(stretch)
		switch {
		case len(body) > 0 && len(body) == len(text) && &body[0] == &text[0]:
			piece = i
		case !endsWithNoise(stretch[first.Start:span.Start]):
			return 0
		}
	}
	if piece < 0 {
		return 0
	}
	for i := 1; i < r.Count; i++ {
		in := slots[i*per : (i+1)*per]
		for _, span := range in {
			s := slot{digits: stretch[span.Start-1] != '"'}
			if !s.valid(span.Of(stretch)) {
				return i - 1
			}
		}
		if in[piece].Start == in[piece].End {
			return i - 1
		}
		visit(in[piece])
	}
	return r.Count - 1
}

// endsWithNoise reports whether the value of a member without meaning follows.
func endsWithNoise(before []byte) bool {
	for i := range noise {
		if bytes.HasSuffix(before, noise[i].member) {
			return true
		}
	}
	return false
}
