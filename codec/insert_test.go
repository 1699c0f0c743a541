package codec_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mnemeproxy/mneme/codec"
)

// Wherever members stand, the envelope is that of the longer body: what is cut out of it, put in another's place or asked for
// stands where it did.
func TestAnEnvelopeGoesByWhatIsInserted(t *testing.T) {
	for name, body := range map[string]string{
		"everything before": `{"model":"m","stream":true,"metadata":{"k":"v"},"client_metadata":{"c":"v"},"service_chat_key":"k","system":"be brief","tools":[{"name":"t"}],"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}`,
		"everything behind": `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"tools":[{"name":"t"}],"system":"be brief","service_chat_key":"k","metadata":{"k":"v"},"client_metadata":{"c":"v"},"stream":true,"model":"m"}`,
		"stream options":    `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"stream_options":{"x":1},"stream":true,"model":"m"}`,
		"a list twice":      `{"model":"m","input":[{"role":"user","content":"a"}],"service_chat_key":"k","input":[{"role":"user","content":"b"}]}`,
	} {
		e := readEnvelope(t, body)
		longer := e.Insert([]byte("dst"), []byte(body), []codec.Insertion{
			{At: strings.Index(body, `a"}`), Text: []byte("said before: ")},
			{At: strings.Index(body, `b"}`), Text: []byte("and then: ")},
		})
		longer = longer[len("dst"):]
		if diff := cmp.Diff(readEnvelope(t, string(longer)), e, cmp.AllowUnexported(codec.Envelope{}), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s\n%s", name, longer, diff)
		}
	}
}
