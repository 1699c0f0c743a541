package search

import (
	"strings"

	"github.com/mnemeproxy/mneme/store"
)

// clientNames are the names that people use for programs, by the product names in their User-Agent headers.
var clientNames = map[string]string{
	"claude-cli":     "claude-code",
	"claude":         "claude-code",
	"codex_exec":     "codex",
	"codex_cli_rs":   "codex",
	"codex-tui":      "codex",
	"codex_vscode":   "codex",
	"qwencode":       "qwen-code",
	"qwen":           "qwen-code",
	"geminicli":      "gemini-cli",
	"asyncopenai":    "openai",
	"asyncanthropic": "anthropic",
}

// clientName gives the stable name of a program by a product name or by what people call it.
func clientName(product string) string {
	product = strings.ToLower(cut(product, 64))
	if name := clientNames[product]; name != "" {
		return name
	}
	return product
}

// ClientOf names the program that sent a request, without its version.
func ClientOf(info *store.ExchangeInfo) string {
	for _, h := range info.Header {
		if strings.EqualFold(h.Name, "User-Agent") {
			product, _, _ := strings.Cut(h.Value, "/")
			return clientName(product)
		}
	}
	return ""
}

// facetValue gives the value under which the index holds what a person asks for.
func facetValue(name, value string) string {
	if name == "client" {
		return clientName(value)
	}
	return value
}
