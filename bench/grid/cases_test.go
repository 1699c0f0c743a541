package grid

import "strings"

// A crossing is one column: a surface and the format to which it is translated.
type crossing struct {
	surface string
	to      upstream
}

func (x crossing) String() string { return x.surface + "→" + x.to.name }

// A story is one row: what the model does, as a script for the simulated provider, and what the client should
// understand.
type story struct {
	name   string
	script string
	with   []string // sent with the user's text: "image", "document"
	// extra has further members of the request, by surface.
	extra map[string]string
	// results is the kind of the calls' results: "" for text, "image" for text and a picture.
	results string
	// between is an operator's instruction after the results of the first turn.
	between string
	// from is the model that gives the first answer; the next ones come from the column's.
	from string
	want []said
	// toResponses is the script for Responses if it has to differ.
	toResponses string
	// but changes what is wanted if a format has no slot for it or another convention.
	but func(x crossing, stream bool, want []said)
	// none returns why the case does not exist in a column.
	none func(x crossing) string
}

// asksForReasoning is how each surface asks to see reasoning.
var asksForReasoning = map[string]string{
	"chat":      `,"reasoning_effort":"low"`,
	"responses": `,"reasoning":{"effort":"low","summary":"auto"}`,
	"messages":  `,"thinking":{"type":"adaptive","display":"summarized"},"output_config":{"effort":"low"}`,
	"gemini":    `,"generationConfig":{"thinkingConfig":{"thinkingLevel":"LOW","includeThoughts":true}}`,
}

const personSchema = `{"type":"object","properties":{"name":{"type":"string"},"n":{"type":"integer"},"kind":{"enum":["b","c"]}},"required":["name","n","kind"],"additionalProperties":false}`

var asksForPerson = map[string]string{
	"chat":      `,"tools":[],"response_format":{"type":"json_schema","json_schema":{"name":"person","schema":` + personSchema + `}}`,
	"responses": `,"tools":[],"text":{"format":{"type":"json_schema","name":"person","schema":` + personSchema + `}}`,
	"messages":  `,"tools":[],"output_config":{"format":{"type":"json_schema","schema":` + personSchema + `}}`,
	"gemini":    `,"tools":[],"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":` + personSchema + `}`,
}

var asksForObject = map[string]string{
	"chat":      `,"tools":[],"response_format":{"type":"json_object"}`,
	"responses": `,"tools":[],"text":{"format":{"type":"json_object"}}`,
	"gemini":    `,"tools":[],"generationConfig":{"responseMimeType":"application/json"}`,
}

var stopsAtEnd = map[string]string{
	"chat":     `,"stop":["END"]`,
	"messages": `,"stop_sequences":["END"]`,
	"gemini":   `,"generationConfig":{"stopSequences":["END"]}`,
}

var manyTurns = strings.Repeat(`call read {"path":"a.go"} ; then ; `, 8) + `text "Eight files read."`

var stories = []story{
	{name: "text", script: `text "Hello, world."`, want: []said{{Text: "Hello, world.", Stop: "end"}}},
	{name: "empty answer", script: `empty`, want: []said{{Stop: "end"}}},
	{
		name: "Unicode cut everywhere", script: `size 1 ; text "e\u0301 \ud83d\ude00 漢字 \u0000 \"\\\n"`,
		want: []said{{Text: "e\u0301 😀 漢字 \x00 \"\\\n", Stop: "end"}},
	},
	{name: "surrogate pair cut in two", script: `split-surrogates ; size 1 ; text "a😀b"`, want: []said{{Text: "a😀b", Stop: "end"}}},
	{name: "one call", script: `call read {"path":"a.go"}`, want: []said{{Calls: []string{`read {"path":"a.go"}`}, Stop: "calls"}}},
	{name: "call without arguments", script: `call stat`, want: []said{{Calls: []string{`stat {}`}, Stop: "calls"}}},
	{
		name: "parallel calls and their results", script: `call read {"path":"a.go"} ; call stat ; then ; text "Both done."`,
		want: []said{{Calls: []string{`read {"path":"a.go"}`, `stat {}`}, Stop: "calls"}, {Text: "Both done.", Stop: "end"}},
	},
	{
		name: "parallel calls, fragments interleaved", script: `interleave ; size 3 ; call read {"path":"a.go"} ; call read {"path":"b.go"} ; call stat`,
		want: []said{{Calls: []string{`read {"path":"a.go"}`, `read {"path":"b.go"}`, `stat {}`}, Stop: "calls"}},
	},
	{
		name: "text around calls", script: `text "before " ; call read {"path":"a.go"} ; text "after" ; then ; text "Done."`,
		want: []said{{Text: "before after", Calls: []string{`read {"path":"a.go"}`}, Stop: "calls"}, {Text: "Done.", Stop: "end"}},
	},
	{
		name: "freeform tool", script: `size 3 ; custom patch "*** \"Begin\"\n\u00e9\\" ; then ; text "Patched."`,
		want: []said{{Calls: []string{"patch=*** \"Begin\"\né\\"}, Stop: "calls"}, {Text: "Patched.", Stop: "end"}},
		but: func(x crossing, _ bool, want []said) {
			if x.surface == "messages" || x.surface == "gemini" {
				want[0].Calls = []string{`patch {"input":"*** \"Begin\"\né\\"}`}
			}
		},
	},
	{
		name: "tool in a namespace", script: `call sleep {"ms":5} namespace=clock ; then ; text "Slept."`,
		want: []said{{Calls: []string{`clock__sleep {"ms":5}`}, Stop: "calls"}, {Text: "Slept.", Stop: "end"}},
		but: func(x crossing, _ bool, want []said) {
			if x.surface == "responses" {
				want[0].Calls = []string{`clock/sleep {"ms":5}`}
			}
		},
	},
	{
		name: "reasoning", script: `reasoning "Think first." ; text "Then speak."`, extra: asksForReasoning,
		want: []said{{Reasoning: "Think first.", Text: "Then speak.", Stop: "end"}},
		but:  hidesReasoning,
	},
	{
		name: "reasoning in a tool loop", extra: asksForReasoning,
		script: `reasoning "Look." ; call read {"path":"a.go"} ; then ; reasoning "Look again." ; call stat ; then ; text "Found."`,
		want: []said{
			{Reasoning: "Look.", Calls: []string{`read {"path":"a.go"}`}, Stop: "calls"},
			{Reasoning: "Look again.", Calls: []string{`stat {}`}, Stop: "calls"},
			{Text: "Found.", Stop: "end"},
		},
		but: hidesReasoning,
	},
	{
		name: "redacted reasoning in a tool loop", extra: asksForReasoning,
		script: `redacted ; call read {"path":"a.go"} ; then ; text "Found."`,
		want:   []said{{Calls: []string{`read {"path":"a.go"}`}, Stop: "calls"}, {Text: "Found.", Stop: "end"}},
	},
	{
		name: "picture from the user", with: []string{"image"}, script: `text "A dot."`,
		want: []said{{Text: "A dot.", Stop: "end"}},
	},
	{
		name: "picture in a result", results: "image", script: `call read {"path":"a.png"} ; then ; text "A dot."`,
		want: []said{{Calls: []string{`read {"path":"a.png"}`}, Stop: "calls"}, {Text: "A dot.", Stop: "end"}},
		none: func(x crossing) string {
			if x.surface == "chat" {
				return "Chat has only text in results"
			}
			return ""
		},
	},
	{
		name: "document from the user", with: []string{"document"}, script: `text "One page."`,
		want: []said{{Text: "One page.", Stop: "end"}},
	},
	{
		name: "structured output", extra: asksForPerson, script: `text "{\"name\":\"simulated\",\"n\":3,\"kind\":\"b\"}"`,
		want: []said{{Text: `{"name":"simulated","n":3,"kind":"b"}`, Stop: "end"}},
	},
	{
		name: "any JSON object", extra: asksForObject, script: `text "{\"a\":1}"`,
		want: []said{{Text: `{"a":1}`, Stop: "end"}},
		none: func(x crossing) string {
			if x.surface == "messages" {
				return "Messages cannot ask for it"
			}
			return ""
		},
	},
	{
		name: "stop sequence", extra: stopsAtEnd, script: `size 2 ; text "up to " ; stop sequence "END"`,
		toResponses: `size 2 ; text "up to END and more"`,
		want:        []said{{Text: "up to ", Stop: "end"}},
		none: func(x crossing) string {
			if x.surface == "responses" {
				return "Responses has no stop sequences"
			}
			return ""
		},
		but: func(x crossing, _ bool, want []said) {
			if x.surface == "messages" && x.to.name == "responses" { // the others do not report that one matched
				want[0].Stop = "sequence"
			}
		},
	},
	{name: "output limit", script: `text "cut off he" ; stop length`, want: []said{{Text: "cut off he", Stop: "length"}}},
	{
		name: "output limit inside a call", script: `text "t" ; call read {"path":"abc"} ; stop call`,
		want: []said{{Text: "t", Calls: []string{`read {"path"`}, Stop: "length"}},
		but: func(x crossing, stream bool, want []said) {
			switch {
			case x.to.name == "gemini", x.surface == "gemini":
				want[0].Calls = nil // calls arrive complete or not at all
			case x.surface == "messages":
				want[0].Calls = []string{`read {}`} // no object can contain half of one; the reason for stopping says so
			case x.to.name == "messages" && !stream:
				want[0].Calls = []string{`read {`} // the object comes empty, and must not look whole
			}
		},
	},
	{name: "context full", script: `text "no room" ; stop context`, want: []said{{Text: "no room", Stop: "length"}}},
	{
		name: "refusal", script: `refuse "I would rather not."`,
		want: []said{{Refusal: "I would rather not.", Stop: "end"}},
		but: func(x crossing, _ bool, want []said) {
			switch {
			case x.to.name == "gemini": // never gives its reasons
				want[0] = said{Stop: "filter"}
			case x.surface == "messages" || x.surface == "gemini" || x.to.name == "messages": // refused in plain text, with a reason for stopping
				want[0] = said{Text: "I would rather not.", Stop: "filter"}
			case x.surface == "chat" && x.to.name == "responses":
				want[0].Stop = "filter"
			}
		},
	},
	{name: "content filter", script: `text "half" ; stop filter`, want: []said{{Text: "half", Stop: "filter"}}},
	{
		name: "prompt blocked", script: `block`, want: []said{{Stop: "filter"}},
		but: func(x crossing, _ bool, want []said) {
			if x.to.name == "messages" { // says why
				want[0].Refusal = "The simulated provider refuses, because the script says so."
				switch x.surface {
				case "responses":
					want[0].Stop = "end" // a refusal is a part of a completed response there
				case "gemini":
					want[0].Text, want[0].Refusal = want[0].Refusal, ""
				}
			}
		},
	},
	{
		name: "usage with caches", script: `text "hi" ; usage input=100 cached=64 output=20 reasoning=7`,
		want: []said{{Text: "hi", Stop: "end", Usage: counts{100, 64, 0, 20, 7}}},
	},
	{
		name: "search with a citation", script: `search "go release" url=https://go.dev ; text "Go 1.26 is out." ; cite https://go.dev/doc "Go"`,
		want: []said{{Text: "Go 1.26 is out.", Cited: []string{"https://go.dev/doc"}, Stop: "end"}},
	},
	{
		name: "unknown events and members", script: `unknown ; text "still here" ; call stat`,
		want: []said{{Text: "still here", Calls: []string{`stat {}`}, Stop: "calls"}},
	},
	{name: "keep-alives", script: `ping every=1 ; size 2 ; text "still here"`, want: []said{{Text: "still here", Stop: "end"}}},
	{name: "bytes one by one, CR LF", script: `one-byte ; crlf ; text "dripping 漢"`, want: []said{{Text: "dripping 漢", Stop: "end"}}},
	// P46
	{name: "compressed by the provider", script: `gzip ; text "unpacked"`, want: []said{{Text: "unpacked", Stop: "end"}}},
	// P45
	{name: "one event of 200 KB", script: `events 1 ; size 200000`, want: []said{{Text: madeUp(200000), Stop: "end"}}},
	{name: "rate limit before the answer", script: `error rate-limit retry-after=7`, want: []said{{Error: "429"}}},
	{name: "overload before the answer", script: `error overloaded`, want: []said{{Error: "503"}}, but: func(x crossing, _ bool, want []said) {
		if x.surface == "messages" {
			want[0].Error = "529"
		}
	}},
	{name: "error as the first event", script: `error-inside overloaded after=0`, want: []said{{Error: "503"}}, but: func(x crossing, _ bool, want []said) {
		if x.surface == "messages" {
			want[0].Error = "529"
		}
	}},
	{name: "error inside the answer", script: `text "some words come first, and some more" ; error-inside overloaded after=3`, want: []said{{Error: "broken off"}}},
	{name: "stream cut off", script: `text "some words come first, and some more" ; cut after=3`, want: []said{{Error: "broken off"}}},
	{name: "stream ends as if whole", script: `text "some words come first, and some more" ; cut after=3 how=clean`, want: []said{{Error: "broken off"}}},
	{
		name: "malformed call", script: `call read "{\"path\":"`,
		want: []said{{Calls: []string{`read {"path":`}, Stop: "calls"}},
		but: func(x crossing, stream bool, want []said) {
			switch {
			case x.to.name == "gemini":
				want[0] = said{Error: "502"}
			case x.surface == "gemini" && (x.to.name != "messages" || stream):
				want[0].Calls = []string{`read {"_raw":"{\"path\":"}`}
			case x.surface == "messages", x.to.name == "messages" && !stream:
				want[0].Calls = []string{`read {}`} // no object can contain half of one
			}
		},
	},
	{
		name: "instruction between the turns", between: "Hurry up.", script: `call read {"path":"a.go"} ; then ; text "Hurried."`,
		none: func(x crossing) string {
			if x.surface == "gemini" {
				return "Gemini has instructions before the conversation alone"
			}
			return ""
		},
		want: []said{{Calls: []string{`read {"path":"a.go"}`}, Stop: "calls"}, {Text: "Hurried.", Stop: "end"}},
	},
	{name: "long history", script: manyTurns, want: longHistory()},
	{
		name: "model switch from Anthropic", from: "messages", extra: asksForReasoning, script: switchScript, want: switched(), but: switches,
	},
	{
		name: "model switch from OpenAI", from: "responses", extra: asksForReasoning, script: switchScript, want: switched(), but: switches,
	},
	{
		name: "model switch from Google", from: "gemini", extra: asksForReasoning, script: switchScript, want: switched(), but: switches,
	},
	{
		name: "model switch from DeepSeek", from: "deepseek", extra: asksForReasoning, script: switchScript, want: switched(), but: switches,
	},
}

const switchScript = `reasoning "Look." ; call read {"path":"a.go"} ; then ; reasoning "Again." ; call stat ; then ; text "Found."`

func switched() []said {
	return []said{
		{Reasoning: "Look.", Calls: []string{`read {"path":"a.go"}`}, Stop: "calls"},
		{Reasoning: "Again.", Calls: []string{`stat {}`}, Stop: "calls"},
		{Text: "Found.", Stop: "end"},
	}
}

// madeUp returns the text that the simulated provider generates.
func madeUp(n int) string {
	return strings.Repeat("the quick brown fox jumps over the lazy dog and finds its home; ", n/60)[:n]
}

func longHistory() []said {
	var want []said
	for range 8 {
		want = append(want, said{Calls: []string{`read {"path":"a.go"}`}, Stop: "calls"})
	}
	return append(want, said{Text: "Eight files read.", Stop: "end"})
}

// hidesReasoning changes what is wanted: OpenAI's Chat shows no reasoning, and gpt-4.1 has none.
func hidesReasoning(x crossing, _ bool, want []said) {
	if x.to.name == "chat" {
		for i := range want {
			want[i].Reasoning = ""
		}
	}
}

// switches changes what is wanted: what the first model shows depends on that model.
func switches(x crossing, _ bool, want []said) {
	hidesReasoning(x, false, want[1:])
}
