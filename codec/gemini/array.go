package gemini

import "bytes"

// Array turns the events of a stream into the elements of one JSON array, as they come: the form of a stream without
// alt=sse. Without a form, events stay what they are.
type Array struct {
	begun bool
	out   []byte
}

// Of returns whole events as elements, with the end of the array behind the last. It is valid until the next call.
func (a *Array) Of(events []byte, last bool) []byte {
	if a == nil {
		return events
	}
	a.out = a.out[:0]
	for line := range bytes.Lines(events) {
		if element, isData := bytes.CutPrefix(line, []byte("data:")); isData {
			a.separate()
			a.out = append(a.out, bytes.TrimSpace(element)...)
		}
	}
	if last {
		if !a.begun {
			a.separate()
		}
		a.out = append(a.out, ']')
	}
	return a.out
}

func (a *Array) separate() {
	if a.begun {
		a.out = append(a.out, ",\r\n"...)
		return
	}
	a.begun = true
	a.out = append(a.out, '[')
}
