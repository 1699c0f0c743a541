package config

import (
	"fmt"
	"log/slog"
)

// Secret is a credential. Every way of printing it gives [Redacted]; only [Secret.Reveal] gives the text.
type Secret string

// Redacted stands for a secret that is set.
const Redacted = "[secret]"

// Reveal gives the credential itself, for the one place that sends or compares it.
func (s Secret) Reveal() string { return string(s) }

// String is [Redacted], or empty when no secret is set.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// Format prints the redacted form under every verb, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue keeps the secret out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the secret out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }
