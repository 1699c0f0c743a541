package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestABodyWithoutReferencesIsLookedAtWithoutAllocations(t *testing.T) {
	body := []byte(`{"model":"m","input":[{"role":"user","content":"` + strings.Repeat("words and more words ", 10_000) + `"}]}`)
	for _, format := range []codec.Format{codec.Chat, codec.Responses, codec.Messages, codec.Gemini, codec.Embeddings} {
		if n := testing.AllocsPerRun(10, func() {
			if mayRefer(format, body) {
				t.Errorf("%s: a reference is seen", format)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", format, n)
		}
	}
}

// Each level of a body is read once more for each level above it: without a bound one request would keep a processor for minutes.
func TestReferencesAreSearchedAsDeepAsProvidersDefineThem(t *testing.T) {
	for nested, c := range map[string]struct {
		levels int
		found  int
	}{
		`{"a":%s}`: {levels: deepest - 1, found: 1},
		`[%s]`:     {levels: deepest - 1, found: 1},
		`{"b":%s}`: {levels: deepest, found: 0},
		`[[%s]]`:   {levels: deepest, found: 0},
	} {
		body := `{"file_id":"file-1"}`
		for range c.levels {
			body = fmt.Sprintf(nested, body)
		}
		found := 0
		references([]byte(`{"input":`+body+`}`), func(reference) { found++ })
		if found != c.found {
			t.Errorf("in %d levels of %s %d references are found, want %d", c.levels, nested, found, c.found)
		}
	}
}

// What a request may name, in every spelling that its provider reads, and what only looks like it.
func TestWhatARequestNamesAtItsProviderIsSeen(t *testing.T) {
	const uri = "https://generativelanguage.googleapis.com/v1beta/files/abc"
	part := func(member string) string { return `{"contents":[{"role":"user","parts":[` + member + `]}]}` }
	for name, c := range map[string]struct {
		format codec.Format
		body   string
		want   string
	}{
		"a file of Google's":      {codec.Gemini, part(`{"fileData":{"mimeType":"image/png","fileUri":"` + uri + `"}}`), "File files/abc"},
		"escaped slashes":         {codec.Gemini, part(`{"fileData":{"fileUri":"` + strings.ReplaceAll(uri, "/", `\/`) + `"}}`), "File files/abc"},
		"in its other spelling":   {codec.Gemini, part(`{"file_data":{"mime_type":"image/png","file_uri":"` + uri + `"}}`), "File files/abc"},
		"by its name":             {codec.Gemini, part(`{"fileData":{"fileUri":"files/abc"}}`), "File files/abc"},
		"a host in capitals":      {codec.Gemini, part(`{"fileData":{"fileUri":"https://GenerativeLanguage.GoogleAPIs.com:443/v1beta/files/abc"}}`), "File files/abc"},
		"an address without one":  {codec.Gemini, part(`{"fileData":{"fileUri":"https://generativelanguage.googleapis.com/v1beta/%66iles/abc"}}`), "File https://generativelanguage.googleapis.com/v1beta/%66iles/abc"},
		"in a result":             {codec.Gemini, part(`{"functionResponse":{"name":"f","response":{"file_uri":"files/no"},"parts":[{"fileData":{"fileUri":"files/abc"}}]}}`), "File files/abc"},
		"a cache":                 {codec.Gemini, `{"contents":[],"cachedContent":"cachedContents/abc"}`, "Cached content cachedContents/abc"},
		"a cache, other spelling": {codec.Gemini, `{"contents":[],"cached_content":"cachedContents/abc"}`, "Cached content cachedContents/abc"},
		"a store":                 {codec.Gemini, `{"tools":[{"fileSearch":{"fileSearchStoreNames":["fileSearchStores/a","fileSearchStores/b"]}}]}`, "File search store fileSearchStores/a, File search store fileSearchStores/b"},
		"a store, other spelling": {codec.Gemini, `{"tools":[{"file_search":{"file_search_store_names":["fileSearchStores/a"]}}]}`, "File search store fileSearchStores/a"},
		"a corpus":                {codec.Gemini, `{"semanticRetriever":{"source":"corpora/a"}}`, "Corpus corpora/a"},
		"a video of everyone's":   {codec.Gemini, part(`{"fileData":{"fileUri":"https://www.youtube.com/watch?v=files/"}}`), ""},
		"what a schema says":      {codec.Gemini, `{"tools":[{"functionDeclarations":[{"name":"f","parametersJsonSchema":{"default":{"file_uri":"files/no"}}}]}],"generationConfig":{"responseJsonSchema":{"default":{"file_uri":"files/no"}}}}`, ""},
		"a call's arguments":      {codec.Gemini, part(`{"functionCall":{"name":"f","args":{"file_uri":"files/no"}}}`), ""},
		"an interaction":          {codec.FormatUnknown, `{"previous_interaction_id":"int_1","input":[{"type":"image","uri":"` + uri + `"},{"type":"function_result","result":{"uri":"files/no"}}]}`, "Interaction int_1, File files/abc"},
		"a skill":                 {codec.Responses, `{"tools":[{"type":"shell","environment":{"type":"container_auto","skills":[{"type":"skill_reference","skill_id":"skill_1"},{"type":"skill_reference","skill_id":"openai-sheets"}]}}]}`, "Skill skill_1"},
		"a skill of Messages":     {codec.Messages, `{"container":{"skills":[{"type":"anthropic","skill_id":"xlsx"},{"type":"custom","skill_id":"skill_1"}]}}`, "Skill skill_1"},
		"a source":                {codec.FormatUnknown, `{"data_source":{"type":"jsonl","source":{"type":"file_id","id":"file-1"}}}`, "File file-1"},
	} {
		var found []string
		references([]byte(c.body), func(r reference) { found = append(found, r.kind+" "+r.id) })
		if got := strings.Join(found, ", "); got != c.want {
			t.Errorf("%s: %q is found, want %q", name, got, c.want)
		}
		if c.want != "" && c.format != codec.FormatUnknown && !mayRefer(c.format, []byte(c.body)) {
			t.Errorf("%s: the body is not searched", name)
		}
	}
}

func BenchmarkMayRefer(b *testing.B) {
	body := []byte(`{"model":"m","input":[{"role":"user","content":"` + strings.Repeat(`func (x *exchange) read() { return \"x\" }\n `, 4_600) + `"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		mayRefer(codec.Responses, body)
	}
}
