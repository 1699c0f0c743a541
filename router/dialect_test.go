package router

import (
	"slices"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestEveryDialectIsWhole(t *testing.T) {
	owners := map[string]string{}
	for i := range dialects {
		d := &dialects[i]
		if lookupDialect(d.Name) != d {
			t.Errorf("there are two rows called %s", d.Name)
		}
		if d.Chat.Name != d.Name {
			t.Errorf("%s is called %s in Chat", d.Name, d.Chat.Name)
		}
		if slices.Contains(d.Formats, codec.Chat) && (d.Chat.MaxTokensMember == "" || d.Chat.RequiredWord == "") {
			t.Errorf("%s speaks Chat, but has no word for an output limit or a forced tool", d.Name)
		}
		if has := slices.Contains(d.Formats, codec.Embeddings) || slices.Contains(d.Formats, codec.Gemini); has != (d.Embeddings.DimensionsMember != "") {
			t.Errorf("%s: embeddings %v, but dimensions go into %q", d.Name, has, d.Embeddings.DimensionsMember)
		}
		if len(d.Formats) == 0 || d.KeyHeader == "" || (d.BaseURL == "") != (d.Name == compatibleDialect) {
			t.Errorf("%s has no format, credential header or base URL", d.Name)
		}
		for _, prefix := range d.Prefixes {
			if owner := owners[prefix]; owner != "" {
				t.Errorf("%s and %s both claim %q", owner, d.Name, prefix)
			}
			owners[prefix] = d.Name
		}
	}
	for _, name := range builtIn {
		if lookupDialect(name) == nil {
			t.Errorf("the built-in provider %s has no row", name)
		}
	}
}
