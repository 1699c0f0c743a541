package codec

import (
	"fmt"
	"slices"
	"strings"
)

// Format is a wire format. A surface is a format that clients may speak to us; a provider speaks one or more.
type Format uint8

const (
	FormatUnknown Format = iota
	Chat                 // Chat Completions
	Responses            // Responses
	Messages             // Messages
	Gemini               // generateContent and streamGenerateContent
	Embeddings           // Embeddings
	Pass                 // whatever else a provider offers, passed on as it is; a surface alone
)

var formatNames = []string{"unknown", "chat", "responses", "messages", "gemini", "embeddings", "pass"}

// NewFormat assigns a number to a format, by its name in configuration, headers and records. Numbers are assigned while
// the program starts, in the initialization of a variable, and never stored.
func NewFormat(name string) Format {
	formatNames = append(formatNames, name)
	return Format(len(formatNames) - 1)
}

// String returns the name used in configuration, headers and records.
func (f Format) String() string {
	if int(f) < len(formatNames) {
		return formatNames[f]
	}
	return formatNames[FormatUnknown]
}

// Converses reports whether requests in the format belong to a conversation.
func (f Format) Converses() bool { return f != FormatUnknown && f != Embeddings && f != Pass }

// FormatNames returns the names of the formats that providers speak.
func FormatNames() []string {
	return slices.DeleteFunc(slices.Clone(formatNames[1:]), func(name string) bool { return name == Pass.String() })
}

// ParseFormat reads a name as [Format.String] writes it.
func ParseFormat(name string) (Format, error) {
	for i, known := range formatNames[1:] {
		if name == known {
			return Format(i + 1), nil
		}
	}
	return FormatUnknown, fmt.Errorf("unknown format %q (known: %s)", name, strings.Join(FormatNames(), ", "))
}

// Family is the vendor whose models made reasoning state or signatures that only its models can read.
type Family uint8

const (
	FamilyOther Family = iota // DeepSeek and the OpenAI-compatible hosts, whose reasoning is plain text
	FamilyAnthropic
	FamilyOpenAI
	FamilyGoogle
	// FamilyDetails is state of any vendor as a host passes it on: JSON objects, elements of reasoning_details. Only the
	// host and the model that sent it get it back.
	FamilyDetails
)

var familyNames = [...]string{"other", "anthropic", "openai", "google", "reasoning_details"}

// String returns the name used in configuration and records.
func (f Family) String() string {
	if int(f) < len(familyNames) {
		return familyNames[f]
	}
	return familyNames[FamilyOther]
}
