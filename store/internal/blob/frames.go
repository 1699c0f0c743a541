package blob

import (
	"encoding/binary"
	"errors"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
)

// The frames of a streamed answer are repetitive: each differs from the previous one in a piece of text, and perhaps in
// its padding or its number. A part of such an answer is stored as steps. The most frequent step has the slot contents
// of many frames of one template, slot by slot. That takes a tenth of the bytes, and what remains to compress is mostly
// text.
const (
	stepBytes    = 0 // length, bytes: literal
	stepTemplate = 1 // length of the frame that ends here, number of slots; for each: bytes since the last one, and in it
	stepFrames   = 2 // number of frames of the template; for each slot: the length in each frame, and the bytes
)

// maxFrames is how many bytes the steps of one part may stand for. The store's parts have at most 256 KiB.
const maxFrames = 1 << 20

// EncodeAnswer encodes a part of an answer, which has been separated into frames unless frames is nil.
func EncodeAnswer(part []byte, frames *template.Frames) []byte {
	encoded, steps := EncodeAnswerSteps(part, frames)
	buffer.Put(steps)
	return encoded
}

// EncodeAnswerSteps is EncodeAnswer, and returns the steps of which the part consists, as [AppendStored] would; nil if
// it is not stored as steps. Both results may be put into the buffer pool.
func EncodeAnswerSteps(part []byte, frames *template.Frames) (encoded, steps []byte) {
	switch {
	case frames != nil:
	case len(part) < compressFrom:
		return encodeSmall(part), nil
	case part[0] == '{': // not an event stream
		return Encode(part), nil
	}
	if frames == nil {
		frames = template.Cut(part)
		defer frames.Release()
	}
	if len(frames.Runs) == 0 || len(part) > maxFrames {
		return Encode(part), nil
	}
	room := appendSteps(buffer.Get(len(part)), part, frames)
	encoded = AppendEncoded(append(buffer.Get(roomToEncode(len(room))+1), EncodingFrames), room)
	steps = append(buffer.Get(len(room)), room...) // a buffer of their own size, because they may be held
	buffer.Put(room)
	return encoded, steps
}

// appendSteps appends the steps of the part, after its length.
func appendSteps(dst, part []byte, frames *template.Frames) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(part)))
	at, known := 0, -1
	for i := range frames.Runs {
		r := &frames.Runs[i]
		if r.Template != known {
			sample, slots := frames.Sample(r.Template)
			dst = appendStretch(dst, part[at:sample.End])
			dst = appendTemplate(dst, sample, slots)
			at, known = sample.End, r.Template
		}
		dst = appendStretch(dst, part[at:r.Start])
		slots, per := frames.Slots(r)
		dst = appendRun(dst, part, slots, per)
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

func appendTemplate(dst []byte, sample template.Sample, slots []codec.Span) []byte {
	dst = binary.AppendUvarint(append(dst, stepTemplate), uint64(sample.End-sample.Start))
	dst = binary.AppendUvarint(dst, uint64(len(slots)))
	from := sample.Start
	for _, slot := range slots {
		dst = binary.AppendUvarint(dst, uint64(slot.Start-from))
		dst = binary.AppendUvarint(dst, uint64(slot.End-slot.Start))
		from = slot.End
	}
	return dst
}

// appendRun appends the slot contents of frames, with per slots in each frame.
func appendRun(dst, part []byte, slots []codec.Span, per int) []byte {
	dst = binary.AppendUvarint(append(dst, stepFrames), uint64(len(slots)/per))
	for first := range per {
		for i := first; i < len(slots); i += per {
			dst = binary.AppendUvarint(dst, uint64(slots[i].End-slots[i].Start))
		}
		for i := first; i < len(slots); i += per {
			dst = append(dst, slots[i].Of(part)...)
		}
	}
	return dst
}

var errFrames = errors.New("malformed list of frames")

// appendFrames appends the part that encoded steps stand for.
func appendFrames(dst, encoded []byte) ([]byte, error) {
	if len(encoded) > 0 && encoded[0] == EncodingFrames {
		return dst, errFrames
	}
	steps, err := AppendDecoded(buffer.Get(0), encoded)
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

// frameReader reads steps. Its output never exceeds the given size.
type frameReader struct {
	rest    []byte
	part    []byte   // as far as it is assembled; its capacity is the final size
	around  [][]byte // the text around the slots of the template, one more than slots
	columns [template.MaxSlots]frameColumn
	damaged bool
}

// frameColumn is the contents of one slot in all frames.
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
	case stepTemplate:
		r.template()
	case stepFrames:
		r.frames()
	default:
		r.damaged = true
	}
}

// template uses the frame that ends here as a template.
func (r *frameReader) template() {
	length := r.number(len(r.part))
	frame := r.part[len(r.part)-length:]
	r.around = r.around[:0]
	for slots := r.number(template.MaxSlots); slots > 0 && !r.damaged; slots-- {
		before := r.number(len(frame))
		r.around = append(r.around, frame[:before])
		frame = frame[before:]
		frame = frame[r.number(len(frame)):]
	}
	r.around = append(r.around, frame)
}

// frames assembles frames of the template.
func (r *frameReader) frames() {
	frames := r.number(len(r.rest))
	slots := len(r.around) - 1
	if slots < 1 || r.damaged {
		r.damaged = true
		return
	}
	for i := range slots {
		r.columns[i] = r.column(frames)
	}
	for ; frames > 0 && !r.damaged; frames-- {
		for i := range slots {
			r.put(r.around[i])
			column := &r.columns[i]
			n, width := binary.Uvarint(column.lengths)
			r.put(column.bytes[:n])
			column.lengths, column.bytes = column.lengths[width:], column.bytes[n:]
		}
		r.put(r.around[slots])
	}
}

// column reads the contents of one slot. Its lengths add up to its bytes.
func (r *frameReader) column(frames int) (c frameColumn) {
	lengths, total := r.rest, 0
	for ; frames > 0 && !r.damaged; frames-- {
		total += r.number(len(r.rest) - total)
	}
	c.lengths = lengths[:len(lengths)-len(r.rest)]
	c.bytes = r.take(total)
	return c
}

// number reads a number of at most most.
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
