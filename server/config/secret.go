package config

import (
	"fmt"
	"log/slog"
	"reflect"
)

// Secret is a credential. It always prints as [Redacted]; only [Secret.Reveal] returns the text.
type Secret string

// Redacted stands for a secret that is set.
const Redacted = "[secret]"

// Reveal returns the credential itself, for the one place that sends or compares it.
func (s Secret) Reveal() string { return string(s) }

// String returns [Redacted], or "" if no secret is set.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return Redacted
}

// Format prints the redacted form under every verb, including %#v and %x.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue keeps the secret out of logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the secret out of JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Secrets returns all credentials in the configuration.
func (c *Config) Secrets() (secrets []string) {
	eachSecret(reflect.ValueOf(c).Elem(), func(s Secret) {
		if s != "" {
			secrets = append(secrets, s.Reveal())
		}
	})
	return secrets
}

// eachSecret visits the secrets in a value of any type.
func eachSecret(v reflect.Value, visit func(Secret)) {
	if s, ok := v.Interface().(Secret); ok {
		visit(s)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				eachSecret(v.Field(i), visit)
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			eachSecret(v.Index(i), visit)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			eachSecret(v.MapIndex(key), visit)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			eachSecret(v.Elem(), visit)
		}
	}
}
