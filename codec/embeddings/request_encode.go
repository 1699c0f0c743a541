package embeddings

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// AppendRequest writes the upstream body of one batch. model is the host's name for it.
func (p *Plan) AppendRequest(dst []byte, b Batch, model string) []byte {
	if p.dialect.Batch {
		return p.appendBatchEmbed(dst, b, model)
	}
	d, r := &p.dialect, p.request
	dst = scan.Quote(append(dst, `{"model":`...), model)
	if p.ask > 0 {
		dst = appendName(dst, d.DimensionsMember)
		dst = strconv.AppendInt(dst, int64(p.ask), 10)
	}
	if p.asksBase64() { // numbers are the default; some hosts refuse the word for them
		dst = append(appendName(dst, "encoding_format"), `"base64"`...)
	}
	if d.TruncationMember != "" {
		dst = append(appendName(dst, d.TruncationMember), `false`...)
	}
	if d.InputTypeMember != "" && r.InputType != nil {
		dst = scan.QuoteBody(appendName(dst, d.InputTypeMember), r.InputType)
	}
	if d.User && r.User != nil {
		dst = scan.QuoteBody(appendName(dst, "user"), r.User)
	}
	dst = append(appendName(dst, "input"), '[')
	for i := b.From; i < b.To; i++ {
		if i > b.From {
			dst = append(dst, ',')
		}
		if in := &r.Inputs[i]; in.Tokens != nil {
			dst = append(dst, in.Tokens...)
		} else {
			dst = scan.QuoteBody(dst, in.Text)
		}
	}
	return append(dst, ']', '}')
}

// appendBatchEmbed writes a batchEmbedContents request: each input is a separate request, because several parts in one
// make a single vector.
func (p *Plan) appendBatchEmbed(dst []byte, b Batch, model string) []byte {
	dst = append(dst, `{"requests":[`...)
	for i := b.From; i < b.To; i++ {
		if i > b.From {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"model":"models/`...)
		dst = scan.Escape(dst, []byte(model))
		dst = append(dst, `","content":{"parts":[{"text":`...)
		dst = scan.QuoteBody(dst, p.request.Inputs[i].Text)
		dst = append(dst, `}]}`...)
		if p.request.Task != nil {
			dst = scan.QuoteBody(appendName(dst, "taskType"), p.request.Task)
		} else if task := taskType(p.request.InputType); task != "" {
			dst = append(append(dst, `,"taskType":`...), task...)
		}
		if p.ask > 0 {
			dst = append(dst, `,"outputDimensionality":`...)
			dst = strconv.AppendInt(dst, int64(p.ask), 10)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']', '}')
}

// taskType returns the purpose of the vector, quoted.
func taskType(inputType []byte) string {
	switch string(inputType) {
	case "query":
		return `"RETRIEVAL_QUERY"`
	case "document":
		return `"RETRIEVAL_DOCUMENT"`
	}
	return ""
}

func appendName(dst []byte, name string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	return append(dst, '"', ':')
}
