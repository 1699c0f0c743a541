package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/form"
)

// The frames of a streamed answer repeat: each differs from the one before in a piece of text, and perhaps in its padding
// or its number. A part of such an answer is kept as steps, of which the most frequent says what stands in the holes of
// many frames of one form, hole by hole. That is a tenth of the bytes, and what then has to be compressed is mostly text.
const (
	stepBytes  = 0 // length, bytes: as they stand
	stepForm   = 1 // length of the frame that ends here, number of holes, for each: bytes from the last one on, and in it
	stepFrames = 2 // number of frames of the form, for each hole: how many bytes each frame has in it, and these bytes
)

// maxFrames is how many bytes the steps of one part may stand for. A part has no more than responsePart.
const maxFrames = 1 << 20

// frameList is a part of an event stream taken apart.
type frameList struct {
	routine form.Routine
	forms   []frameForm
	runs    []frameRun
	formed  []codec.Span // the holes of the forms, one form's behind the other's, in the part
	holes   []codec.Span // the holes of the frames that have a form, one frame's behind the other's, in the part
	spans   []codec.Span // memory of fresh
}

// frameForm is a frame of the part that others are like.
type frameForm struct {
	start, end int
	holes      int // in formed, up to and with its own
}

// frameRun is frames of one form that stand one behind the other.
type frameRun struct {
	form       int
	start, end int
	frames     int
	holes      int // in holes, before the first of the run
}

var (
	frameLists = sync.Pool{New: func() any { return new(frameList) }}
	blankLine  = []byte("\n\n")
)

// cutFrames takes a part apart. Where lines end in another way, which is rare, nothing is found.
func cutFrames(part []byte) *frameList {
	l := frameLists.Get().(*frameList)
	for at := 0; at < len(part) && !l.routine.Worn(); {
		known := len(l.holes)
		holes, n, ok := l.routine.Match(l.holes, part[at:])
		if l.holes = holes; ok {
			shift(holes[known:], at)
			l.add(at, n, known)
			l.routine.Used()
			at += n
			continue
		}
		end := bytes.Index(part[at:], blankLine)
		if end < 0 {
			break
		}
		end += at + len(blankLine)
		if l.routine.Learn(part[at:end]) {
			known := len(l.formed)
			l.formed = l.routine.Holes(l.formed)
			shift(l.formed[known:], at)
			l.forms = append(l.forms, frameForm{at, end, len(l.formed)})
		}
		at = end
	}
	return l
}

// release gives the list back, if there is one. It must not be used afterwards.
func (l *frameList) release() {
	if l == nil {
		return
	}
	*l = frameList{
		routine: l.routine.Emptied(), forms: l.forms[:0], runs: l.runs[:0],
		formed: l.formed[:0], holes: l.holes[:0], spans: l.spans[:0],
	}
	frameLists.Put(l)
}

func shift(spans []codec.Span, by int) {
	for i := range spans {
		spans[i].Start += by
		spans[i].End += by
	}
}

// add takes in a frame of the newest form.
func (l *frameList) add(start, length, holes int) {
	newest := len(l.forms) - 1
	if last := len(l.runs) - 1; last >= 0 && l.runs[last].end == start && l.runs[last].form == newest {
		l.runs[last].end += length
		l.runs[last].frames++
		return
	}
	l.runs = append(l.runs, frameRun{newest, start, start + length, 1, holes})
}

// holesOf are the holes of a form, in the part.
func (l *frameList) holesOf(form int) []codec.Span {
	from := 0
	if form > 0 {
		from = l.forms[form-1].holes
	}
	return l.formed[from:l.forms[form].holes]
}

// holesIn are the holes of a run's frames, in the part.
func (l *frameList) holesIn(r *frameRun) []codec.Span {
	return l.holes[r.holes : r.holes+r.frames*len(l.holesOf(r.form))]
}

// fresh is what repeats nothing: stretches that are no frames of a form, and what such frames have in their holes. It is
// valid until the list is released.
func (l *frameList) fresh(part []byte) []codec.Span {
	at, list := 0, l.spans[:0]
	for i := range l.runs {
		r := &l.runs[i]
		if at < r.start {
			list = append(list, codec.Span{Start: at, End: r.start})
		}
		list = append(list, l.holesIn(r)...)
		at = r.end
	}
	if at < len(part) {
		list = append(list, codec.Span{Start: at, End: len(part)})
	}
	l.spans = list
	return list
}

// encodeAnswer encodes a part of an answer, which has been taken apart unless frames is nil.
func encodeAnswer(part []byte, frames *frameList) []byte {
	if frames == nil && (len(part) < compressFrom || part[0] == '{') { // small, or no event stream
		return encodeBytes(part)
	}
	if frames == nil {
		frames = cutFrames(part)
		defer frames.release()
	}
	if len(frames.runs) == 0 || len(part) > maxFrames {
		return encodeBytes(part)
	}
	buffer := getBuffer(len(part))
	steps := frames.appendSteps(buffer, part)
	encoded := appendEncoded([]byte{encodingFrames}, steps)
	putBuffer(buffer)
	return encoded
}

// appendSteps appends the steps that the part is made of, behind how many bytes it has.
func (l *frameList) appendSteps(dst, part []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	at, known := 0, -1
	for i := range l.runs {
		r := &l.runs[i]
		holes := l.holesOf(r.form)
		if r.form != known {
			f := &l.forms[r.form]
			dst = appendStretch(dst, part[at:f.end])
			dst = appendForm(dst, f, holes)
			at, known = f.end, r.form
		}
		dst = appendStretch(dst, part[at:r.start])
		dst = appendRun(dst, part, l.holesIn(r), len(holes), r.frames)
		at = r.end
	}
	return appendStretch(dst, part[at:])
}

func appendStretch(dst, stretch []byte) []byte {
	if len(stretch) == 0 {
		return dst
	}
	dst = binary.AppendUvarint(append(dst, stepBytes), uint64(len(stretch)))
	return append(dst, stretch...)
}

func appendForm(dst []byte, f *frameForm, holes []codec.Span) []byte {
	dst = binary.AppendUvarint(append(dst, stepForm), uint64(f.end-f.start))
	dst = binary.AppendUvarint(dst, uint64(len(holes)))
	from := f.start
	for _, hole := range holes {
		dst = binary.AppendUvarint(dst, uint64(hole.Start-from))
		dst = binary.AppendUvarint(dst, uint64(hole.End-hole.Start))
		from = hole.End
	}
	return dst
}

func appendRun(dst, part []byte, spans []codec.Span, holes, frames int) []byte {
	dst = binary.AppendUvarint(append(dst, stepFrames), uint64(frames))
	for hole := range holes {
		for i := hole; i < len(spans); i += holes {
			dst = binary.AppendUvarint(dst, uint64(spans[i].End-spans[i].Start))
		}
		for i := hole; i < len(spans); i += holes {
			dst = append(dst, spans[i].Of(part)...)
		}
	}
	return dst
}

var errFrames = errors.New("malformed list of frames")

// appendFrames appends the part that encoded steps stand for.
func appendFrames(dst, encoded []byte) ([]byte, error) {
	if len(encoded) > 0 && encoded[0] == encodingFrames {
		return dst, errFrames
	}
	buffer := getBuffer(0)
	steps, err := appendDecoded(buffer, encoded)
	defer func() { putBuffer(steps) }()
	if err != nil {
		return dst, err
	}
	r := frameReader{rest: steps}
	size := r.number(maxFrames)
	dst = slices.Grow(dst, size)
	r.part = dst[len(dst) : len(dst) : len(dst)+size]
	for len(r.rest) > 0 && !r.damaged {
		r.step()
	}
	if r.damaged || len(r.part) != size {
		return dst, errFrames
	}
	return dst[:len(dst)+size], nil
}

// frameReader reads steps. What it puts together never exceeds the room it was given.
type frameReader struct {
	rest    []byte
	part    []byte   // as far as it is put together; its capacity is what it has to come to
	around  [][]byte // the stretches around the holes of the form, one more than those
	columns [form.MaxHoles]frameColumn
	damaged bool
}

// frameColumn is what frames have in one hole.
type frameColumn struct {
	lengths []byte
	bytes   []byte
}

func (r *frameReader) step() {
	kind := r.rest[0]
	r.rest = r.rest[1:]
	switch kind {
	case stepBytes:
		r.put(r.take(r.number(len(r.rest))))
	case stepForm:
		r.form()
	case stepFrames:
		r.frames()
	default:
		r.damaged = true
	}
}

// form takes the frame that ends here for a form.
func (r *frameReader) form() {
	length := r.number(len(r.part))
	frame := r.part[len(r.part)-length:]
	r.around = r.around[:0]
	for holes := r.number(form.MaxHoles); holes > 0 && !r.damaged; holes-- {
		before := r.number(len(frame))
		r.around = append(r.around, frame[:before])
		frame = frame[before:]
		frame = frame[r.number(len(frame)):]
	}
	r.around = append(r.around, frame)
}

// frames puts frames of the form together.
func (r *frameReader) frames() {
	frames := r.number(len(r.rest))
	holes := len(r.around) - 1
	if holes < 1 || r.damaged {
		r.damaged = true
		return
	}
	for i := range holes {
		r.columns[i] = r.column(frames)
	}
	for ; frames > 0 && !r.damaged; frames-- {
		for i := range holes {
			r.put(r.around[i])
			column := &r.columns[i]
			n, width := binary.Uvarint(column.lengths)
			r.put(column.bytes[:n])
			column.lengths, column.bytes = column.lengths[width:], column.bytes[n:]
		}
		r.put(r.around[holes])
	}
}

// column reads what frames have in one hole. Its lengths are those of its bytes.
func (r *frameReader) column(frames int) (c frameColumn) {
	lengths, total := r.rest, 0
	for ; frames > 0 && !r.damaged; frames-- {
		total += r.number(len(r.rest) - total)
	}
	c.lengths = lengths[:len(lengths)-len(r.rest)]
	c.bytes = r.take(total)
	return c
}

// number reads a number that is at most so much.
func (r *frameReader) number(most int) int {
	n, width := binary.Uvarint(r.rest)
	if width <= 0 || most < 0 || n > uint64(most) {
		r.damaged = true
		return 0
	}
	r.rest = r.rest[width:]
	return int(n)
}

func (r *frameReader) take(n int) []byte {
	if n > len(r.rest) {
		r.damaged = true
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *frameReader) put(b []byte) {
	if len(b) > cap(r.part)-len(r.part) {
		r.damaged = true
		return
	}
	r.part = append(r.part, b...)
}
