package server_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// picture draws one of a size.
func picture(t *testing.T, width, height int) []byte {
	t.Helper()
	drawn := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Gray{40}, color.RGBA{B: 220, A: 255}})
	for x := range width {
		for y := range height {
			drawn.SetColorIndex(x, y, uint8((x/10+y/10)%2))
		}
	}
	var out bytes.Buffer
	ok(t, png.Encode(&out, drawn))
	return out.Bytes()
}

func TestPicturesOfARequestAreReadFromTheRecord(t *testing.T) {
	h := remembering(t)
	drawn, other := picture(t, 40, 30), picture(t, 20, 20)
	text := base64.StdEncoding.EncodeToString
	image := func(data string) string {
		return `{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + data + `"}}`
	}
	asked := h.post(messages.path, `{"model":"`+messages.model+`","max_tokens":99,"system":"Be brief.","messages":[
		{"role":"user","content":[{"type":"text","text":"Read it. [[sim: text \"Done.\"]]"},`+image(text(drawn))+`,`+image(text([]byte("<html><script>1</script>")))+`]},
		{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"read","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"It holds"},`+image(strings.ReplaceAll(text(other), "/", `\/`))+`]}]}]}`)
	at := "/v1/memory/exchanges/" + asked.exchange() + "/messages/"
	read := func(path string) *answer { return h.do(http.MethodGet, path, "", "Authorization", "Bearer "+h.key) }

	for path, want := range map[string][]byte{"0/parts/1": drawn, "2/parts/1": other} {
		a := read(at + path)
		if a.status != http.StatusOK || a.body != string(want) {
			t.Errorf("%s: %d, %d bytes", path, a.status, len(a.body))
		}
		for name, value := range map[string]string{
			"Content-Type": "image/png", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; sandbox",
		} {
			if got := a.header.Get(name); got != value {
				t.Errorf("%s: %s: %q, want %q", path, name, got, value)
			}
		}
	}
	for _, path := range []string{"0/parts/0", "0/parts/2", "0/parts/9", "9/parts/0", "-1/parts/0", "x/parts/y", "0/parts/99999999999999999999"} {
		if a := read(at + path); a.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}

	h.account("globex")
	for key, status := range map[string]int{
		h.createKey("globex", store.AllScopes): http.StatusNotFound, h.createKey("acme", store.ScopeWrite): http.StatusForbidden, "mnm_none": http.StatusUnauthorized,
	} {
		if a := h.do(http.MethodGet, at+"0/parts/1", "", "Authorization", "Bearer "+key); a.status != status {
			t.Errorf("want %d, got %d %s", status, a.status, a.body)
		}
	}
}

// drawsWith is Gemini, which answers with words and a picture.
func drawsWith(t *testing.T, drawn []byte) func(*plan) {
	answer := `{"candidates":[{"content":{"role":"model","parts":[{"text":"Here."},{"inlineData":{"mimeType":"image/png","data":"` + base64.StdEncoding.EncodeToString(drawn) + `"}}]},"finishReason":"STOP","index":0}],"modelVersion":"gemini-3.8-flash","responseId":"g1"}`
	up := newUpstream(t, func(c *upstreamCall) {
		if strings.Contains(c.request.URL.Path, "streamGenerate") {
			c.stream("data: " + answer + "\n\n")
			return
		}
		c.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + answer)
	})
	return func(p *plan) { up.servesAs(p, "gemini") }
}

func TestAPictureOfAnAnswerIsReadFromTheRecord(t *testing.T) {
	drawn := picture(t, 40, 30)
	h := remembering(t, drawsWith(t, drawn))
	for _, stream := range []bool{false, true} {
		a := h.post(responses.path, fmt.Sprintf(`{"model":"gemini-3.8-flash","stream":%t,"input":"Draw it."}`, stream), "X-Service-Chat-Key", fmt.Sprint(stream))
		turns := h.turns(a.header.Get("X-Service-Session-ID"))
		parts := turns[0].Turn.Answer[0].Parts
		if len(parts) != 3 || parts[1].Kind != "call" || parts[2].Kind != "media" || parts[2].MediaType != "image/png" {
			t.Fatalf("streamed %t, the answer is %+v", stream, parts)
		}
		at := "/v1/memory/exchanges/" + a.exchange() + "/answer/parts/"
		read := func(part, key string) *answer {
			return h.do(http.MethodGet, at+part, "", "Authorization", "Bearer "+key)
		}
		if shown := read("2", h.key); shown.status != http.StatusOK || shown.body != string(drawn) || shown.header.Get("Content-Type") != "image/png" {
			t.Errorf("streamed %t: %d, %d bytes", stream, shown.status, len(shown.body))
		}
		for _, part := range []string{"0", "1", "3", "-1", "x"} {
			if a := read(part, h.key); a.status != http.StatusNotFound {
				t.Errorf("part %s: %d %s", part, a.status, a.body)
			}
		}
		if a := read("2", h.createKey("acme", store.ScopeWrite)); a.status != http.StatusForbidden {
			t.Errorf("with a key that may not read: %d", a.status)
		}

		// What the client sends back of it leads to the turn, with the picture and without.
		for words, result := range map[string]string{"Larger.": `"` + base64.StdEncoding.EncodeToString(drawn) + `"`, "Smaller.": "null"} {
			h.post(responses.path, `{"model":"gemini-3.8-flash","input":[{"role":"user","content":"Draw it."},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Here."}]},
				{"type":"image_generation_call","id":"ig_1","status":"completed","result":`+result+`},{"role":"user","content":"`+words+`"}]}`, "X-Service-Chat-Key", fmt.Sprint(stream))
			turns = h.turns(a.header.Get("X-Service-Session-ID"))
			if next := turns[len(turns)-1].Turn; next.Parent != a.exchange() || len(next.Messages) != 1 {
				t.Errorf("streamed %t, the next turn goes on from %q with %+v", stream, next.Parent, next.Messages)
			}
		}
	}
}

func TestAPictureThatIsTooLargeIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("large pictures, one after the other")
	}
	h := remembering(t)
	large := base64.StdEncoding.EncodeToString(append(picture(t, 9, 9), make([]byte, 21<<20)...))
	a := h.post(chat.path, `{"model":"`+chat.model+`","messages":[{"role":"user","content":[{"type":"text","text":"Look. [[sim: text \"So.\"]]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`+large+`"}}]}]}`)
	if a.status != http.StatusOK {
		t.Fatalf("%d %.200s", a.status, a.body)
	}
	h.ask(http.StatusRequestEntityTooLarge, "GET", "/exchanges/"+a.exchange()+"/messages/0/parts/1", "")
}
