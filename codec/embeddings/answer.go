package embeddings

import (
	"math"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// DecodeAnswer reads the host's answer to one batch into the plan. Batches may come in any order, but not concurrently;
// a batch whose answer was refused may be requested again. An answer without exactly one valid vector of the right size
// per input is a *[codec.Error]: a silently wrong vector spoils an index.
func (p *Plan) DecodeAnswer(b Batch, body []byte) error {
	if !scan.Valid(body) || !scan.IsObject(body) {
		return upstream("the provider sent something that is not an embeddings answer")
	}
	list, member := scan.Get(body, "data"), "embedding"
	if p.dialect.Batch {
		list, member = scan.Get(body, "embeddings"), "values"
	}
	clear(p.vectors[b.From:b.To])
	answered := 0
	for e := scan.Array(list); e.Next(); answered++ {
		place := answered
		if n, ok := scan.Int(scan.Get(e.Value, "index")); ok {
			place = int(min(max(n, -1), MaxInputs))
		}
		if place < 0 || place >= b.To-b.From || p.vectors[b.From+place] != nil {
			return upstream("the provider sent vectors that do not match the inputs")
		}
		vector, err := p.vector(scan.Get(e.Value, member))
		if err != nil {
			return err
		}
		p.vectors[b.From+place] = vector
	}
	if asked := b.To - b.From; answered != asked {
		return upstream("the provider sent %d vectors for %d inputs", answered, asked)
	}
	p.count(b, body)
	return nil
}

func upstream(format string, args ...any) *codec.Error {
	return codec.Errorf(codec.KindUpstream, format, args...)
}

// vector reads and checks one vector, in either encoding.
func (p *Plan) vector(value []byte) ([]float32, error) {
	var ok bool
	if scan.IsString(value) {
		p.numbers, ok = p.appendBase64(p.numbers[:0], scan.Body(value))
	} else {
		p.numbers, ok = appendNumbers(p.numbers[:0], value)
	}
	size := len(p.numbers)
	if !ok || size == 0 {
		return nil, upstream("the provider sent something that is not a vector")
	}
	if p.native == 0 {
		p.native, p.size = size, size
	}
	if size != p.native {
		return nil, upstream("the provider sent a vector of %d dimensions instead of %d", size, p.native)
	}
	vector := append([]float32(nil), p.numbers[:p.size]...)
	length := norm(vector)
	if !(length > 0) || math.IsInf(length, 0) { // excludes NaN
		return nil, upstream("the provider sent a vector without a direction")
	}
	if p.scales() {
		for i := range vector {
			vector[i] = float32(float64(vector[i]) / length)
		}
	}
	return vector, nil
}

func norm(vector []float32) float64 {
	sum := 0.0
	for _, v := range vector {
		sum += float64(v) * float64(v)
	}
	return math.Sqrt(sum)
}

// scales reports whether vectors have to be scaled to length 1: those truncated here, and those truncated by a host
// that does not scale them (docs/wire/embeddings.md#5.2).
func (p *Plan) scales() bool {
	if p.native > p.size {
		return true
	}
	own := max(p.model.Native, p.model.Default)
	return !p.model.Normalized && p.ask > 0 && p.ask < own
}

// count adds the answer's token count, or an estimate if the host reports none.
func (p *Plan) count(b Batch, body []byte) {
	usage := scan.Get(body, "usage")
	names := [...]string{"prompt_tokens", "total_tokens"}
	if p.dialect.Batch {
		usage = scan.Get(body, "usageMetadata")
		names = [...]string{"promptTokenCount", "totalTokenCount"}
	}
	for _, name := range names {
		if n, ok := codec.ReadTokens(scan.Get(usage, name)); ok && n > 0 {
			p.usage.InputUncached = codec.AddCounts(p.usage.InputUncached, n)
			return
		}
	}
	for i := b.From; i < b.To; i++ {
		p.usage.InputUncached += int64(p.request.Inputs[i].likely())
	}
	p.usage.Estimated = true
}

// complete returns an error unless every batch has been answered.
func (p *Plan) complete() error {
	for _, vector := range p.vectors {
		if vector == nil {
			return upstream("the provider has not answered every input")
		}
	}
	return nil
}

// AppendAnswer writes the answer to the client: vectors in the order of the inputs, in the requested encoding. It fails
// unless every batch has been answered.
func (p *Plan) AppendAnswer(dst []byte) ([]byte, error) {
	if err := p.complete(); err != nil {
		return dst, err
	}
	dst = append(dst, `{"object":"list","data":[`...)
	for i, vector := range p.vectors {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"object":"embedding","index":`...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, `,"embedding":`...)
		if p.request.Base64 {
			dst = appendBase64Vector(dst, vector)
		} else {
			dst = appendVector(dst, vector)
		}
		dst = append(dst, '}')
	}
	dst = scan.Quote(append(dst, `],"model":`...), p.request.Model)
	dst = append(dst, `,"usage":{"prompt_tokens":`...)
	dst = strconv.AppendInt(dst, p.usage.TotalInput(), 10)
	dst = append(dst, `,"total_tokens":`...)
	dst = strconv.AppendInt(dst, p.usage.Total(), 10)
	return append(dst, `}}`...), nil
}
