package codec_test

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
)

func TestBlocksMoveWithWhatIsInsertedInFrontOfThem(t *testing.T) {
	body := []byte(`{"model":"m","system":"be brief","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"tools":[{"name":"t"}]}`)
	e := readEnvelope(t, string(body))
	longer := e.Insert(body, []codec.Insertion{{At: bytes.Index(body, []byte(`a"}`)), Text: []byte("said before: ")}})
	if diff := cmp.Diff(readEnvelope(t, string(longer)).Blocks(nil), e.Blocks(nil)); diff != "" {
		t.Errorf("%s\n%s", longer, diff)
	}
}
