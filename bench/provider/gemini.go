package provider

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
)

// geminiFormat is generateContent and streamGenerateContent; model and method come from the path.
type geminiFormat struct {
	geminiErrors
	model    string
	streamed bool
	array    bool // a stream without alt=sse: one JSON array
}

type geminiErrors struct{}

func (geminiErrors) status(f *fault) int { return f.geminiStatus() }

func (geminiErrors) errorBody(f *fault, _ string) []byte { return f.geminiError(nil) }

func (geminiFormat) authorize(r *http.Request) *fault {
	if r.Header.Get("X-Goog-Api-Key") != "" || r.URL.Query().Get("key") != "" ||
		strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return nil
	}
	return &fault{class: classPermission, message: "Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API."}
}

func (geminiFormat) header(h http.Header, _ string) {
	h.Set("Server-Timing", "gfet4t7; dur=1")
	h.Set("X-Content-Type-Options", "nosniff")
}

// gemini answers POST /{version}/models/{model}:{method}.
func (s *Server) gemini() http.Handler {
	handlers := map[string]func(*call, string) error{
		"generateContent": func(c *call, model string) error { return c.generate(geminiFormat{model: model}) },
		"streamGenerateContent": func(c *call, model string) error {
			return c.generate(geminiFormat{model: model, streamed: true, array: c.r.URL.Query().Get("alt") != "sse"})
		},
		"countTokens":        s.countGeminiTokens,
		"embedContent":       s.embedContent,
		"batchEmbedContents": s.batchEmbedContents,
	}
	return s.handle(geminiErrors{}, func(c *call) error {
		path := c.r.PathValue("call")
		colon := strings.LastIndexByte(path, ':')
		if colon < 0 {
			return &fault{class: classNotFound}
		}
		handler, known := handlers[path[colon+1:]]
		if !known {
			return &fault{class: classNotFound, message: "Method " + path[colon+1:] + " is not known."}
		}
		return handler(c, path[:colon])
	})
}

func (f geminiFormat) read(c *call, strict bool) (*prompt, *fault) {
	p := &prompt{members: c.object.camel(), stream: f.streamed && !f.array}
	p.model, p.marker = cutMarker(f.model)
	contents := c.object.list("contents")
	if strict {
		if refusal := checkGemini(c.object, p.model, contents); refusal != nil {
			return nil, refusal
		}
	}
	config := c.object.object("generationConfig").camel()
	p.hideReasoning = string(config.object("thinkingConfig").camel()["includeThoughts"]) == "false"
	if config.text("responseMimeType") == "application/json" {
		p.schema = raw("{}")
		for _, name := range []string{"responseJsonSchema", "responseSchema"} {
			if config.has(name) {
				p.schema = config[name]
			}
		}
	}
	for _, value := range c.object.list("tools") {
		o, _ := parseObject(value)
		for _, value := range o.camel().list("functionDeclarations") {
			declaration, _ := parseObject(value)
			schema := declaration.camel()["parametersJsonSchema"]
			if schema == nil {
				schema = declaration["parameters"]
			}
			p.tools = append(p.tools, tool{name: declaration.text("name"), schema: schema})
		}
	}
	p.locate(len(contents), func(i int) turn { return geminiTurn(contents[i]) })
	hops, known := continuationHops(c.object.text("continuationToken"))
	if !known {
		return nil, refuse("continuationToken", "Invalid continuation token.")
	}
	p.step += hops
	return p, nil
}

func geminiTurn(value raw) turn {
	content, _ := parseObject(value)
	if content.text("role") == "model" {
		return turn{speaker: speakerModel}
	}
	t := turn{speaker: speakerUser}
	var texts []string
	for _, value := range content.list("parts") {
		part, _ := parseObject(value)
		if part.camel().has("functionResponse") {
			t.speaker = speakerTool
			t.results++
		}
		if part.has("text") {
			texts = append(texts, part.text("text"))
		}
	}
	t.text = strings.Join(texts, "\n")
	return t
}

// A continuation token says how many answers of the same turn came before.
const continuationStem = "simulated continuation "

func continuationToken(hops int) string {
	return base64.StdEncoding.EncodeToString([]byte(continuationStem + strconv.Itoa(hops)))
}

func continuationHops(token string) (int, bool) {
	if token == "" {
		return 0, true
	}
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		return 0, false
	}
	digits, ok := strings.CutPrefix(string(text), continuationStem)
	hops, err := strconv.Atoi(digits)
	return hops, ok && err == nil && hops > 0 && hops <= maxSteps
}

func (s *Server) countGeminiTokens(c *call, _ string) error {
	if err := c.read(geminiFormat{}); err != nil {
		return err
	}
	tokens := strconv.Itoa(len(c.body)/4 + 1)
	return deliver(c.w, &delivery{}, http.StatusOK,
		[]byte(`{"totalTokens":`+tokens+`,"promptTokensDetails":[{"modality":"TEXT","tokenCount":`+tokens+`}]}`))
}
