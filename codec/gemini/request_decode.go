package gemini

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/internal/schemacache"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Client returns the codec for clients of generateContent. It is safe for concurrent use and caches tool schemas, so one
// value should serve the whole process.
func Client() codec.ClientCodec { return &client{schemas: schemacache.New(toJSONSchema)} }

type client struct {
	schemas *schemacache.Cache[[]byte]
}

var members = codec.Members{
	Conversation: "contents",
	Parts:        ".parts",
	Content:      "contents.parts.",
	Reasoning:    "contents.parts.thought",
	Effort:       "generationConfig.thinkingConfig",
	MaxOutput:    "generationConfig.maxOutputTokens",
	Output:       "generationConfig.responseSchema",
	Stop:         "generationConfig.stopSequences",
	Notes: map[string]string{
		"n": "generationConfig.candidateCount", "logprobs": "generationConfig.responseLogprobs", "top_logprobs": "generationConfig.logprobs",
		"temperature": "generationConfig.temperature", "top_p": "generationConfig.topP", "top_k": "generationConfig.topK", "seed": "generationConfig.seed",
		"presence_penalty": "generationConfig.presencePenalty", "frequency_penalty": "generationConfig.frequencyPenalty",
		"service_tier": "serviceTier", "tool_choice": "toolConfig.functionCallingConfig",
	},
}

// DecodeRequest reads the body of a generateContent or a countTokens request. The model, and whether the answer is a
// stream, are in the path. Members may be spelled in camel case or in snake case.
func (c *client) DecodeRequest(r *codec.Request, body []byte) error {
	d := requestDecoder{r: r, schemas: c.schemas}
	return d.request(body)
}

type requestDecoder struct {
	r       *codec.Request
	schemas *schemacache.Cache[[]byte]
	calls   callNumbers
	parts   []codec.Part // of the content that is read
	results []codec.Part // of functions, in that content
	joined  []byte       // the newest text of several pieces
}

// name returns the camel case of a member's name, in which this package compares them: clients may write it in snake
// case too. buffer is for the result.
func name(buffer *[48]byte, key []byte) []byte {
	out, upper := buffer[:0], false
	for i, c := range key {
		switch {
		case c == '_' && i > 0:
			upper = true
			continue
		case len(out) == len(buffer):
			return key // no member has such a long name
		case upper && 'a' <= c && c <= 'z':
			c -= 'a' - 'A'
		}
		out, upper = append(out, c), false
	}
	return out
}

func (d *requestDecoder) request(body []byte) error {
	if !scan.IsObject(body) {
		return codec.Invalid("", "the body must be a JSON object")
	}
	if inner := scan.Get(body, "generateContentRequest"); scan.IsObject(inner) { // countTokens has one in itself
		body = inner
	}
	d.r.Format, d.r.Members = codec.Gemini, &members
	listed := false
	var spelled [48]byte
	for m := scan.Object(body); m.Next(); {
		if scan.IsNull(m.Value) {
			continue
		}
		var err error
		switch member := name(&spelled, m.Key); string(member) {
		case "contents":
			listed = scan.IsArray(m.Value) || scan.IsObject(m.Value)
			err = d.contents(m.Value)
		default:
			err = d.member(string(member), m.Key, m.Value)
		}
		if err != nil {
			return err
		}
	}
	if !listed {
		return codec.Invalid("contents", "contents must be an array")
	}
	return nil
}

func (d *requestDecoder) member(member string, key, v []byte) error {
	r := d.r
	switch member {
	case "systemInstruction":
		return d.systemInstruction(v)
	case "tools":
		d.tools(v)
	case "toolConfig":
		d.toolConfig(v)
	case "generationConfig":
		return d.generationConfig(v)
	case "model", "serviceChatKey", "serviceExternalSessionId": // ours or the path's, read with the envelope
	case "store":
		r.Store = codec.ParseTristate(v)
	case "serviceTier":
		r.ServiceTier = scan.Body(v)
		if string(r.ServiceTier) == "standard" {
			r.ServiceTier = []byte("default")
		}
	case "cachedContent", "continuationToken":
		r.Stateful = append(r.Stateful, member)
	case "safetySettings", "labels": // of Google's own filters and bills
		r.Notes.Drop(member)
	default:
		r.Notes.Drop(string(key))
	}
	return nil
}

// systemInstruction is a content whose role does not matter. Some clients send its text alone.
func (d *requestDecoder) systemInstruction(v []byte) error {
	if scan.IsString(v) {
		d.r.Instructions = append(d.r.Instructions, codec.Part{Kind: codec.PartText, Text: scan.Body(v)})
		return nil
	}
	if !scan.IsObject(v) {
		return codec.Invalid("systemInstruction", "systemInstruction must be a content: an object with parts")
	}
	parts := scan.Get(v, "parts")
	if parts == nil {
		parts = v
	}
	each(parts, func(part []byte) {
		p := readPart(part)
		d.r.Instructions = append(d.r.Instructions, p.asPart())
	})
	return nil
}

// each visits the elements of a list. Google takes an object for a list of one, and some clients send that.
func each(list []byte, visit func(element []byte)) {
	if scan.IsObject(list) {
		visit(list)
		return
	}
	for e := scan.Array(list); e.Next(); {
		visit(e.Value)
	}
}

// generationConfig reads settings of the answer. Numbers have to be numbers.
func (d *requestDecoder) generationConfig(v []byte) error {
	r := d.r
	if !scan.IsObject(v) {
		return codec.Invalid("generationConfig", "generationConfig must be an object")
	}
	numbers := map[string]*[]byte{
		"temperature": &r.Temperature, "topP": &r.TopP, "topK": &r.TopK, "seed": &r.Seed,
		"presencePenalty": &r.PresencePenalty, "frequencyPenalty": &r.FrequencyPenalty, "logprobs": &r.TopLogprobs,
	}
	var spelled [48]byte
	var mime, schema []byte
	for m := scan.Object(v); m.Next(); {
		if scan.IsNull(m.Value) {
			continue
		}
		member := string(name(&spelled, m.Key))
		if number := numbers[member]; number != nil {
			if !scan.IsNumber(m.Value) {
				return codec.Invalid("generationConfig."+member, "%s must be a number", member)
			}
			*number = m.Value
			continue
		}
		switch member {
		case "maxOutputTokens":
			n, ok := scan.Int(m.Value)
			if !ok || n < 0 {
				return codec.Invalid(members.MaxOutput, "maxOutputTokens must be a whole number, 0 or more")
			}
			if r.MaxOutput = n; n == 0 {
				r.MaxOutput = -1 // the default of the API's own encoding
			}
		case "candidateCount":
			r.N, _ = scan.Int(m.Value)
		case "stopSequences":
			r.Stop = r.Stop[:0]
			for e := scan.Array(m.Value); e.Next(); {
				if scan.IsString(e.Value) {
					r.Stop = append(r.Stop, scan.Body(e.Value))
				}
			}
		case "responseMimeType":
			mime = scan.Body(m.Value)
		case "responseSchema":
			schema = d.schemas.Get(m.Value)
		case "responseJsonSchema":
			schema = m.Value
		case "responseLogprobs":
			r.Logprobs = codec.ParseTristate(m.Value)
		case "thinkingConfig":
			d.thinkingConfig(m.Value)
		case "responseModalities":
			d.modalities(m.Value)
		default:
			r.Notes.Drop("generationConfig." + string(m.Key))
		}
	}
	d.output(mime, schema)
	return nil
}

// output is the form of the answer: any JSON, or JSON that a schema describes. One word of a list is not JSON, so that
// form is left out.
func (d *requestDecoder) output(mime, schema []byte) {
	switch o := &d.r.Output; {
	case string(mime) == "application/json" && scan.IsObject(schema):
		o.Kind, o.Schema = codec.OutputSchema, schema
	case string(mime) == "application/json":
		o.Kind = codec.OutputJSON
	case len(mime) > 0 && string(mime) != "text/plain":
		d.r.Notes.Drop("generationConfig.responseMimeType")
	}
}

// thinkingConfig has a level or a budget: 0 switches thinking off, and a negative one leaves it to the model.
func (d *requestDecoder) thinkingConfig(v []byte) {
	var spelled [48]byte
	g := &d.r.Reasoning
	for m := scan.Object(v); m.Next(); {
		switch string(name(&spelled, m.Key)) {
		case "includeThoughts":
			g.Visible = codec.ParseTristate(m.Value)
		case "thinkingLevel":
			level := scan.Body(m.Value)
			word := append(d.r.Alloc(len(level)), level...)
			for i, c := range word {
				if 'A' <= c && c <= 'Z' {
					word[i] = c + 'a' - 'A'
				}
			}
			if g.Effort = word; string(word) == "thinking_level_unspecified" {
				g.Effort = nil
			}
		case "thinkingBudget":
			switch n, ok := scan.Int(m.Value); {
			case ok && n == 0:
				g.Mode = codec.ReasoningOff
			case ok && n > 0:
				g.Mode, g.Budget = codec.ReasoningBudget, n
			}
		}
	}
}

func (d *requestDecoder) modalities(v []byte) {
	for e := scan.Array(v); e.Next(); {
		if word := string(scan.Body(e.Value)); word != "TEXT" && word != "MODALITY_UNSPECIFIED" {
			d.r.Notes.Drop("generationConfig.responseModalities")
		}
	}
}

// tools reads the functions and the tools that Google runs.
func (d *requestDecoder) tools(v []byte) {
	var spelled [48]byte
	index := 0
	each(v, func(tool []byte) {
		for m := scan.Object(tool); m.Next(); {
			switch kind := string(name(&spelled, m.Key)); {
			case scan.IsNull(m.Value):
			case kind == "functionDeclarations":
				each(m.Value, func(f []byte) { d.r.Tools = append(d.r.Tools, d.function(f, index)) })
			case kind == "googleSearch", kind == "googleSearchRetrieval":
				d.r.Tools = append(d.r.Tools, codec.Tool{Kind: codec.ToolWebSearch, WireType: d.r.CopyBytes(m.Key), Raw: tool, Origin: codec.Gemini, Index: index})
			default:
				d.r.Tools = append(d.r.Tools, codec.Tool{Kind: codec.ToolHosted, WireType: d.r.CopyBytes(m.Key), Raw: tool, Origin: codec.Gemini, Index: index})
			}
		}
		index++
	})
}

func (d *requestDecoder) function(v []byte, index int) codec.Tool {
	t := codec.Tool{Kind: codec.ToolFunction, Raw: v, Origin: codec.Gemini, Index: index}
	var spelled [48]byte
	for m := scan.Object(v); m.Next(); {
		switch string(name(&spelled, m.Key)) {
		case "name":
			t.Name = scan.Body(m.Value)
		case "description":
			t.Description = scan.Body(m.Value)
		case "parameters":
			if scan.IsObject(m.Value) {
				t.Schema = d.schemas.Get(m.Value)
			}
		case "parametersJsonSchema":
			if scan.IsObject(m.Value) {
				t.Schema = m.Value
			}
		}
	}
	return t
}

// toolConfig says how free the model is to call functions.
func (d *requestDecoder) toolConfig(v []byte) {
	var spelled [48]byte
	for m := scan.Object(v); m.Next(); {
		if string(name(&spelled, m.Key)) == "functionCallingConfig" {
			d.choice(m.Value)
		}
	}
}

func (d *requestDecoder) choice(v []byte) {
	var spelled [48]byte
	var mode string
	var names []codec.Tool
	for m := scan.Object(v); m.Next(); {
		switch string(name(&spelled, m.Key)) {
		case "mode":
			mode = strings.ToUpper(scan.String(m.Value))
		case "allowedFunctionNames":
			for e := scan.Array(m.Value); e.Next(); {
				names = append(names, codec.Tool{Name: scan.Body(e.Value)})
			}
		}
	}
	c := &d.r.ToolChoice
	switch {
	case mode == "NONE":
		c.Mode = codec.ChoiceNone
	case mode == "ANY" && len(names) == 0:
		c.Mode = codec.ChoiceRequired
	case mode == "ANY" && len(names) == 1:
		c.Mode, c.Name = codec.ChoiceTool, names[0].Name
	case mode == "ANY", mode == "VALIDATED" && len(names) > 0:
		c.Mode, c.Allowed, c.AllowedRequired = codec.ChoiceAllowed, names, mode == "ANY"
	case mode == "AUTO", mode == "VALIDATED":
		c.Mode = codec.ChoiceAuto
	}
}
