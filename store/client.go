package store

import "strings"

// clientNames maps the product names in User-Agent headers to the names that people use for programs.
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

// ClientName returns the stable name of a program, by its product name or the name that people use.
func ClientName(product string) string {
	if len(product) > maxClientName {
		product = strings.ToValidUTF8(product[:maxClientName], "")
	}
	product = strings.ToLower(product)
	if name := clientNames[product]; name != "" {
		return name
	}
	return product
}

// maxClientName is how many bytes of a product's name are kept.
const maxClientName = 64

// Client returns the name of the program that sent the request, without its version; "" if it did not say.
func (x *ExchangeInfo) Client() string {
	for _, h := range x.Header {
		if strings.EqualFold(h.Name, "User-Agent") {
			product, _, _ := strings.Cut(h.Value, "/")
			return ClientName(product)
		}
	}
	return ""
}
