package transcript_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/transcript"
	"github.com/mnemeproxy/mneme/store/record"
)

func written(t *testing.T, form string, turn *record.Turn) string {
	t.Helper()
	var b strings.Builder
	w, err := transcript.NewWriter(form, &b)
	if err != nil {
		t.Fatal(err)
	}
	w.Begin(&transcript.Conversation{ID: "sess_1", Title: "A\n# title", Began: time.Unix(0, 0)})
	w.Turn(turn)
	w.End()
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Nothing that was said ends the place that it stands in.
func TestWhatWasSaidStaysInItsPlace(t *testing.T) {
	hostile := "```\n</details>\n# not a title\n````\"]}\n{\"messages\":[]}\u2028"
	turn := &record.Turn{
		Messages: []record.Message{{Role: "tool", Parts: []record.Part{{Kind: "result", CallID: "c", Text: hostile, Failed: true}, {Kind: "text", Text: "And now?"}}}},
		Answer: []record.Message{{Role: "assistant", Parts: []record.Part{
			{Kind: "text", Text: hostile},
			{Kind: "media", MediaType: "image/png", Name: "a.png"},
			{Kind: "call", CallID: "d", Name: "</summary>", Arguments: "not JSON"},
			{Kind: "call", CallID: "e", Name: "patch", Text: "*** Begin"},
		}}},
	}
	for _, form := range []string{"openai-chat", "sharegpt"} {
		text := written(t, form, turn)
		if strings.Count(text, "\n") != 1 || !json.Valid([]byte(text)) {
			t.Errorf("%s is not one line of JSON: %s", form, text)
		}
		for _, want := range []string{"And now?", "[image/png a.png]", "not JSON", "*** Begin"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q: %s", form, want, text)
			}
		}
	}
	text := written(t, "markdown", turn)
	if !strings.Contains(text, "\n`````\n"+hostile+"\n`````\n") || strings.Contains(text, "<summary>Call of </summary>") || !strings.HasPrefix(text, "# A # title\n") {
		t.Error(text)
	}
}

func TestAFormThatNobodyKnowsIsNamed(t *testing.T) {
	if _, err := transcript.NewWriter("parquet", nil); err == nil || !strings.Contains(err.Error(), "openai-chat, sharegpt, markdown, html") {
		t.Error(err)
	}
}

// A page is one file that loads nothing, runs nothing, and shows no credential.
func TestAPageHoldsOnlyText(t *testing.T) {
	const secret = "sk-ant-api03-AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUvWxYz0123456789AbCdEfGhIjKlMnOpQrStUv-AbCdEfAA"
	hostile := "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e"
	text := written(t, "html", &record.Turn{
		Model:    hostile,
		Messages: []record.Message{{Role: "user", Parts: []record.Part{{Kind: "text", Text: hostile + secret}, {Kind: "media", MediaType: hostile}}}},
		Answer: []record.Message{{Role: "assistant", Parts: []record.Part{
			{Kind: "text", Text: "It is <b>done</b>."}, {Kind: "call", CallID: "c", Name: hostile, Arguments: `{"key":"` + secret + `"}`}, {Kind: "result", CallID: "c", Text: hostile, Failed: true},
		}}},
	})
	for _, harm := range []string{" · · ", "<script", "<img", "<b>", "src=", "href=", secret, "\x1b", "\u202e"} {
		if harm != "src=" && strings.Contains(text, harm) || harm == "src=" && strings.Contains(strings.ReplaceAll(text, "&lt;img src=x", ""), harm) {
			t.Errorf("the page holds %q: %s", harm, text)
		}
	}
	for _, want := range []string{"It is &lt;b&gt;done&lt;/b&gt;.", "default-src 'none'", "<title>A # title</title>", `class="failed"`} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q: %s", want, text)
		}
	}
}
