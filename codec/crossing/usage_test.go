package crossing_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec/crossing"
)

// Only the member that asking for usage adds to a chunk is taken out.
func TestTheMemberThatSaysThereIsNoUsageIsTakenOut(t *testing.T) {
	const chunk = `data: {"id":"1","choices":[{"delta":{"content":"hi"}}]`
	for frames, want := range map[string]string{
		chunk + `,"usage":null}`:                                                     chunk + `}`,
		chunk + `, "usage": null, "x": 1}`:                                           chunk + `, "x": 1}`,
		chunk + `,"obfuscation":"ab","usage":null}`:                                  chunk + `,"obfuscation":"ab"}`,
		`data: {"usage":null,"choices":[]}`:                                          `data: {"choices":[]}`,
		`data: {"usage" : null , "choices":[]}`:                                      `data: {"choices":[]}`,
		`data: {"usage":null}`:                                                       `data: {}`,
		chunk + ",\"usage\":null}\n\n" + chunk + ",\"usage\":null}":                  chunk + "}\n\n" + chunk + "}",
		chunk + `,"x_groq":{"id":"r","usage":null}}`:                                 "",
		chunk + `,"x":[{"a":1},{"b":2,"usage":null}]}`:                               "",
		chunk + `,"usage":{"prompt_tokens":1}}`:                                      "",
		`data: {"choices":[{"delta":{"content":",\"usage\":null}"}}]}`:               "",
		`data: {"choices":[{"delta":{"content":"\\"}}],"a":{"b":"}]","usage":null}}`: "",
		`data: {"choices":[],"note":"the usage"}`:                                    "",
		`data: {"usage`: "", `data: {"usage"`: "", `data: {"usage":`: "", `data: {"usage":nul`: "",
	} {
		out, changed := crossing.AppendWithoutUsage(nil, []byte(frames))
		if changed != (want != "") || string(out) != want {
			t.Errorf("%s\nbecomes %s (%t)\nnot     %s", frames, out, changed, want)
		}
	}
}

// However many such members a host writes, frames are read once.
func TestFramesFullOfUsageAreReadOnce(t *testing.T) {
	frame := []byte(`data: {"a":[{"b":1` + strings.Repeat(`,"usage":null`, 1<<17) + `}]}`)
	if _, changed := crossing.AppendWithoutUsage(nil, frame); changed { // a reading per member takes minutes
		t.Error("members within the chunk were taken out")
	}
}

func TestTakingOutUsageAllocatesNothing(t *testing.T) {
	frames := bytes.Repeat([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}],\"usage\":null}\n\n"), 10)
	out := make([]byte, 0, len(frames))
	if n := testing.AllocsPerRun(100, func() { out, _ = crossing.AppendWithoutUsage(out[:0], frames) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
