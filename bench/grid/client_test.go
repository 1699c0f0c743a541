package grid

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// A client is one conversation through one surface: it sends and decodes like the official SDK, and keeps the history
// like its users.
type client struct {
	harness *harness
	surface string
	model   string
	stream  bool
	forgets bool // replays only what its SDK has types for
	items   []string
	extra   string // further members of the request, each with a comma in front
	open    []openCall

	wire bytes.Buffer // the bytes of the newest answer
}

// openCall is a call of the newest answer that waits for its result.
type openCall struct {
	id, name string
	custom   bool
}

// ask sends the conversation and adds the answer to it.
func (c *client) ask(ctx context.Context) said {
	c.open = nil
	c.wire.Reset()
	switch c.surface {
	case "chat":
		return c.askChat(ctx)
	case "responses":
		return c.askResponses(ctx)
	case "gemini":
		return c.askGemini(ctx)
	default:
		return c.askMessages(ctx)
	}
}

// grammar checks the newest answer against the rules of the surface's streams.
func (c *client) grammar() error {
	check := map[string]func([]byte) error{"chat": grammar.Chat, "responses": grammar.Responses, "messages": grammar.Messages, "gemini": grammar.Gemini}
	return check[c.surface](c.wire.Bytes())
}

// tee copies the body of a successful answer as it is read.
func (c *client) tee(response *http.Response, err error) (*http.Response, error) {
	if err == nil && response.StatusCode == http.StatusOK {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.TeeReader(response.Body, &c.wire), response.Body}
	}
	return response, err
}

// Small attachments: a picture of one pixel and the head of a document.
const (
	pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	paper = "JVBERi0xLjQKJSBzYW1wbGUK"
)

// say adds a message of the user; with names the attachments: "image", "document".
func (c *client) say(words string, with ...string) {
	var parts []string
	for _, kind := range with {
		parts = append(parts, attachments[c.surface][kind])
	}
	switch c.surface {
	case "gemini":
		parts = append(parts, `{"text":`+mustJSON(words)+`}`)
		c.items = append(c.items, `{"role":"user","parts":[`+strings.Join(parts, ",")+`]}`)
		return
	case "responses":
		parts = append(parts, `{"type":"input_text","text":`+mustJSON(words)+`}`)
	default:
		parts = append(parts, `{"type":"text","text":`+mustJSON(words)+`}`)
	}
	c.items = append(c.items, `{"role":"user","content":[`+strings.Join(parts, ",")+`]}`)
}

var attachments = map[string]map[string]string{
	"chat": {
		"image":    `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + pixel + `"}}`,
		"document": `{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,` + paper + `"}}`,
	},
	"responses": {
		"image":    `{"type":"input_image","image_url":"data:image/png;base64,` + pixel + `"}`,
		"document": `{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,` + paper + `"}`,
	},
	"messages": {
		"image":    `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + pixel + `"}}`,
		"document": `{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"` + paper + `"},"title":"a.pdf"}`,
	},
	"gemini": {
		"image":    `{"inlineData":{"mimeType":"image/png","data":"` + pixel + `"}}`,
		"document": `{"inlineData":{"mimeType":"application/pdf","data":"` + paper + `"}}`,
	},
}

// instruct adds a message of the operator in the middle of the conversation.
func (c *client) instruct(words string) {
	role := map[string]string{"chat": "system", "responses": "developer", "messages": "system"}[c.surface]
	c.items = append(c.items, `{"role":"`+role+`","content":`+mustJSON(words)+`}`)
}

// answerCalls adds a result for each open call. Chat has no pictures in results.
func (c *client) answerCalls(words string, picture bool) {
	if len(c.open) == 0 {
		return
	}
	content := mustJSON(words)
	var results []string
	for _, call := range c.open {
		switch c.surface {
		case "chat":
			results = append(results, `{"role":"tool","tool_call_id":`+mustJSON(call.id)+`,"content":`+content+`}`)
		case "responses":
			if picture {
				content = `[{"type":"input_text","text":` + mustJSON(words) + `},` + attachments["responses"]["image"] + `]`
			}
			kind := "function_call_output"
			if call.custom {
				kind = "custom_tool_call_output"
			}
			results = append(results, `{"type":"`+kind+`","call_id":`+mustJSON(call.id)+`,"output":`+content+`}`)
		case "messages":
			if picture {
				content = `[{"type":"text","text":` + mustJSON(words) + `},` + attachments["messages"]["image"] + `]`
			}
			results = append(results, `{"type":"tool_result","tool_use_id":`+mustJSON(call.id)+`,"content":`+content+`}`)
		case "gemini":
			media := ""
			if picture {
				media = `,"parts":[` + attachments["gemini"]["image"] + `]`
			}
			results = append(results, `{"functionResponse":{"id":`+mustJSON(call.id)+`,"name":`+mustJSON(call.name)+`,"response":{"output":`+content+`}`+media+`}}`)
		}
	}
	switch c.surface {
	case "messages":
		c.items = append(c.items, `{"role":"user","content":[`+strings.Join(results, ",")+`]}`)
	case "gemini":
		c.items = append(c.items, `{"role":"user","parts":[`+strings.Join(results, ",")+`]}`)
	default:
		c.items = append(c.items, results...)
	}
}

// body returns the request for the present conversation.
func (c *client) body() []byte {
	if c.surface == "gemini" { // the model and the stream are in the path
		body := `{"systemInstruction":{"parts":[{"text":"Be brief."}]},"contents":[` + strings.Join(c.items, ",") + `]` + c.extra
		if !strings.Contains(c.extra, `"tools"`) {
			body += `,"tools":[{"functionDeclarations":[` + geminiTools + `]}]`
		}
		return []byte(body + "}")
	}
	list, tools := "messages", chatTools
	var opening string
	switch c.surface {
	case "responses":
		list, tools = "input", responsesTools
		opening = `,"instructions":"Be brief.","store":false,"include":["reasoning.encrypted_content"]`
	case "messages":
		tools = messagesTools
		opening = `,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1;"},{"type":"text","text":"Be brief."}]`
		if !strings.Contains(c.extra, `"max_tokens"`) {
			opening += `,"max_tokens":4000`
		}
	}
	body := `{"model":` + mustJSON(c.model) + opening + `,"` + list + `":[` + strings.Join(c.items, ",") + `]`
	if !strings.Contains(c.extra, `"tools"`) {
		body += `,"tools":[` + tools + `]`
	}
	body += c.extra
	if c.stream {
		body += `,"stream":true`
		if c.surface == "chat" {
			body += `,"stream_options":{"include_usage":true}`
		}
	}
	return []byte(body + "}")
}

// The same four tools in every surface's form: two functions, a freeform one if the surface has those, and one in a
// namespace if it has those.
const (
	schemaOfRead = `{"type":"object","properties":{"path":{"type":"string"}}}`

	chatTools = `{"type":"function","function":{"name":"read","description":"Reads a file.","parameters":` + schemaOfRead + `}},` +
		`{"type":"function","function":{"name":"stat"}},{"type":"custom","custom":{"name":"patch"}},{"type":"function","function":{"name":"clock__sleep"}}`
	responsesTools = `{"type":"function","name":"read","description":"Reads a file.","parameters":` + schemaOfRead + `,"strict":false},` +
		`{"type":"function","name":"stat","parameters":null,"strict":false},` +
		`{"type":"custom","name":"patch","description":"Applies a patch.","format":{"type":"grammar","syntax":"lark","definition":"start: /.+/"}},` +
		`{"type":"namespace","name":"clock","description":"time","tools":[{"type":"function","name":"sleep","parameters":null,"strict":false}]}`
	messagesTools = `{"name":"read","description":"Reads a file.","input_schema":` + schemaOfRead + `},{"name":"stat","input_schema":{"type":"object"}},` +
		`{"name":"clock__sleep","input_schema":{"type":"object"}},{"name":"patch","input_schema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}`
	geminiTools = `{"name":"read","description":"Reads a file.","parameters":{"type":"OBJECT","properties":{"path":{"type":"STRING"}}}},{"name":"stat"},` +
		`{"name":"clock__sleep"},{"name":"patch","parametersJsonSchema":{"type":"object","properties":{"input":{"type":"string"}},"required":["input"]}}`
)
