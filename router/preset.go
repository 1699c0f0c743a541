package router

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// A preset is a host that serves the models of others: a provider with its name, or with it as preset, needs only a
// credential. Names of the form HOST/MODEL lead there, as MODEL.
type preset struct {
	name    string
	dialect string
	baseURL string // "" if it depends on settings
	formats []codec.Format
	keyless bool   // works without a credential, or makes its own
	key     string // variable in which the host's own tools look for the credential
	place   func(*ProviderConfig) (string, error)
	wire    func(*ProviderConfig, *url.URL) wire // nil: that of the dialect
}

var (
	chatOnly          = []codec.Format{codec.Chat}
	chatAndEmbeddings = []codec.Format{codec.Chat, codec.Embeddings}
)

// Sources: the hosts' own pages on OpenAI compatibility, and docs/wire/hosts.md for the three clouds.
var presets = []preset{
	{name: "openrouter", dialect: compatibleDialect, baseURL: "https://openrouter.ai/api/v1", formats: chatOnly, key: "OPENROUTER_API_KEY"},
	{name: "ollama", dialect: compatibleDialect, baseURL: "http://127.0.0.1:11434/v1", formats: chatAndEmbeddings, keyless: true},
	{name: "lmstudio", dialect: compatibleDialect, baseURL: "http://127.0.0.1:1234/v1", formats: chatAndEmbeddings, keyless: true},
	{name: "vllm", dialect: compatibleDialect, baseURL: "http://127.0.0.1:8000/v1", formats: chatAndEmbeddings, keyless: true},
	{name: "llamacpp", dialect: compatibleDialect, baseURL: "http://127.0.0.1:8080/v1", formats: chatAndEmbeddings, keyless: true},
	{name: "groq", dialect: compatibleDialect, baseURL: "https://api.groq.com/openai/v1", formats: chatOnly, key: "GROQ_API_KEY"},
	{name: "together", dialect: compatibleDialect, baseURL: "https://api.together.xyz/v1", formats: chatAndEmbeddings, key: "TOGETHER_API_KEY"},
	{name: "mistral", dialect: "mistral", key: "MISTRAL_API_KEY"},
	{name: "xai", dialect: "xai", key: "XAI_API_KEY"},
	{
		name: "azure", dialect: "openai", formats: []codec.Format{codec.Chat, codec.Responses, codec.Embeddings}, key: "AZURE_OPENAI_API_KEY",
		place: placeOfAzure, wire: newAzure,
	},
	{name: "vertex", dialect: "gemini", formats: []codec.Format{codec.Gemini}, keyless: true, place: placeOfVertex, wire: newVertex},
	{name: "vertex-claude", dialect: "anthropic", formats: []codec.Format{codec.Messages}, keyless: true, place: placeOfVertex, wire: newVertex},
	{name: "bedrock", dialect: "anthropic", formats: []codec.Format{codec.Messages}, keyless: true, place: placeOfBedrock, wire: newBedrock},
}

// Presets lists the names of the known hosts.
func Presets() []string {
	names := make([]string, len(presets))
	for i := range presets {
		names[i] = presets[i].name
	}
	return names
}

// KeyVariable returns the variable in which a host's own tools look for the credential of a provider; "" for none.
func KeyVariable(provider, preset string) string {
	if h := presetOf(provider, preset); h != nil {
		return h.key
	}
	return ""
}

// presetOf returns the host of a provider: the one it names as its preset, else the one of its own name; nil for none.
func presetOf(provider, named string) *preset {
	name := strings.ReplaceAll(cmp.Or(named, provider), ".", "") // llama.cpp is not a valid provider name
	if i := slices.IndexFunc(presets, func(h preset) bool { return h.name == name }); i >= 0 {
		return &presets[i]
	}
	return nil
}

// Keyless reports whether a provider of that name needs no credential in the configuration.
func (c ProviderConfig) Keyless(name string) bool {
	h := presetOf(name, c.Preset)
	return h != nil && h.keyless
}

// complete fills in the host's known settings. The error begins with the setting.
func (h *preset) complete(c *ProviderConfig) error {
	c.Dialect = cmp.Or(c.Dialect, h.dialect)
	if len(c.Formats) == 0 {
		c.Formats = h.formats
	}
	if h.keyless && !c.HasKey() {
		c.APIKey = h.name // some of them require any value
	}
	if c.HasURL() {
		return nil
	}
	c.BaseURL = h.baseURL
	if h.place == nil {
		return nil
	}
	base, err := h.place(c)
	c.BaseURL = base
	return err
}

func placeOfAzure(*ProviderConfig) (string, error) {
	return "", errors.New("base_url is missing: give that of the resource, such as https://RESOURCE.openai.azure.com")
}

func placeOfVertex(c *ProviderConfig) (string, error) {
	switch {
	case c.Project == "":
		return "", errors.New("project is missing: give the id of the Google Cloud project")
	case strings.ContainsAny(c.Project+c.Region, "/?# "):
		return "", errors.New("project: it and region are names without spaces and slashes")
	case c.Region == "" || c.Region == "global":
		return "https://aiplatform.googleapis.com", nil
	}
	return fmt.Sprintf("https://%s-aiplatform.googleapis.com", c.Region), nil
}

func placeOfBedrock(c *ProviderConfig) (string, error) {
	switch {
	case c.Region == "":
		return "", errors.New("region is missing: give the AWS region, such as us-east-1")
	case strings.ContainsAny(c.Region, "/?#:@. "):
		return "", errors.New("region is not the name of an AWS region")
	}
	return fmt.Sprintf("https://bedrock-runtime.%s.amazonaws.com", c.Region), nil
}
