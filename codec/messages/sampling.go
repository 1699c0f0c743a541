package messages

import "strconv"

// minThinkingTopP is the least top_p that providers accept while the model thinks (docs/wire/translation.md#2.2).
const minThinkingTopP = 0.95

// sampling writes temperature, top_p and top_k as far as the model accepts them: none on newer models, not temperature
// and top_p together, and almost none while it thinks (P55). What it refuses is dropped and noted.
func (e *requestEncoder) sampling() {
	r, thinks := e.r, e.thinks()
	temperature, topP, topK := r.Temperature, r.TopP, r.TopK
	if !e.t.Sampling {
		e.refuse("temperature", &temperature)
		e.refuse("top_p", &topP)
		e.refuse("top_k", &topK)
	}
	if value, ok := floatOf(temperature); ok {
		switch {
		case thinks && value != 1:
			e.refuse("temperature", &temperature)
		case value > 1:
			e.r.Notes.Drop("temperature") // OpenAI's scale ends at 2, this one at 1
			temperature = temperatureMax
		}
	}
	if value, ok := floatOf(topP); ok && (temperature != nil || thinks && value < minThinkingTopP) {
		e.refuse("top_p", &topP)
	}
	if thinks {
		e.refuse("top_k", &topK)
	}
	e.number("temperature", temperature)
	e.number("top_p", topP)
	e.number("top_k", topK)
}

var temperatureMax = []byte("1")

// refuse drops a member, and notes it if it was set.
func (e *requestEncoder) refuse(name string, value *[]byte) {
	if *value != nil {
		e.r.Notes.Drop(name)
	}
	*value = nil
}

func (e *requestEncoder) number(name string, value []byte) {
	if value != nil {
		e.member(name)
		e.bytes(value)
	}
}

func floatOf(number []byte) (value float64, ok bool) {
	if number == nil {
		return 0, false
	}
	value, err := strconv.ParseFloat(string(number), 64)
	return value, err == nil
}
