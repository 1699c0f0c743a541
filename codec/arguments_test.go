package codec_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestAppendArguments(t *testing.T) {
	for _, c := range []struct {
		name    string
		args    string
		escaped bool
		want    string
		ok      bool
	}{
		{"object", `{"b":1.0,"a":9007199254740993}`, false, `{"b":1.0,"a":9007199254740993}`, true},
		{"absent", ``, false, `{}`, true},
		{"null", `null`, false, `{}`, true},
		{"not an object", `[1]`, false, `{"_raw":[1]}`, false},
		{"text of an object", `{\"b\":1.0,\"a\":\"x \\\"y\\\" \\ud83d\"}`, true, `{"b":1.0,"a":"x \"y\" \ud83d"}`, true},
		{"no text", ``, true, `{}`, true},
		{"blank text", ` \n`, true, `{}`, true},
		{"cut text", `{\"a\":\"b`, true, `{"_raw":"{\"a\":\"b"}`, false},
		{"text of something else", `\"hi\"`, true, `{"_raw":"\"hi\""}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := codec.Part{Arguments: []byte(c.args), ArgumentsEscaped: c.escaped}
			out, ok := codec.AppendArguments([]byte("x"), &p)
			if string(out) != "x"+c.want || ok != c.ok {
				t.Errorf("got %s %v, want %s %v", out[1:], ok, c.want, c.ok)
			}
		})
	}
}

func TestAppendArgumentsDoesNotAllocate(t *testing.T) {
	p := codec.Part{Arguments: []byte(`{\"path\":\"a.go\",\"n\":[1,2,3]}`), ArgumentsEscaped: true}
	dst := make([]byte, 0, 1<<10)
	if n := testing.AllocsPerRun(100, func() { dst, _ = codec.AppendArguments(dst[:0], &p) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
