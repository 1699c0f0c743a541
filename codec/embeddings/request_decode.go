package embeddings

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

const (
	// MaxInputs is how many inputs a client may send in one request: the limit of the surface.
	MaxInputs = 2048
	// maxDimensions is larger than any model's vectors; it bounds hostile sizes.
	maxDimensions = 1 << 16
)

// Request is a client's request. Its slices are views into the body, valid as long as that.
type Request struct {
	Model      string
	Inputs     []Input
	Dimensions int    // 0 if the client named none
	Base64     bool   // the client wants base64, not numbers
	User       []byte // string body; nil if absent
	InputType  []byte // string body: "query" or "document", for retrieval hosts; nil if absent
	Task       []byte // string body: the purpose in the words of Google, of its own clients; nil if absent

	Notes codec.Notes // what the host has no member for
}

// Input is one text, or tokens of the model's own tokenizer, to embed.
type Input struct {
	Text   []byte // string body
	Tokens []byte // raw array of numbers; nil for text
	Count  int    // of Tokens
}

// Decode reads a request from a body of valid JSON. Its error is a *[codec.Error] that names the member. Unknown
// members are ignored.
func Decode(body []byte) (*Request, error) {
	if !scan.IsObject(body) {
		return nil, codec.Invalid("", "the body has to be a JSON object with the members model and input")
	}
	r := &Request{}
	var input []byte
	for m := scan.Object(body); m.Next(); {
		if err := r.member(string(m.Key), m.Value, &input); err != nil {
			return nil, err
		}
	}
	if r.Model == "" {
		return nil, codec.Invalid("model", "model is missing: name the model that is to make the vectors")
	}
	if err := r.readInput(input); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Request) member(name string, value []byte, input *[]byte) error {
	if scan.IsNull(value) {
		return nil
	}
	switch name {
	case "model":
		if !scan.IsString(value) {
			return codec.Invalid("model", "model has to be a string")
		}
		r.Model = scan.String(value)
	case "input":
		*input = value
	case "dimensions":
		n, ok := scan.Int(value)
		if !ok || n < 1 || n > maxDimensions {
			return codec.Invalid("dimensions", "dimensions has to be a whole number from 1 to %d", maxDimensions)
		}
		r.Dimensions = int(n)
	case "encoding_format":
		switch string(value) {
		case `"float"`:
			r.Base64 = false
		case `"base64"`:
			r.Base64 = true
		default:
			return codec.Invalid("encoding_format", `encoding_format has to be "float" or "base64"`)
		}
	case "user":
		r.User = scan.Body(value)
	case "input_type":
		r.InputType = scan.Body(value)
	}
	return nil
}

// readInput distinguishes the four shapes of input by the first element: a string, strings, tokens, arrays of tokens.
func (r *Request) readInput(input []byte) error {
	switch {
	case input == nil:
		return codec.Invalid("input", "input is missing: give a string, an array of strings, or tokens")
	case scan.IsString(input):
		r.Inputs = []Input{{Text: scan.Body(input)}}
	case !scan.IsArray(input):
		return codec.Invalid("input", "input has to be a string, an array of strings, an array of tokens, or an array of arrays of tokens")
	default:
		if err := r.readList(input); err != nil {
			return err
		}
	}
	for i := range r.Inputs {
		if in := &r.Inputs[i]; in.Tokens == nil && len(in.Text) == 0 {
			return codec.Invalid(at(input, i), "an input may not be empty")
		}
	}
	return nil
}

func (r *Request) readList(list []byte) error {
	size := scan.Count(list)
	switch {
	case size == 0:
		return codec.Invalid("input", "input may not be empty")
	case size > MaxInputs && scan.IsNumber(firstElement(list)):
		return codec.Invalid("input", "input holds %d tokens; one array takes no more than %d", size, MaxInputs)
	case size > MaxInputs:
		return codec.Invalid("input", "input holds %d elements; one request takes no more than %d", size, MaxInputs)
	}
	first := firstElement(list)
	if scan.IsNumber(first) {
		in, err := tokens("input", list)
		if err != nil {
			return err
		}
		r.Inputs = []Input{in}
		return nil
	}
	r.Inputs = make([]Input, 0, size)
	for e := scan.Array(list); e.Next(); {
		path := "input[" + strconv.Itoa(len(r.Inputs)) + "]"
		switch {
		case scan.IsString(first) && scan.IsString(e.Value):
			r.Inputs = append(r.Inputs, Input{Text: scan.Body(e.Value)})
		case scan.IsArray(first) && scan.IsArray(e.Value):
			in, err := tokens(path, e.Value)
			if err != nil {
				return err
			}
			r.Inputs = append(r.Inputs, in)
		default:
			return codec.Invalid(path, "all elements of input have to be strings, or all arrays of tokens")
		}
	}
	return nil
}

func firstElement(list []byte) []byte {
	e := scan.Array(list)
	e.Next()
	return e.Value
}

// tokens checks an array of token ids.
func tokens(path string, list []byte) (Input, error) {
	in := Input{Tokens: list}
	for e := scan.Array(list); e.Next(); in.Count++ {
		if n, ok := scan.Int(e.Value); !ok || n < 0 {
			return in, codec.Invalid(path, "an array of tokens holds whole numbers from 0 only")
		}
	}
	if in.Count == 0 {
		return in, codec.Invalid(path, "an array of tokens may not be empty")
	}
	return in, nil
}

// at returns the path of the i-th input in the client's own body.
func at(input []byte, i int) string {
	if scan.IsString(input) {
		return "input"
	}
	return "input[" + strconv.Itoa(i) + "]"
}

// estimate returns how many tokens the input may have, for splitting: two bytes each. Text has three to five. A high
// estimate costs one more request, a low one costs a refused one.
func (in *Input) estimate() int {
	if in.Tokens != nil {
		return in.Count
	}
	return len(in.Text)/2 + 1
}

// likely returns how many tokens the input probably has, for counting if the host does not: four bytes each.
func (in *Input) likely() int {
	if in.Tokens != nil {
		return in.Count
	}
	return len(in.Text)/4 + 1
}
