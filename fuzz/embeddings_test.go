package fuzz_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

var embeddingsDialects = []embeddings.Dialect{
	{DimensionsMember: "dimensions", EncodingFormat: true, Tokens: true, User: true, MaxInputs: 3, MaxTokens: 50},
	{DimensionsMember: "output_dimension", InputTypeMember: "input_type", TruncationMember: "truncation"},
	{Batch: true, MaxInputs: 2},
	{},
}

// Any request of a client is refused or becomes JSON for every host, with each input once.
func FuzzEmbeddingsDecodeRequest(f *testing.F) {
	f.Add([]byte(`{"model":"m","input":"a","dimensions":3,"encoding_format":"base64","user":"u"}`))
	f.Add([]byte(`{"model":"m","input":["a","\u00e9\ud83d"],"input_type":"query"}`))
	f.Add([]byte(`{"model":"m\"","input":[[1,2],[3]]}`))
	f.Add([]byte(`{"model":"m","input":[1, 2 ,3]}`))
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte) {
		if !scan.Valid(body) {
			return
		}
		r, err := embeddings.Decode(body)
		if err != nil {
			return
		}
		for _, d := range embeddingsDialects {
			p, err := embeddings.NewPlan(r, embeddings.Model{}, d)
			if err != nil {
				continue
			}
			next := 0
			for _, b := range p.Batches {
				if out := p.AppendRequest(nil, b, r.Model); !scan.Valid(out) {
					t.Fatalf("not JSON: %s", out)
				}
				if b.From != next || b.To <= b.From {
					t.Fatalf("batches %v", p.Batches)
				}
				next = b.To
			}
			if next != len(r.Inputs) {
				t.Fatalf("batches %v for %d inputs", p.Batches, len(r.Inputs))
			}
		}
	}))
}

// Any request of Google's clients is refused or becomes JSON for every host.
func FuzzEmbeddingsDecodeGoogle(f *testing.F) {
	f.Add([]byte(`{"content":{"parts":[{"text":"a"},{"text":"b"}]},"taskType":"RETRIEVAL_QUERY","output_dimensionality":3}`), true)
	f.Add([]byte(`{"requests":[{"content":{"parts":[{"text":"a"}]},"title":"t"},{"content":{"parts":[{"text":"\u00e9"}]}}]}`), false)
	f.Fuzz(mutant.Each(1000, func(t *testing.T, body []byte, single bool) {
		if !scan.Valid(body) {
			return
		}
		r, err := embeddings.DecodeGoogle(body, "m", single)
		if err != nil {
			return
		}
		for _, d := range embeddingsDialects {
			p, err := embeddings.NewPlan(r, embeddings.Model{}, d)
			if err != nil {
				continue
			}
			for _, b := range p.Batches {
				if out := p.AppendRequest(nil, b, r.Model); !scan.Valid(out) {
					t.Fatalf("not JSON: %s", out)
				}
			}
		}
	}))
}

// Any answer of a host is an error or becomes an answer in JSON.
func FuzzEmbeddingsDecodeAnswer(f *testing.F) {
	f.Add([]byte(`{"data":[{"index":1,"embedding":[1,2e-3]},{"index":0,"embedding":"AACAPwAAAEA="}],"usage":{"total_tokens":3}}`), true)
	f.Add([]byte(`{"embeddings":[{"values":[0.1,-0.2]},{"values":[3,4]}],"usageMetadata":{"promptTokenCount":4}}`), false)
	f.Add([]byte(`{"data":[{"embedding":"\/\/8="},{"embedding":[]}]}`), false)
	f.Fuzz(mutant.Each(1000, func(t *testing.T, answer []byte, encoded bool) {
		for _, d := range embeddingsDialects[1:3] {
			r := &embeddings.Request{Model: "m", Inputs: []embeddings.Input{{Text: []byte("a")}, {Text: []byte("b")}}, Base64: encoded}
			p, err := embeddings.NewPlan(r, embeddings.Model{}, d)
			if err != nil {
				t.Fatal(err)
			}
			if err := p.DecodeAnswer(p.Batches[0], answer); err != nil {
				continue
			}
			out, err := p.AppendAnswer(nil)
			if err != nil || !scan.Valid(out) {
				t.Fatalf("%s (%v)", out, err)
			}
		}
	}))
}
