package fuzz_test

import (
	"bytes"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

// oneExchange is a record of one exchange, under every id that begins with "resp_" or "msg_".
type oneExchange struct{ request, answer []byte }

func (x oneExchange) Response(id string) (request, answer []byte, err error) {
	if !bytes.HasPrefix([]byte(id), []byte("resp_")) {
		return nil, nil, codec.Errorf(codec.KindNotFound, "nothing")
	}
	return x.request, x.answer, nil
}

func (oneExchange) Account() string { return "acme" }

func (x oneExchange) Item(id string) (answer []byte, err error) {
	if !bytes.HasPrefix([]byte(id), []byte("msg_")) {
		return nil, codec.Errorf(codec.KindNotFound, "nothing")
	}
	return x.answer, nil
}

// FuzzResolve resolves references of any request to any exchange. The result of well-formed ones is well-formed, refers
// to no response, stays within the limit, and is the request itself if there is no reference.
func FuzzResolve(f *testing.F) {
	const answer = `{"output":[{"id":"msg_1","type":"message","role":"assistant","content":"b"}]}`
	for _, body := range []string{
		`{"model":"m","input":"c","previous_response_id":"resp_1"}`,
		`{"input":[{"type":"item_reference","id":"msg_1"},{"id":"msg_1"},{"id":"x","role":"user","content":"c"}]}`,
		`{"inpu\u0074":"c","previous_response_id":null}`, `{"input":["",null,[]]}`, `{`,
	} {
		f.Add([]byte(body), []byte(`{"input":[{"role":"user","content":"a"}]}`), []byte(answer))
		f.Add([]byte(body), []byte(`{"input":"a","previous_response_id":"msg_1"}`),
			[]byte("data: {\"type\":\"response.output_item.done\",\ndata: \"item\":{\"id\":\"msg_1\"}}\r\n\r\n"))
	}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body, request, answer []byte) {
		const limit = 64 << 10
		resolved, names, err := responses.Resolve(body, limit, oneExchange{request, answer})
		switch {
		case err != nil || len(names) == 0:
			if !bytes.Equal(resolved, body) {
				t.Fatalf("%q became %q: %v %v", body, resolved, names, err)
			}
			return
		case len(resolved) > len(body)+2*limit:
			t.Fatalf("%d bytes of %d", len(resolved), len(body))
		}
		if scan.Valid(body) && scan.Valid(request) && scan.Valid(answer) && !scan.Valid(resolved) {
			t.Fatalf("not JSON: %q", resolved)
		}
		if id := scan.Get(resolved, "previous_response_id"); id != nil {
			t.Fatalf("%q still refers to %q", resolved, id)
		}
	}))
}
