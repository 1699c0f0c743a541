package crossing_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
)

// onlyRead are the members that one half of a format reads and its other half never writes, with the reason. A member
// that is missing here was forgotten: what came in with it goes out without it.
var onlyRead = map[string]map[string]string{
	"chat": {
		"city":                        "the place of a searcher, which is copied",
		"country":                     "the place of a searcher, which is copied",
		"region":                      "the place of a searcher, which is copied",
		"timezone":                    "the place of a searcher, which is copied",
		"num_cached_tokens":           "counts, under other names or in other sums",
		"prompt_cache_hit_tokens":     "counts, under other names or in other sums",
		"cache_read_input_tokens":     "counts, under other names or in other sums",
		"cache_creation_tokens":       "counts, under other names or in other sums",
		"cache_creation_input_tokens": "counts, under other names or in other sums",
		"prompt_token_details":        "counts, under other names or in other sums",
		"cache_write_tokens_details":  "counts, under other names or in other sums",
		"ttl_12h_tokens":              "counts, under other names or in other sums",
		"budget_tokens":               "another host's word for how much to reason",
		"effort":                      "another host's word for how much to reason",
		"enabled":                     "another host's word for how much to reason",
		"exclude":                     "another host's word for how much to reason",
		"include_reasoning":           "another host's word for how much to reason",
		"reasoning":                   "another host's word for how much to reason",
		"moderation":                  "copied by name, see Request.Share",
		"prompt_cache_options":        "copied by name, see Request.Share",
		"prompt_cache_retention":      "copied by name, see Request.Share",
		"client_metadata":             "kept from providers",
		"service_chat_key":            "kept from providers",
		"service_external_session_id": "kept from providers",
		"modalities":                  "only says that audio is wanted",
		"loc":                         "of an error",
		"msg":                         "of an error",
		"source":                      "of an error",
		"status":                      "of an error",
	},
	"responses": {
		"approximate":                "the place of a searcher, which is copied",
		"city":                       "the place of a searcher, which is copied",
		"country":                    "the place of a searcher, which is copied",
		"region":                     "the place of a searcher, which is copied",
		"timezone":                   "the place of a searcher, which is copied",
		"cache_write_tokens_details": "counts, in other sums",
		"ttl_12h_tokens":             "counts, in other sums",
		"moderation":                 "copied by name, see Request.Share",
		"prompt_cache_options":       "copied by name, see Request.Share",
		"prompt_cache_retention":     "copied by name, see Request.Share",
		"context":                    "refused or noted: no other provider can do it",
		"context_management":         "refused or noted: no other provider can do it",
		"conversation":               "refused or noted: no other provider can do it",
		"environment":                "refused or noted: no other provider can do it",
		"prompt":                     "refused or noted: no other provider can do it",
		"audio_url":                  "a form that some clients send, written in the usual one",
		"author":                     "a form that some clients send, written in the usual one",
		"custom":                     "a form that some clients send, written in the usual one",
		"function":                   "a form that some clients send, written in the usual one",
		"generate":                   "of an event on a WebSocket, or left out of a request for a summary",
		"stream_options":             "of an event on a WebSocket, or left out of a request for a summary",
		"generate_summary":           "a form that some clients send, written in the usual one",
		"grammar":                    "a form that some clients send, written in the usual one",
		"url_citation":               "a form that some clients send, written in the usual one",
		"blocked_domains":            "of another provider's tool",
		"max_uses":                   "of another provider's tool",
		"revised_prompt":             "of another provider's tool",
	},
	"messages": {
		"$ref":                "of a schema, which is copied or folded",
		"allOf":               "of a schema, which is copied or folded",
		"definition":          "of a schema, which is copied or folded",
		"oneOf":               "of a schema, which is copied or folded",
		"approximate":         "the place of a searcher, which is copied",
		"city":                "the place of a searcher, which is copied",
		"country":             "the place of a searcher, which is copied",
		"timezone":            "the place of a searcher, which is copied",
		"code":                "of an item of another format",
		"detail":              "of an item of another format",
		"filters":             "of an item of another format",
		"search_context_size": "of an item of another format",
		"sources":             "of an item of another format",
		"status":              "of an item of another format",
		"url_citation":        "of an item of another format",
		"web":                 "of an item of another format",
		"clear_at":            "put into words or noted",
		"context":             "put into words or noted",
		"previous_message_id": "put into words or noted",
		"tool_references":     "put into words or noted",
	},
}

// The two halves of a format have to know the same members, or what one reads is lost in the other.
func TestNoMemberIsReadAndNeverWritten(t *testing.T) {
	for format, reasons := range onlyRead {
		read, written := membersOf(t, format)
		var lost []string
		for name := range read {
			if !written[name] && reasons[name] == "" {
				lost = append(lost, name)
			}
		}
		slices.Sort(lost)
		if len(lost) > 0 {
			t.Errorf("%s reads and never writes %q", format, lost)
		}
		for name := range reasons {
			if !read[name] || written[name] {
				t.Errorf("%s: %s is no longer only read", format, name)
			}
		}
	}
}

var memberName = regexp.MustCompile(`"([A-Za-z0-9_$]+)\\?":`)

// membersOf collects from a format's source the members that it looks for in objects, and those in the text that it writes.
func membersOf(t *testing.T, format string) (read, written map[string]bool) {
	t.Helper()
	read, written = map[string]bool{}, map[string]bool{}
	paths, _ := filepath.Glob(filepath.Join("..", format, "*.go"))
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		looked := map[ast.Expr]bool{} // literals that only look for something
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SwitchStmt:
				for _, clause := range n.Body.List {
					for _, value := range clause.(*ast.CaseClause).List {
						looked[value] = true
						if isKey(n.Tag) {
							note(read, value)
						}
					}
				}
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					looked[n.X], looked[n.Y] = true, true
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "Get" || f.Sel.Name == "Path" || f.Sel.Name == "Drop") {
					for i, name := range n.Args {
						looked[name] = true
						if i > 0 && f.Sel.Name != "Drop" {
							note(read, name)
						}
					}
				}
			case *ast.BasicLit:
				if n.Kind != token.STRING || looked[n] {
					break
				}
				for _, match := range memberName.FindAllStringSubmatch(n.Value, -1) {
					written[match[1]] = true
				}
				note(written, n) // the argument of what writes a member
			}
			return true
		})
	}
	return read, written
}

// isKey reports whether a switch is about the name of a member.
func isKey(tag ast.Expr) bool {
	call, ok := tag.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return false
	}
	switch arg := call.Args[0].(type) {
	case *ast.SelectorExpr:
		return arg.Sel.Name == "Key"
	case *ast.Ident:
		return arg.Name == "key"
	}
	return false
}

func note(names map[string]bool, value ast.Expr) {
	if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
		if name, err := strconv.Unquote(literal.Value); err == nil && name != "" {
			names[name] = true
		}
	}
}

// nulls are the members that answers have as null. Clients that know only absence, or a list, fail on a null: each of these
// is read by AI SDK 5 and 6, OpenAI's SDK 4 and 6, Anthropic's 0.39 and 1, and LangChain 0.3 and 1 (make js-clients).
var nulls = map[codec.Format][]string{
	codec.Chat: {"content", "finish_reason", "logprobs", "refusal", "usage"},
	codec.Responses: {
		"access_programs", "completed_at", "description", "effort", "error", "incomplete_details", "instructions", "max_output_tokens", "max_tool_calls", "previous_response_id",
		"prompt_cache_key", "result", "safety_identifier", "summary", "usage", "user",
	},
	codec.Messages: {
		"category", "container", "diagnostics", "explanation", "inference_geo", "server_tool_use", "service_tier", "speed", "stop_details", "stop_reason", "stop_sequence",
	},
}

func TestAnswersHaveNoOtherNullsThanClientsRead(t *testing.T) {
	call := `{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}`
	for surface, allowed := range nulls {
		found := map[string]bool{}
		for _, c := range []struct{ message, finish string }{
			{`{"role":"assistant","content":"a","annotations":[{"type":"url_citation","url_citation":{"url":"https://example.com","title":"t","start_index":0,"end_index":1}}]}`, "stop"},
			{`{"role":"assistant","content":null,"tool_calls":[` + call + `]}`, "tool_calls"},
			{`{"role":"assistant","content":"a","reasoning_content":"b"}`, "length"},
			{`{"role":"assistant","content":null,"refusal":"no"}`, "content_filter"},
			{`{"role":"assistant","content":"a","images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + picture + `"}}]}`, "stop"},
		} {
			model, frames, answer := own, chatFrames(c.finish, strings.Replace(c.message, `{"id":"c1"`, `{"index":0,"id":"c1"`, 1)), chatAnswer(c.message, c.finish)
			if surface == codec.Chat { // its own format passes
				model, answer = claude, messagesAnswer(`{"type":"thinking","thinking":"b","signature":"s"},{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"f","input":{}}`, "tool_use")
				if c.finish != "tool_calls" {
					answer = messagesAnswer(`{"type":"text","text":"a"}`, map[string]string{"length": "max_tokens", "content_filter": "refusal"}[c.finish])
				}
				frames = messagesFrames("a")
			}
			body := strings.Replace(askForCalls[surface], "HISTORY", "", 1)
			x, _, err := prepare(surface, model, `{"model":"`+model+`",`+body+`}`, nil)
			if err != nil {
				t.Fatal(err)
			}
			whole, _, err := x.Answer(nil, []byte(answer))
			x.Release()
			if err != nil {
				t.Fatal(err)
			}
			addNulls(t, found, string(whole))
			for line := range strings.Lines(heard(t, surface, model, body, frames...)) {
				if data, isData := strings.CutPrefix(strings.TrimSpace(line), "data: "); isData && data != "[DONE]" {
					addNulls(t, found, data)
				}
			}
		}
		got := slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(name string) bool { return slices.Contains(allowed, name) })
		if diff := cmp.Diff([]string(nil), got); len(got) > 0 {
			t.Errorf("%s has nulls that no client was seen to read: %s", surface, diff)
		}
	}
}

// addNulls adds the names of the members that are null in a document.
func addNulls(t *testing.T, names map[string]bool, document string) {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(document), &value); err != nil {
		t.Fatalf("%v: %s", err, document)
	}
	var walk func(any)
	walk = func(value any) {
		switch value := value.(type) {
		case map[string]any:
			for name, inner := range value {
				if inner == nil {
					names[name] = true
				}
				walk(inner)
			}
		case []any:
			for _, inner := range value {
				walk(inner)
			}
		}
	}
	walk(value)
}
