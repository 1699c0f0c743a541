package recording

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec/template"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// mask masks an answer on its way to the store. Bytes in the capture's buffer can still be masked; bytes
// handed to the writer are final.
type mask struct {
	streamOf func(surface string) record.StreamReader // may be nil
	redactor *redact.Redactor
	surface  string
	begun    bool
	stream   *redact.Stream // nil: the answer is not an event stream
	events   record.StreamReader
	offset   int64 // offset of the buffer in the answer
	whole    int64 // offset of the end of the last event that events has read
	found    redact.Tally
}

// newMask returns nil if nothing is masked.
func (r *Recorder) newMask(surface string, redactor *redact.Redactor) *mask {
	if redactor == nil {
		return nil
	}
	return &mask{streamOf: r.Stream, redactor: redactor, surface: surface}
}

// MaskWhole masks a whole answer in place, and returns what it has found.
func (r *Recorder) MaskWhole(surface string, redactor *redact.Redactor, answer []byte) redact.Tally {
	m := r.newMask(surface, redactor)
	_, frames := m.settle(answer, true)
	frames.Release()
	return m.found
}

// settle masks the part of the answer in the buffer, and returns how many of its bytes are final: all if final is set,
// else at least one. The rest must be at the front of the next buffer. The final part of an event stream is also
// returned as frames, which the caller releases.
func (a *mask) settle(buffer []byte, final bool) (settled int, frames *template.Frames) {
	if !a.begun && len(buffer) > 0 {
		a.begin(buffer)
	}
	if a.stream != nil {
		return a.settleStream(buffer, final)
	}
	settled = len(buffer)
	if !final {
		settled = enough(a.redactor.Settled(buffer), buffer)
	}
	a.found.Add(a.redactor.Mask(buffer[:settled]))
	a.offset += int64(settled)
	return settled, nil
}

// enough returns how many bytes of a buffer are final, or all of it if that is less than half: it does not wait for one
// long event or credential.
func enough(settled int, buffer []byte) int {
	if settled < len(buffer)/2 {
		return len(buffer)
	}
	return settled
}

// begin recognizes an event stream by its first byte: every other answer is a JSON object.
func (a *mask) begin(buffer []byte) {
	a.begun = true
	if first := bytes.TrimLeft(buffer, " \t\r\n"); len(first) > 0 && first[0] != '{' && a.streamOf != nil {
		a.stream, a.events = a.redactor.NewStream(), a.streamOf(a.surface)
	}
}

// settleStream is settle for an event stream, in which credentials spread over events are masked too.
func (a *mask) settleStream(buffer []byte, final bool) (settled int, frames *template.Frames) {
	frames = template.Cut(buffer)
	masked := false
	settled = a.settleTexts(buffer, frames, final, func(name string, start, end int64, first bool) {
		if start -= a.offset; start < 0 {
			return // of an event that was too long to wait for
		}
		masked = true
		redact.Mask(buffer, []redact.Match{{Start: int(start), End: int(end - a.offset), Name: name}})
		if first {
			a.found.Join(redact.Tally{name: 1})
		}
	})
	part := buffer[:settled]
	if masked || settled < len(buffer) {
		frames = recut(frames, part)
	}
	if found := a.redactor.MaskFresh(part, frames); len(found) > 0 {
		a.found.Add(found)
		frames = recut(frames, part)
	}
	a.offset += int64(settled)
	if final {
		a.stream.Release()
		a.stream = nil
	}
	return settled, frames
}

// recut splits a changed part again.
func recut(frames *template.Frames, part []byte) *template.Frames {
	frames.Release()
	return template.Cut(part)
}

// settleTexts follows the texts that continue over events, and returns how many bytes of the buffer are final.
func (a *mask) settleTexts(buffer []byte, frames *template.Frames, final bool, mask func(name string, start, end int64, first bool)) int {
	a.whole = a.events.Read(buffer, a.offset, frames, a.stream.Add)
	if final {
		a.stream.Settle(true, a.whole, mask)
		return len(buffer)
	}
	open := a.stream.Settle(false, a.whole, mask)
	if int(open-a.offset) < len(buffer)/2 {
		open = a.stream.Settle(true, a.whole, mask)
	}
	return enough(int(open-a.offset), buffer)
}

// reader returns the reader of the answer, if the answer is stored as it was read.
func (a *mask) reader() record.StreamReader {
	if a == nil || a.masked() {
		return nil
	}
	return a.events
}

// masked reports whether something was masked.
func (a *mask) masked() bool { return a != nil && len(a.found) > 0 }

// redactClosing masks a closing, except for the answer. What its fields refer to stays as it is.
func (a *mask) redactClosing(c *record.Closing) {
	for _, text := range []*string{&c.ModelServed, &c.ResponseID, &c.ProviderReqID, &c.ContentType} {
		record.RedactText(a.redactor, text, &a.found)
	}
	if c.Error != nil {
		e := *c.Error
		for _, text := range []*string{&e.Message, &e.Code, &e.Param} {
			record.RedactText(a.redactor, text, &a.found)
		}
		c.Error = &e
	}
	c.Attempts = record.RedactAttempts(a.redactor, c.Attempts, &a.found)
	if c.StandIn != nil {
		s := *c.StandIn
		record.RedactText(a.redactor, &s.ModelSent, &a.found)
		c.StandIn = &s
	}
}

// redactions adds what was masked in the answer to the opening's list.
func (a *mask) redactions(opening []record.Redaction) []record.Redaction {
	if len(a.found) == 0 {
		return opening
	}
	request, _ := record.Tallies(opening)
	return record.Redactions(request, a.found)
}
