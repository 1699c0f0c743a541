package store

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/form"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
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

// encodeAnswer encodes a part of an answer, which has been taken apart unless frames is nil.
func encodeAnswer(part []byte, frames *form.Frames) []byte {
	if frames == nil && (len(part) < compressFrom || part[0] == '{') { // small, or no event stream
		return encodeBytes(part)
	}
	if frames == nil {
		frames = form.Cut(part)
		defer frames.Release()
	}
	if len(frames.Runs) == 0 || len(part) > maxFrames {
		return encodeBytes(part)
	}
	room := buffer.Get(len(part))
	steps := appendSteps(room, part, frames)
	encoded := appendEncoded([]byte{encodingFrames}, steps)
	buffer.Put(room)
	return encoded
}

// appendSteps appends the steps that the part is made of, behind how many bytes it has.
func appendSteps(dst, part []byte, frames *form.Frames) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	at, known := 0, -1
	for i := range frames.Runs {
		r := &frames.Runs[i]
		if r.Form != known {
			sample, holes := frames.Sample(r.Form)
			dst = appendStretch(dst, part[at:sample.End])
			dst = appendForm(dst, sample, holes)
			at, known = sample.End, r.Form
		}
		dst = appendStretch(dst, part[at:r.Start])
		holes, per := frames.Holes(r)
		dst = appendRun(dst, part, holes, per)
		at = r.End
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

func appendForm(dst []byte, sample form.Sample, holes []codec.Span) []byte {
	dst = binary.AppendUvarint(append(dst, stepForm), uint64(sample.End-sample.Start))
	dst = binary.AppendUvarint(dst, uint64(len(holes)))
	from := sample.Start
	for _, hole := range holes {
		dst = binary.AppendUvarint(dst, uint64(hole.Start-from))
		dst = binary.AppendUvarint(dst, uint64(hole.End-hole.Start))
		from = hole.End
	}
	return dst
}

// appendRun appends what frames have in their holes, of which each frame has as many as per says.
func appendRun(dst, part []byte, holes []codec.Span, per int) []byte {
	dst = binary.AppendUvarint(append(dst, stepFrames), uint64(len(holes)/per))
	for first := range per {
		for i := first; i < len(holes); i += per {
			dst = binary.AppendUvarint(dst, uint64(holes[i].End-holes[i].Start))
		}
		for i := first; i < len(holes); i += per {
			dst = append(dst, holes[i].Of(part)...)
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
	steps, err := appendDecoded(buffer.Get(0), encoded)
	defer func() { buffer.Put(steps) }()
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
