package embeddings

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// DecodeGoogle reads the body of embedContent, which has one content, or of batchEmbedContents, which has a list of such
// requests. Each content becomes one vector. All have to ask for the same size and for the same purpose, because other
// hosts take one of each.
func DecodeGoogle(body []byte, model string, single bool) (*Request, error) {
	r := &Request{Model: model}
	if single {
		if err := r.googles(body, ""); err != nil {
			return nil, err
		}
		return r, nil
	}
	list := scan.Get(body, "requests")
	if n := scan.Count(list); !scan.IsArray(list) || n == 0 || n > MaxInputs {
		return nil, codec.Invalid("requests", "requests has to be a list of 1 to %d requests", MaxInputs)
	}
	for e := scan.Array(list); e.Next(); {
		if err := r.googles(e.Value, "requests["+strconv.Itoa(len(r.Inputs))+"]."); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// googles adds one request; at is its path in the body, with a dot behind it.
func (r *Request) googles(request []byte, at string) error {
	var text []byte
	size, task := 0, []byte(nil)
	for m := scan.Object(request); m.Next(); {
		switch string(m.Key) {
		case "content":
			text = textOf(m.Value)
		case "outputDimensionality", "output_dimensionality":
			n, ok := scan.Int(m.Value)
			if !ok || n < 1 || n > maxDimensions {
				return codec.Invalid(at+"outputDimensionality", "outputDimensionality has to be a whole number from 1 to %d", maxDimensions)
			}
			size = int(n)
		case "taskType", "task_type":
			task = scan.Body(m.Value)
		case "title":
			r.Notes.Drop("title")
		case "model":
			if name := scan.String(m.Value); strings.TrimPrefix(name, "models/") != r.Model {
				return codec.Invalid(at+"model", "the body names another model than the path")
			}
		}
	}
	if len(text) == 0 {
		return codec.Invalid(at+"content", "content has to have parts with text: a vector is made of nothing else here")
	}
	if len(r.Inputs) > 0 && (size != r.Dimensions || !bytes.Equal(task, r.Task)) {
		return codec.Invalid(at+"taskType", "all requests have to have the same outputDimensionality and the same taskType")
	}
	switch r.Dimensions, r.Task = size, task; string(task) {
	case "RETRIEVAL_QUERY":
		r.InputType = []byte("query")
	case "RETRIEVAL_DOCUMENT":
		r.InputType = []byte("document")
	}
	r.Inputs = append(r.Inputs, Input{Text: text})
	return nil
}

// textOf joins the texts of a content: they become one vector.
func textOf(content []byte) (text []byte) {
	for e := scan.Array(scan.Get(content, "parts")); e.Next(); {
		switch piece := scan.Body(scan.Get(e.Value, "text")); {
		case len(text) == 0:
			text = slices.Clip(piece) // the next one must not grow into the body
		case len(piece) > 0:
			text = append(append(text, `\n`...), piece...)
		}
	}
	return text
}

// AppendGoogleAnswer is [Plan.AppendAnswer] in the form of embedContent or of batchEmbedContents.
func (p *Plan) AppendGoogleAnswer(dst []byte, single bool) ([]byte, error) {
	if err := p.complete(); err != nil {
		return dst, err
	}
	if single {
		dst = append(appendVector(append(dst, `{"embedding":{"values":`...), p.vectors[0]), '}')
	} else {
		dst = append(dst, `{"embeddings":[`...)
		for i, vector := range p.vectors {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendVector(append(dst, `{"values":`...), vector), '}')
		}
		dst = append(dst, ']')
	}
	dst = strconv.AppendInt(append(dst, `,"usageMetadata":{"promptTokenCount":`...), p.usage.TotalInput(), 10)
	return append(dst, `}}`...), nil
}
