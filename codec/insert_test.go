package codec_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
)

func TestBlocksMoveWithWhatIsInsertedInFrontOfThem(t *testing.T) {
	body := []byte(`{"model":"m","system":"be brief","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"tools":[{"name":"t"}]}`)
	e := readEnvelope(t, string(body))
	longer := e.Insert(nil, body, []codec.Insertion{{At: bytes.Index(body, []byte(`a"}`)), Text: []byte("said before: ")}})
	if diff := cmp.Diff(readEnvelope(t, string(longer)).Blocks(nil), e.Blocks(nil)); diff != "" {
		t.Errorf("%s\n%s", longer, diff)
	}
}

func TestUsageIsAskedForWhereTheBodyHasGrown(t *testing.T) {
	for _, body := range []string{
		`{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true}`,
		`{"model":"m","messages":[{"role":"user","content":"a"}],"stream":true,"stream_options":{"x":1}}`,
		`{"stream":true,"model":"m","messages":[{"role":"user","content":"a"}]}`,
	} {
		e := readEnvelope(t, body)
		longer := e.Insert(nil, []byte(body), []codec.Insertion{{At: strings.Index(body, `"}`), Text: []byte(" and what was said before")}})
		fresh := readEnvelope(t, string(longer))
		if !e.AskForUsage() || !fresh.AskForUsage() {
			t.Fatalf("%s: nothing is asked for", body)
		}
		if got, want := e.Splice(nil, longer, "m"), fresh.Splice(nil, longer, "m"); !bytes.Equal(got, want) {
			t.Errorf("%s becomes\n%s\nwant\n%s", body, got, want)
		}
	}
}
