package embeddings

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// Plan is how a request is executed: which inputs go upstream together, and the required vectors.
type Plan struct {
	Batches []Batch

	request *Request
	model   Model
	dialect Dialect
	size    int // of the client's vectors; 0 until the first answer
	native  int // of the host's vectors; 0 until the first answer
	ask     int // size requested from the host; 0 if none is

	vectors [][]float32 // by input; nil until answered
	usage   codec.Usage

	numbers []float32 // scratch: the vector that is being read
	bytes   []byte    // scratch: its bytes
}

// Batch is a range of inputs that goes upstream as one request.
type Batch struct{ From, To int }

// NewPlan checks the request against what is known about the model and the host, and splits it by their limits. A size
// that the model does not have, and tokens where text is needed, are a *[codec.Error].
func NewPlan(r *Request, m Model, d Dialect) (*Plan, error) {
	p := &Plan{request: r, model: m, dialect: d}
	if err := p.checkTokens(); err != nil {
		return nil, err
	}
	if err := p.settleSize(); err != nil {
		return nil, err
	}
	p.split()
	p.vectors = make([][]float32, len(r.Inputs))
	p.note()
	return p, nil
}

// Usage returns the sum over all answers. It is complete once all batches have been answered.
func (p *Plan) Usage() codec.Usage { return p.usage }

// Vectors returns the vectors in the order of the inputs; nil for an input without an answer.
func (p *Plan) Vectors() [][]float32 { return p.vectors }

// Dimensions returns the size of the vectors, 0 while it is unknown.
func (p *Plan) Dimensions() int { return p.size }

// checkTokens refuses token ids for other models: they belong to one model's tokenizer.
func (p *Plan) checkTokens() error {
	if p.dialect.Tokens && (p.model.Tokens || !p.model.known()) {
		return nil
	}
	for i := range p.request.Inputs {
		if p.request.Inputs[i].Tokens != nil {
			return codec.Invalid("input", "%s takes text only: send strings, not tokens", p.request.Model)
		}
	}
	return nil
}

// settleSize decides which size to request and which must come back.
func (p *Plan) settleSize() error {
	m, asked := &p.model, p.request.Dimensions
	own := m.Native
	if own == 0 {
		own = m.Default
	}
	switch {
	case asked == 0 && m.Default > 0 && m.Default < own && p.canCut():
		p.size, p.native = m.Default, own
		return nil
	case asked == 0:
		return nil // the model's own default, whatever our data say about it
	case m.known() && !m.legal(asked):
		return codec.Invalid("dimensions", "%s has no vectors of %d dimensions; legal: %s", p.request.Model, asked, m.sizes())
	}
	p.size, p.native = asked, asked
	switch {
	case m.fixed(): // the only legal size is the default
	case p.asksSize():
		p.ask = asked
	case asked == m.Default:
	case p.canCut() && asked <= own:
		p.native = own
	default:
		return codec.Invalid("dimensions", "the host of %s cannot be asked for a size; leave dimensions out", p.request.Model)
	}
	return nil
}

func (p *Plan) asksSize() bool {
	return p.dialect.Batch || p.dialect.DimensionsMember != ""
}

// canCut reports whether vectors are truncated here: only if configured.
func (p *Plan) canCut() bool {
	return p.model.Truncate && p.model.Matryoshka && !p.asksSize()
}

func (m *Model) legal(size int) bool {
	if m.fixed() {
		return size == m.Default
	}
	return slices.Contains(m.Sizes, size) || m.Max > 0 && m.Min <= size && size <= m.Max
}

// sizes lists the legal sizes in words.
func (m *Model) sizes() string {
	switch {
	case m.fixed():
		return strconv.Itoa(m.Default) + " only"
	case m.Max > 0:
		return "any from " + strconv.Itoa(max(m.Min, 1)) + " to " + strconv.Itoa(m.Max)
	}
	words := make([]string, len(m.Sizes))
	for i, size := range m.Sizes {
		words[i] = strconv.Itoa(size)
	}
	return strings.Join(words, ", ")
}

// split fills batches in the order of the inputs. An input over the limit goes alone: the host may count less than the
// estimate, or explain the problem.
func (p *Plan) split() {
	inputs := lowest(p.model.MaxInputs, p.dialect.MaxInputs)
	tokens := lowest(p.model.MaxTokens, p.dialect.MaxTokens)
	from, sum := 0, 0
	for i := range p.request.Inputs {
		n := p.request.Inputs[i].estimate()
		if i > from && (i-from >= inputs || sum > tokens-n) {
			p.Batches = append(p.Batches, Batch{from, i})
			from, sum = i, 0
		}
		sum += n
	}
	p.Batches = append(p.Batches, Batch{from, len(p.request.Inputs)})
}

// lowest returns the lower of two limits; 0 means none.
func lowest(a, b int) int {
	const none = 1 << 40
	if a == 0 {
		a = none
	}
	if b == 0 {
		b = none
	}
	return min(a, b)
}

func (p *Plan) note() {
	notes := &p.request.Notes
	if p.request.User != nil && (!p.dialect.User || p.dialect.Batch) {
		notes.Drop("user")
	}
	if p.request.InputType != nil && p.dialect.InputTypeMember == "" && !p.dialect.Batch {
		notes.Drop("input_type")
	}
	if p.request.Task != nil && p.request.InputType == nil && !p.dialect.Batch {
		notes.Drop("taskType")
	}
	if p.request.Base64 && !p.asksBase64() {
		notes.Emulate("encoding_format")
	}
	if p.native > p.size {
		notes.Emulate("dimensions")
	}
}

func (p *Plan) asksBase64() bool {
	return p.request.Base64 && p.dialect.EncodingFormat && !p.dialect.Batch
}
