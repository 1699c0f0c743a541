package gemini

import (
	"bytes"
	"encoding/base64"
	"fmt"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// contents reads the conversation. If the member occurs twice, the last one counts.
func (d *requestDecoder) contents(v []byte) error {
	d.r.Messages = d.r.Messages[:0]
	d.calls = callNumbers{}
	if scan.IsObject(v) {
		return d.content(v, 0)
	}
	index := 0
	for e := scan.Array(v); e.Next(); index++ {
		if err := d.content(e.Value, index); err != nil {
			return err
		}
	}
	return nil
}

func (d *requestDecoder) content(v []byte, index int) error {
	if !scan.IsObject(v) {
		return codec.Invalid(fmt.Sprintf("contents[%d]", index), "a content must be an object with role and parts")
	}
	role := codec.RoleUser
	switch string(scan.Body(scan.Get(v, "role"))) {
	case "", "user", "function", "tool":
	case "model":
		role = codec.RoleAssistant
	default:
		return codec.Invalid(fmt.Sprintf("contents[%d].role", index), "the role must be user or model")
	}
	d.parts, d.results = d.parts[:0], d.results[:0]
	each(scan.Get(v, "parts"), func(part []byte) { d.part(part, role) })
	if role == codec.RoleAssistant && len(d.parts) > 0 {
		if n := len(d.r.Messages); n == 0 || d.r.Messages[n-1].Role != codec.RoleAssistant {
			d.calls.turn()
		}
		for i := range d.parts {
			if p := &d.parts[i]; p.Kind == codec.PartToolCall {
				p.CallID = d.calls.call(d.r, p.CallID, p.Name)
			}
		}
	}
	d.add(codec.RoleTool, d.results, index)
	d.add(role, d.parts, index)
	return nil
}

// add adds a message. Clients that keep each chunk of a streamed answer as a content of its own send a turn in pieces.
func (d *requestDecoder) add(role codec.Role, parts []codec.Part, index int) {
	if len(parts) == 0 {
		return
	}
	if n := len(d.r.Messages) - 1; n >= 0 && d.r.Messages[n].Role == role && role != codec.RoleUser {
		last := &d.r.Messages[n]
		last.Parts = append(last.Parts, d.joinText(last.Parts, parts)...)
		return
	}
	d.r.Messages = append(d.r.Messages, codec.Message{Role: role, Parts: append(d.r.NewParts(len(parts)), parts...), Index: index})
}

// joinText adds a text to the one that it continues, and returns the other parts: a piece of a stream may be a space alone,
// which other providers refuse.
func (d *requestDecoder) joinText(before, parts []codec.Part) []codec.Part {
	last, next := &before[len(before)-1], &parts[0]
	if last.Kind != codec.PartText || next.Kind != codec.PartText || last.Signature != nil || next.Signature != nil {
		return parts
	}
	d.extend(last, next.Text)
	return parts[1:]
}

// extend appends to the text of a part. The newest text that was extended has room for more, so a text in many pieces is
// not copied for each of them.
func (d *requestDecoder) extend(p *codec.Part, piece []byte) {
	if len(d.joined) == 0 || len(p.Text) == 0 || &d.joined[0] != &p.Text[0] {
		d.joined = append(make([]byte, 0, 2*len(p.Text)), p.Text...)
	}
	d.joined = append(d.joined, piece...)
	p.Text = d.joined
}

// part reads one part of a content.
func (d *requestDecoder) part(v []byte, role codec.Role) {
	p := readPart(v)
	switch {
	case p.response != nil:
		d.results = append(d.results, d.result(&p))
		return
	case role != codec.RoleAssistant:
		d.parts = append(d.parts, p.asPart())
		return
	}
	part := p.asPart()
	if token := ownToken(d.r, p.signature); token != nil { // of reasoning before the part that carries it
		part.Signature, part.Family = nil, codec.FamilyOther
		switch {
		case bytes.Equal(token, foreignCall):
		case part.Kind == codec.PartReasoning:
			part.Signature = token
		default:
			d.prove(token)
		}
	}
	if part.Kind == codec.PartText && len(part.Text) == 0 && part.Signature == nil {
		return
	}
	if n := len(d.parts) - 1; n >= 0 && part.Kind == codec.PartReasoning && d.parts[n].Kind == codec.PartReasoning && d.parts[n].Signature == nil {
		d.extend(&d.parts[n], part.Text)
		d.parts[n].Signature, d.parts[n].Family = part.Signature, part.Family
		return
	}
	d.parts = append(d.parts, part)
}

// prove gives the reasoning before a part its proof. Most clients send no thoughts back: then the proof stands alone.
func (d *requestDecoder) prove(token []byte) {
	if n := len(d.parts) - 1; n >= 0 && d.parts[n].Kind == codec.PartReasoning && d.parts[n].Signature == nil {
		d.parts[n].Signature = token
		return
	}
	d.parts = append(d.parts, codec.Part{Kind: codec.PartReasoning, Signature: token})
}

// ownToken returns the state token that stands in the place of a signature; nil if it is another signature. Google's clients
// take signatures for bytes, so the token is in base64 here, and comes back in either alphabet.
func ownToken(r *codec.Request, signature []byte) []byte {
	if !bytes.HasPrefix(signature, tokenMark) {
		return nil
	}
	encoding := base64.RawStdEncoding
	if bytes.ContainsAny(signature, "-_") {
		encoding = base64.RawURLEncoding
	}
	token, err := encoding.AppendDecode(r.Alloc(len(signature)), bytes.TrimRight(signature, "="))
	if err != nil || !statetoken.Is(token) {
		return nil
	}
	return token
}

// appendToken writes a state token as a signature.
func appendToken(dst, token []byte) []byte { return base64.StdEncoding.AppendEncode(dst, token) }

// tokenMark is how every token begins in base64.
var tokenMark = []byte("c3YxL")

// wirePart has the members of a part; views are nil if a member is absent.
type wirePart struct {
	raw, text, signature, call, response, inline, file []byte
	kind                                               []byte // the name of a member that only this format has
	thought                                            bool
}

func readPart(v []byte) (p wirePart) {
	p.raw = v
	if scan.IsString(v) {
		p.text = scan.Body(v)
		return p
	}
	var spelled [48]byte
	for m := scan.Object(v); m.Next(); {
		if scan.IsNull(m.Value) {
			continue
		}
		switch string(name(&spelled, m.Key)) {
		case "text":
			p.text = scan.Body(m.Value)
		case "thought":
			p.thought = scan.IsTrue(m.Value)
		case "thoughtSignature":
			p.signature = scan.Body(m.Value)
		case "functionCall":
			p.call = m.Value
		case "functionResponse":
			p.response = m.Value
		case "inlineData":
			p.inline = m.Value
		case "fileData":
			p.file = m.Value
		case "videoMetadata", "mediaResolution", "mediaProcessing", "partMetadata", "audioTranscription", "speechMetadata":
		default:
			p.kind = m.Key
		}
	}
	return p
}

// asPart returns the part. A signature that is not Google's own is none: anySignature stands for a call of another
// provider's model.
func (p *wirePart) asPart() codec.Part {
	out := codec.Part{Kind: codec.PartText, Text: p.text}
	if len(p.signature) > 0 && string(p.signature) != anySignature {
		out.Signature, out.Family = p.signature, codec.FamilyGoogle
	}
	switch {
	case p.call != nil:
		out.Kind, out.Text = codec.PartToolCall, nil
		for m := scan.Object(p.call); m.Next(); {
			switch string(m.Key) {
			case "id":
				out.CallID = scan.Body(m.Value)
			case "name":
				out.Name = scan.Body(m.Value)
			case "args":
				out.Arguments = m.Value
			}
		}
	case p.inline != nil, p.file != nil:
		return p.media()
	case p.kind != nil && p.text == nil:
		out = codec.Part{Kind: codec.PartOpaque, Raw: p.raw, WireType: p.kind, Origin: codec.Gemini}
		switch string(p.kind) {
		case "executableCode", "codeExecutionResult", "toolCall", "toolResponse", "executable_code", "code_execution_result", "tool_call", "tool_response":
			out.Kind = codec.PartServerTool
		}
	case p.thought:
		out.Kind, out.Summary = codec.PartReasoning, true
	}
	return out
}

// These begin the addresses of files that clients upload to Google. Other providers cannot read them.
var (
	googlesFiles   = []byte("https://generativelanguage.googleapis.com/")
	googlesBuckets = []byte("gs://")
)

// media reads a picture, a recording or a document.
func (p *wirePart) media() codec.Part {
	var out codec.Part
	var spelled [48]byte
	for _, object := range [...][]byte{p.inline, p.file} {
		for m := scan.Object(object); m.Next(); {
			switch string(name(&spelled, m.Key)) {
			case "mimeType":
				out.MediaType = codec.MediaType(scan.Body(m.Value))
			case "data":
				out.Data = standardBase64(scan.Body(m.Value))
			case "fileUri":
				out.URL = scan.Body(m.Value)
			case "displayName":
				out.Filename = scan.Body(m.Value)
			}
		}
	}
	switch {
	case bytes.HasPrefix(out.URL, googlesFiles):
		out.FileID, out.URL = out.URL[len(googlesFiles):], nil
	case bytes.HasPrefix(out.URL, googlesBuckets):
		out.FileID, out.URL = out.URL, nil
	}
	switch {
	case bytes.HasPrefix(out.MediaType, []byte("image/")):
		out.Kind, out.Filename = codec.PartImage, nil
	case bytes.HasPrefix(out.MediaType, []byte("audio/")):
		out.Kind = codec.PartAudio
	default:
		out.Kind = codec.PartDocument
	}
	return out
}

// standardBase64 returns data in the alphabet, and with the padding, that other providers insist on. Google reads the URL
// alphabet too, which its SDK for Python writes.
func standardBase64(data []byte) []byte {
	missing := -len(data) & 3
	if missing == 0 && bytes.IndexByte(data, '-') < 0 && bytes.IndexByte(data, '_') < 0 || bytes.IndexByte(data, '\\') >= 0 {
		return data
	}
	out := append(make([]byte, 0, len(data)+missing), data...)
	for i, c := range out {
		switch c {
		case '-':
			out[i] = '+'
		case '_':
			out[i] = '/'
		}
	}
	return append(out, "=="[:missing%3]...)
}

// result reads what a function returned: an object, whose only member output or result has the text, as the SDKs write
// it, and whose only member error says that the function failed.
func (d *requestDecoder) result(p *wirePart) codec.Part {
	out := codec.Part{Kind: codec.PartToolResult}
	var response, media []byte
	for m := scan.Object(p.response); m.Next(); {
		switch string(m.Key) {
		case "id":
			out.CallID = scan.Body(m.Value)
		case "name":
			out.Name = scan.Body(m.Value)
		case "response":
			response = m.Value
		case "parts":
			media = m.Value
		}
	}
	out.CallID = d.calls.result(d.r, out.CallID, out.Name)
	said := response
	if only := scan.Object(response); only.Next() && scan.Count(response) == 1 {
		switch string(only.Key) {
		case "output", "result":
			said = only.Value
		case "error":
			said, out.Failed = only.Value, true
		}
	}
	out.Parts = d.r.NewParts(1 + scan.Count(media))
	switch {
	case scan.IsString(said):
		out.Parts = append(out.Parts, codec.Part{Kind: codec.PartText, Text: scan.Body(said)})
	case !scan.IsNull(said):
		out.Parts = append(out.Parts, codec.Part{Kind: codec.PartText, Text: scan.Escape(d.r.Alloc(len(said)+len(said)/4), said)})
	}
	for e := scan.Array(media); e.Next(); {
		if part := readPart(e.Value); part.inline != nil || part.file != nil {
			out.Parts = append(out.Parts, part.media())
		}
	}
	return out
}
