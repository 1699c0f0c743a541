package provider

import (
	"net/http"
	"strconv"
	"strings"
)

// modelNames is what the simulated provider says it has; it answers to every name.
var modelNames = []struct{ name, owner string }{
	{"claude-opus-5-5", "anthropic"},
	{"claude-sonnet-5-5", "anthropic"},
	{"claude-haiku-5-5", "anthropic"},
	{"gpt-6-sol", "openai"},
	{"gpt-5.5", "openai"},
	{"gpt-4.1", "openai"},
	{"o4-mini", "openai"},
	{"text-embedding-3-small", "openai"},
	{"text-embedding-3-large", "openai"},
	{"gemini-3.8-flash", "google"},
	{"gemini-2.5-pro", "google"},
	{"gemini-embedding-001", "google"},
	{"deepseek-v4-pro", "deepseek"},
	{"deepseek-flash", "deepseek"},
}

// models answers GET /v1/models: in the shape of Anthropic when the request has its version header, else of OpenAI.
func (s *Server) models(c *call) error {
	if c.r.Header.Get("Anthropic-Version") != "" {
		messagesFormat{}.header(c.w.Header(), "req_"+c.id)
		return deliver(c.w, &delivery{}, http.StatusOK, anthropicModels())
	}
	if err := c.admit(openaiErrors{}); err != nil {
		return err
	}
	created := strconv.FormatInt(fixedTime.Unix(), 10)
	var all []string
	for _, m := range modelNames {
		all = append(all, `{"id":"`+m.name+`","object":"model","created":`+created+`,"owned_by":"`+m.owner+`"}`)
	}
	return deliver(c.w, &delivery{}, http.StatusOK, []byte(`{"object":"list","data":[`+strings.Join(all, ",")+`]}`))
}

func anthropicModels() []byte {
	var all, names []string
	for _, m := range modelNames {
		if m.owner != "anthropic" {
			continue
		}
		names = append(names, m.name)
		all = append(all, `{"type":"model","id":"`+m.name+`","display_name":"`+m.name+` (simulated)","created_at":"2026-11-20T00:00:00Z","lifecycle":"active","max_input_tokens":200000,"max_tokens":64000}`)
	}
	return []byte(`{"data":[` + strings.Join(all, ",") + `],"has_more":false,"first_id":"` + names[0] + `","last_id":"` + names[len(names)-1] + `"}`)
}

// geminiModels answers GET /v1beta/models.
func (s *Server) geminiModels(c *call) error {
	if err := c.admit(geminiFormat{}); err != nil {
		return err
	}
	var all []string
	for _, m := range modelNames {
		if m.owner != "google" {
			continue
		}
		methods := `"generateContent","countTokens"`
		if strings.Contains(m.name, "embedding") {
			methods = `"embedContent","countTextTokens"`
		}
		all = append(all, `{"name":"models/`+m.name+`","version":"simulated","displayName":"`+m.name+` (simulated)","description":"Simulated by mneme; not a model.","inputTokenLimit":1048576,"outputTokenLimit":65536,"supportedGenerationMethods":[`+methods+`]}`)
	}
	return deliver(c.w, &delivery{}, http.StatusOK, []byte(`{"models":[`+strings.Join(all, ",")+`]}`))
}
