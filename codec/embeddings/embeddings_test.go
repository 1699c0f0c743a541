package embeddings_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Hosts and models as the router's data describe them.
var (
	openAI     = embeddings.Dialect{DimensionsMember: "dimensions", EncodingFormat: true, Tokens: true, User: true, MaxInputs: 2048, MaxTokens: 300_000}
	compatible = embeddings.Dialect{}
	google     = embeddings.Dialect{Batch: true, MaxInputs: 100}
	mistral    = embeddings.Dialect{DimensionsMember: "output_dimension", EncodingFormat: true, MaxInputs: 32, MaxTokens: 16_384}
	voyage     = embeddings.Dialect{DimensionsMember: "output_dimension", InputTypeMember: "input_type", TruncationMember: "truncation", MaxInputs: 1000}

	small     = embeddings.Model{Default: 1536, Min: 1, Max: 1536, Matryoshka: true, Normalized: true, Tokens: true}
	voyage4   = embeddings.Model{Default: 1024, Sizes: []int{256, 512, 1024, 2048}, Normalized: true}
	fixed     = embeddings.Model{Default: 1024, Normalized: true}
	gemini001 = embeddings.Model{Default: 3072, Min: 128, Max: 3072, Matryoshka: true}
	unknown   = embeddings.Model{}
)

func decode(t *testing.T, body string) *embeddings.Request {
	t.Helper()
	r, err := embeddings.Decode([]byte(body))
	if err != nil {
		t.Fatalf("Decode: %v", err)
	}
	return r
}

func plan(t *testing.T, body string, m embeddings.Model, d embeddings.Dialect) *embeddings.Plan {
	t.Helper()
	p, err := embeddings.NewPlan(decode(t, body), m, d)
	if err != nil {
		t.Fatalf("NewPlan: %v", err)
	}
	return p
}

func TestTheFourShapesOfInput(t *testing.T) {
	cases := map[string][]string{
		`"hello \u00e9"`:      {`text hello \u00e9`},
		`["a","b"]`:           {"text a", "text b"},
		`[1212, 318,257]`:     {"3 tokens [1212, 318,257]"},
		`[[1212,318], [257]]`: {"2 tokens [1212,318]", "1 tokens [257]"},
	}
	for input, want := range cases {
		var got []string
		for _, in := range decode(t, `{"model":"m","input":`+input+`}`).Inputs {
			if in.Tokens == nil {
				got = append(got, "text "+string(in.Text))
			} else {
				got = append(got, fmt.Sprintf("%d tokens %s", in.Count, in.Tokens))
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", input, diff)
		}
	}
}

func TestARequestIsReadWithItsOptions(t *testing.T) {
	got := decode(t, `{"input":"a","model":"m\u0031","dimensions":512,"encoding_format":"base64","user":"u","x":[1],"input_type":"query"}`)
	if got.Model != "m1" || got.Dimensions != 512 || !got.Base64 || string(got.User) != "u" || string(got.InputType) != "query" {
		t.Errorf("got %+v", got)
	}
	if got := decode(t, `{"input":"a","model":"m","dimensions":null,"encoding_format":null,"user":null}`); got.Dimensions != 0 || got.Base64 || got.User != nil {
		t.Errorf("null is not absent: %+v", got)
	}
}

func TestWhatIsWrongIsNamed(t *testing.T) {
	long := "[" + strings.Repeat(`"a",`, 2048) + `"a"]`
	cases := []struct{ body, param, text string }{
		{`[]`, "", "JSON object"},
		{`{"input":"a"}`, "model", "missing"},
		{`{"model":7,"input":"a"}`, "model", "string"},
		{`{"model":"m"}`, "input", "missing"},
		{`{"model":"m","input":null}`, "input", "missing"},
		{`{"model":"m","input":{}}`, "input", "array"},
		{`{"model":"m","input":""}`, "input", "empty"},
		{`{"model":"m","input":[]}`, "input", "empty"},
		{`{"model":"m","input":["a",""]}`, "input[1]", "empty"},
		{`{"model":"m","input":["a",1]}`, "input[1]", "all elements"},
		{`{"model":"m","input":[1,"a"]}`, "input", "whole numbers"},
		{`{"model":"m","input":[1.5]}`, "input", "whole numbers"},
		{`{"model":"m","input":[-1]}`, "input", "whole numbers"},
		{`{"model":"m","input":[[1],[]]}`, "input[1]", "empty"},
		{`{"model":"m","input":[[1],["a"]]}`, "input[1]", "whole numbers"},
		{`{"model":"m","input":[true]}`, "input[0]", "all elements"},
		{`{"model":"m","input":` + long + `}`, "input", "2049"},
		{`{"model":"m","input":"a","dimensions":0}`, "dimensions", "1 to"},
		{`{"model":"m","input":"a","dimensions":1.5}`, "dimensions", "whole"},
		{`{"model":"m","input":"a","dimensions":"512"}`, "dimensions", "whole"},
		{`{"model":"m","input":"a","encoding_format":"int8"}`, "encoding_format", "base64"},
	}
	for _, c := range cases {
		_, err := embeddings.Decode([]byte(c.body))
		refused(t, c.body, err, c.param, c.text)
	}
}

func TestTheTextsOfAContentAreJoinedOnce(t *testing.T) {
	const pieces = 20_000
	body := []byte(`{"content":{"parts":[{"text":"a"}` + strings.Repeat(`,{"text":"b"}`, pieces) + `]}}`)
	unchanged := string(body)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := embeddings.DecodeGoogle(body, "m", true)
	runtime.ReadMemStats(&after)
	if err != nil || string(r.Inputs[0].Text) != "a"+strings.Repeat(`\nb`, pieces) || string(body) != unchanged {
		t.Fatalf("%v, %.100s of %.100s", err, r.Inputs[0].Text, body)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 30*uint64(len(body)) {
		t.Errorf("%d bytes are allocated for a body of %d", taken, len(body))
	}
}

func refused(t *testing.T, what string, err error, param, text string) {
	t.Helper()
	var e *codec.Error
	if !errors.As(err, &e) || e.Kind != codec.KindInvalidRequest || e.Param != param || !strings.Contains(e.Message, text) {
		t.Errorf("%.80s: got %v, want a refusal of %q that says %q", what, err, param, text)
	}
}

func TestSizesThatTheModelDoesNotHaveAreRefusedWithThoseItHas(t *testing.T) {
	cases := []struct {
		model embeddings.Model
		size  int
		text  string
	}{
		{voyage4, 300, "legal: 256, 512, 1024, 2048"},
		{small, 3072, "legal: any from 1 to 1536"},
		{gemini001, 64, "legal: any from 128 to 3072"},
		{fixed, 512, "legal: 1024 only"},
	}
	for _, c := range cases {
		r := decode(t, fmt.Sprintf(`{"model":"m","input":"a","dimensions":%d}`, c.size))
		_, err := embeddings.NewPlan(r, c.model, openAI)
		refused(t, fmt.Sprint(c.size), err, "dimensions", c.text)
	}
	r := decode(t, `{"model":"m","input":"a","dimensions":512}`)
	_, err := embeddings.NewPlan(r, unknown, compatible)
	refused(t, "a host that cannot be asked", err, "dimensions", "leave dimensions out")
}

func TestTokensGoOnlyWhereTheyMeanSomething(t *testing.T) {
	tokens := `{"model":"m","input":[[1,2],[3]]}`
	if got := upstreamBody(t, tokens, small, openAI); got != `{"model":"up","input":[[1,2],[3]]}` {
		t.Errorf("got %s", got)
	}
	for _, d := range []embeddings.Dialect{google, voyage} {
		_, err := embeddings.NewPlan(decode(t, tokens), unknown, d)
		refused(t, "tokens", err, "input", "text only")
	}
	_, err := embeddings.NewPlan(decode(t, tokens), gemini001, openAI)
	refused(t, "tokens", err, "input", "text only")
}

func upstreamBody(t *testing.T, body string, m embeddings.Model, d embeddings.Dialect) string {
	t.Helper()
	p := plan(t, body, m, d)
	out := p.AppendRequest(nil, p.Batches[0], "up")
	if !scan.Valid(out) {
		t.Fatalf("not JSON: %s", out)
	}
	return string(out)
}

func TestTheSameRequestForEachHost(t *testing.T) {
	const body = `{"model":"m","input":["alpha","be\"ta"],"dimensions":512,"encoding_format":"base64","user":"u","input_type":"document"}`
	cases := []struct {
		name    string
		model   embeddings.Model
		dialect embeddings.Dialect
		want    string
	}{
		{"openai", small, openAI, `{"model":"up","dimensions":512,"encoding_format":"base64","user":"u","input":["alpha","be\"ta"]}`},
		{"mistral", embeddings.Model{Default: 1536, Max: 3072}, mistral, `{"model":"up","output_dimension":512,"encoding_format":"base64","input":["alpha","be\"ta"]}`},
		{"voyage", voyage4, voyage, `{"model":"up","output_dimension":512,"truncation":false,"input_type":"document","input":["alpha","be\"ta"]}`},
		{"gemini", gemini001, google, `{"requests":[{"model":"models/up","content":{"parts":[{"text":"alpha"}]},"taskType":"RETRIEVAL_DOCUMENT","outputDimensionality":512},{"model":"models/up","content":{"parts":[{"text":"be\"ta"}]},"taskType":"RETRIEVAL_DOCUMENT","outputDimensionality":512}]}`},
		{"a single size that was asked for is not sent", embeddings.Model{Default: 512}, openAI, `{"model":"up","encoding_format":"base64","user":"u","input":["alpha","be\"ta"]}`},
		{"a host that is told nothing", embeddings.Model{Default: 512}, compatible, `{"model":"up","input":["alpha","be\"ta"]}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, upstreamBody(t, body, c.model, c.dialect)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWhatTheHostHasNoMemberForIsNoted(t *testing.T) {
	r := decode(t, `{"model":"m","input":"a","encoding_format":"base64","user":"u","input_type":"query"}`)
	if _, err := embeddings.NewPlan(r, unknown, compatible); err != nil {
		t.Fatal(err)
	}
	want := codec.Notes{Dropped: []string{"user", "input_type"}, Emulated: []string{"encoding_format"}}
	if diff := cmp.Diff(want, r.Notes); diff != "" {
		t.Error(diff)
	}
}

func TestBatchesStayUnderTheLimitsInOrder(t *testing.T) {
	texts := func(n, size int) string {
		list, _ := json.Marshal(strings.Fields(strings.Repeat(strings.Repeat("x", size)+" ", n)))
		return `{"model":"m","input":` + string(list) + `}`
	}
	cases := []struct {
		name    string
		body    string
		model   embeddings.Model
		dialect embeddings.Dialect
		want    []embeddings.Batch
	}{
		{"250 inputs at Google", texts(250, 3), unknown, google, []embeddings.Batch{{0, 100}, {100, 200}, {200, 250}}},
		{"the model's own limit", texts(25, 3), embeddings.Model{MaxInputs: 10}, mistral, []embeddings.Batch{{0, 10}, {10, 20}, {20, 25}}},
		{"tokens", texts(4, 10_000), unknown, mistral, []embeddings.Batch{{0, 3}, {3, 4}}},
		{"an input over the limit goes alone", texts(3, 100), embeddings.Model{MaxTokens: 50}, openAI, []embeddings.Batch{{0, 1}, {1, 2}, {2, 3}}},
		{"no limits", texts(2048, 1), unknown, compatible, []embeddings.Batch{{0, 2048}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, plan(t, c.body, c.model, c.dialect).Batches); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBatchesCoverEveryInputOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,40}`), 1, 60).Draw(t, "inputs")
		list, _ := json.Marshal(inputs)
		r, err := embeddings.Decode([]byte(`{"model":"m","input":` + string(list) + `}`))
		if err != nil {
			t.Fatal(err)
		}
		m := embeddings.Model{MaxInputs: rapid.IntRange(0, 10).Draw(t, "most"), MaxTokens: rapid.IntRange(0, 60).Draw(t, "tokens")}
		p, err := embeddings.NewPlan(r, m, compatible)
		if err != nil {
			t.Fatal(err)
		}
		next := 0
		for _, batch := range p.Batches {
			if batch.From != next || batch.To <= batch.From || (m.MaxInputs > 0 && batch.To-batch.From > m.MaxInputs) {
				t.Fatalf("batches %v", p.Batches)
			}
			next = batch.To
		}
		if next != len(inputs) {
			t.Fatalf("batches %v for %d inputs", p.Batches, len(inputs))
		}
	})
}

// answers the host's way, with vectors that tell which input they belong to.
func hostAnswer(d embeddings.Dialect, b embeddings.Batch, size int, encoded bool) string {
	var items []string
	for i := b.From; i < b.To; i++ {
		vector := make([]float32, size)
		vector[0], vector[1] = 0.6, 0.8
		vector[i%(size-2)+2] = 1e-7
		value := jsonFloats(vector)
		if encoded {
			value = `"` + base64Floats(vector) + `"`
		}
		if d.Batch {
			items = append(items, `{"values":`+value+`}`)
		} else {
			items = append(items, fmt.Sprintf(`{"object":"embedding","embedding":%s,"index":%d}`, value, i-b.From))
		}
	}
	if d.Batch {
		return `{"embeddings":[` + strings.Join(items, ",") + `]}`
	}
	return `{"object":"list","data":[` + strings.Join(items, ",") + fmt.Sprintf(`],"usage":{"prompt_tokens":%d,"total_tokens":%d}}`, b.To-b.From, b.To-b.From)
}

func jsonFloats(vector []float32) string {
	out, _ := json.Marshal(vector)
	return string(out)
}

func base64Floats(vector []float32) string {
	raw := make([]byte, 4*len(vector))
	for i, v := range vector {
		binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(v))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// clientAnswer is how an SDK reads what the client gets.
type clientAnswer struct {
	Object string `json:"object"`
	Model  string `json:"model"`
	Data   []struct {
		Object    string          `json:"object"`
		Index     int             `json:"index"`
		Embedding json.RawMessage `json:"embedding"`
	} `json:"data"`
	Usage struct {
		Prompt int64 `json:"prompt_tokens"`
		Total  int64 `json:"total_tokens"`
	} `json:"usage"`
}

// A request of 250 inputs goes to Google in three batches, answered in any order, and comes back as one answer in the
// order of the inputs, whichever encoding the client and the host use.
func TestAnswersAreJoinedInOrder(t *testing.T) {
	const size = 8
	inputs, _ := json.Marshal(strings.Fields(strings.Repeat("text ", 250)))
	for _, d := range []embeddings.Dialect{google, mistral} {
		for _, format := range []string{"float", "base64"} {
			body := fmt.Sprintf(`{"model":"the-model","input":%s,"encoding_format":%q}`, inputs, format)
			p := plan(t, body, unknown, d)
			for i := len(p.Batches) - 1; i >= 0; i-- {
				answer := hostAnswer(d, p.Batches[i], size, format == "base64" && d.EncodingFormat)
				if err := p.DecodeAnswer(p.Batches[i], []byte(answer)); err != nil {
					t.Fatal(err)
				}
			}
			out, err := p.AppendAnswer(nil)
			if err != nil || !scan.Valid(out) {
				t.Fatalf("%v: %.200s", err, out)
			}
			var got clientAnswer
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if got.Object != "list" || got.Model != "the-model" || len(got.Data) != 250 || p.Dimensions() != size {
				t.Fatalf("got %s %s with %d vectors of %d", got.Object, got.Model, len(got.Data), p.Dimensions())
			}
			for i, item := range got.Data {
				vector := readVector(t, item.Embedding, format)
				if item.Index != i || item.Object != "embedding" || len(vector) != size || vector[i%(size-2)+2] != 1e-7 {
					t.Fatalf("%s: vector %d is %v", format, i, vector)
				}
			}
			estimated := d.Batch
			if usage := p.Usage(); usage.Estimated != estimated || got.Usage.Prompt != usage.TotalInput() || got.Usage.Total != got.Usage.Prompt || got.Usage.Prompt < 250 {
				t.Errorf("usage %+v against %+v", got.Usage, usage)
			}
		}
	}
}

// readVector reads what was asked for and nothing else: clients that asked for numbers cannot read base64.
func readVector(t *testing.T, value json.RawMessage, format string) []float32 {
	t.Helper()
	var vector []float32
	if format == "float" {
		if err := json.Unmarshal(value, &vector); err != nil {
			t.Fatal(err)
		}
		return vector
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for ; len(raw) >= 4; raw = raw[4:] {
		vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return vector
}

// The two encodings carry the same floats, bit for bit, whichever way they came in.
func TestEncodingsCarryTheSameBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vector := rapid.SliceOfN(rapid.Float32(), 1, 20).Filter(func(v []float32) bool {
			sum := 0.0
			for _, x := range v {
				sum += float64(x) * float64(x)
			}
			return sum > 0 && !math.IsInf(sum, 0) && !math.IsNaN(sum)
		}).Draw(t, "vector")
		in := rapid.SampledFrom([]string{jsonFloats(vector), `"` + base64Floats(vector) + `"`, `"` + strings.ReplaceAll(base64Floats(vector), "/", `\/`) + `"`}).Draw(t, "in")
		encoded := rapid.Bool().Draw(t, "base64")
		r, err := embeddings.Decode([]byte(`{"model":"m","input":"a","encoding_format":"` + map[bool]string{true: "base64", false: "float"}[encoded] + `"}`))
		if err != nil {
			t.Fatal(err)
		}
		p, err := embeddings.NewPlan(r, unknown, openAI)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.DecodeAnswer(p.Batches[0], []byte(`{"data":[{"embedding":`+in+`}]}`)); err != nil {
			t.Fatal(err)
		}
		out, err := p.AppendAnswer(nil)
		if err != nil {
			t.Fatal(err)
		}
		for e := scan.Array(scan.Get(out, "data")); e.Next(); {
			got := scan.Get(e.Value, "embedding")
			if encoded {
				if want := `"` + base64Floats(vector) + `"`; string(got) != want {
					t.Fatalf("got %s, want %s", got, want)
				}
				return
			}
			var back []float32
			if err := json.Unmarshal(got, &back); err != nil {
				t.Fatal(err)
			}
			for i := range vector {
				if math.Float32bits(back[i]) != math.Float32bits(vector[i]) {
					t.Fatalf("number %d: got %v, want %v", i, back[i], vector[i])
				}
			}
		}
	})
}

func TestTheDocumentedExampleOfBase64(t *testing.T) {
	p := plan(t, `{"model":"m","input":"a","encoding_format":"base64"}`, unknown, openAI)
	if err := p.DecodeAnswer(p.Batches[0], []byte(`{"data":[{"embedding":[0.1,0.2]}],"usage":{"total_tokens":3}}`)); err != nil {
		t.Fatal(err)
	}
	want := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":"zczMPc3MTD4="}],"model":"m","usage":{"prompt_tokens":3,"total_tokens":3}}`
	if out, err := p.AppendAnswer(nil); err != nil || string(out) != want {
		t.Errorf("got %s, %v", out, err)
	}
}

func TestAnswersThatWouldSpoilAnIndexAreErrors(t *testing.T) {
	long := strings.Repeat("0.1,", 1<<16) + "0.1"
	cases := map[string]string{
		"not JSON":              `<html>`,
		"not an object":         `[]`,
		"no vectors":            `{}`,
		"one too few":           `{"data":[{"embedding":[1,2]}]}`,
		"one too many":          `{"data":[{"embedding":[1,2]},{"embedding":[1,2]},{"embedding":[1,2]}]}`,
		"one twice":             `{"data":[{"index":1,"embedding":[1,2]},{"index":1,"embedding":[1,2]}]}`,
		"a negative place":      `{"data":[{"index":-1,"embedding":[1,2]},{"index":1,"embedding":[1,2]}]}`,
		"different sizes":       `{"data":[{"embedding":[1,2]},{"embedding":[1,2,3]}]}`,
		"empty":                 `{"data":[{"embedding":[]},{"embedding":[]}]}`,
		"no vector":             `{"data":[{"embedding":null},{"embedding":{}}]}`,
		"words":                 `{"data":[{"embedding":["a","b"]},{"embedding":[1,2]}]}`,
		"too large a number":    `{"data":[{"embedding":[1e39,2]},{"embedding":[1,2]}]}`,
		"not a number":          `{"data":[{"embedding":"` + base64Floats([]float32{float32(math.NaN()), 1}) + `"},{"embedding":[1,2]}]}`,
		"infinite":              `{"data":[{"embedding":"` + base64Floats([]float32{float32(math.Inf(1)), 1}) + `"},{"embedding":[1,2]}]}`,
		"half a number":         `{"data":[{"embedding":"AAAAAAA="},{"embedding":[1,2]}]}`,
		"not base64":            `{"data":[{"embedding":"*"},{"embedding":[1,2]}]}`,
		"nothing but zeros":     `{"data":[{"embedding":[0,0]},{"embedding":[1,2]}]}`,
		"longer than a vector":  `{"data":[{"embedding":[` + long + `]},{"embedding":[1,2]}]}`,
		"the other API's shape": `{"embeddings":[{"values":[1,2]},{"values":[1,2]}]}`,
	}
	for name, answer := range cases {
		p := plan(t, `{"model":"m","input":["a","b"]}`, unknown, openAI)
		var e *codec.Error
		if err := p.DecodeAnswer(p.Batches[0], []byte(answer)); !errors.As(err, &e) || e.Kind != codec.KindUpstream {
			t.Errorf("%s: got %v", name, err)
		}
	}
	p := plan(t, `{"model":"m","input":"a","dimensions":4}`, small, openAI)
	if err := p.DecodeAnswer(p.Batches[0], []byte(`{"data":[{"embedding":[1,2,3]}]}`)); err == nil || !strings.Contains(err.Error(), "3 dimensions instead of 4") {
		t.Errorf("a vector of another size than asked: %v", err)
	}
	if _, err := p.AppendAnswer(nil); err == nil {
		t.Error("a plan without an answer was written out")
	}
}

func TestARefusedBatchMayBeAskedForAgain(t *testing.T) {
	p := plan(t, `{"model":"m","input":["a","b"]}`, unknown, openAI)
	if err := p.DecodeAnswer(p.Batches[0], []byte(`{"data":[{"embedding":[1,2]}]}`)); err == nil {
		t.Fatal("half an answer was taken")
	}
	if err := p.DecodeAnswer(p.Batches[0], []byte(`{"data":[{"embedding":[3,4]},{"embedding":[5,6]}],"usage":{"prompt_tokens":2}}`)); err != nil {
		t.Fatal(err)
	}
	want := `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[3,4]},{"object":"embedding","index":1,"embedding":[5,6]}],"model":"m","usage":{"prompt_tokens":2,"total_tokens":2}}`
	if out, err := p.AppendAnswer(nil); err != nil || string(out) != want {
		t.Errorf("got %s, %v", out, err)
	}
}

// Vectors are cut only when told so, and have length 1 then; those that a host cut and left are scaled.
func TestCutVectorsHaveLengthOne(t *testing.T) {
	cutting := embeddings.Model{Native: 4, Default: 4, Min: 1, Max: 4, Matryoshka: true, Truncate: true, Normalized: true}
	cases := []struct {
		name    string
		model   embeddings.Model
		dialect embeddings.Dialect
		ask     string
		answer  string
		want    []float32
	}{
		{"cut here", cutting, compatible, `,"dimensions":2`, `{"data":[{"embedding":[3,4,5,6]}]}`, []float32{0.6, 0.8}},
		{"cut to the model's default", embeddings.Model{Native: 4, Default: 2, Min: 1, Max: 4, Matryoshka: true, Truncate: true}, compatible, ``, `{"data":[{"embedding":[3,4,5,6]}]}`, []float32{0.6, 0.8}},
		{"not cut when the host can be asked", cutting, openAI, `,"dimensions":2`, `{"data":[{"embedding":[3,4]}]}`, []float32{3, 4}},
		{"cut by Google and left as it was", embeddings.Model{Default: 4, Min: 1, Max: 4}, google, `,"dimensions":2`, `{"embeddings":[{"values":[3,4]}],"usageMetadata":{"promptTokenCount":2}}`, []float32{0.6, 0.8}},
		{"of full size, left alone", embeddings.Model{Default: 4, Min: 1, Max: 4}, google, `,"dimensions":4`, `{"embeddings":[{"values":[3,4,0,0]}]}`, []float32{3, 4, 0, 0}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := plan(t, `{"model":"m","input":"a"`+c.ask+`}`, c.model, c.dialect)
			if err := p.DecodeAnswer(p.Batches[0], []byte(c.answer)); err != nil {
				t.Fatal(err)
			}
			out, err := p.AppendAnswer(nil)
			if err != nil {
				t.Fatal(err)
			}
			var got clientAnswer
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, readVector(t, got.Data[0].Embedding, "float")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func BenchmarkAnswer(b *testing.B) {
	vector := make([]float32, 1536)
	for i := range vector {
		vector[i] = float32(math.Sin(float64(i))) / 30
	}
	for _, format := range []string{"float", "base64"} {
		b.Run(format, func(b *testing.B) {
			value := jsonFloats(vector)
			if format == "base64" {
				value = `"` + base64Floats(vector) + `"`
			}
			answer := []byte(`{"data":[` + strings.Repeat(`{"embedding":`+value+`},`, 99) + `{"embedding":` + value + `}]}`)
			body := []byte(`{"model":"m","input":[` + strings.Repeat(`"a",`, 99) + `"a"],"encoding_format":"` + format + `"}`)
			r, err := embeddings.Decode(body)
			if err != nil {
				b.Fatal(err)
			}
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				p, err := embeddings.NewPlan(r, unknown, openAI)
				if err != nil {
					b.Fatal(err)
				}
				if err := p.DecodeAnswer(p.Batches[0], answer); err != nil {
					b.Fatal(err)
				}
				if out, err = p.AppendAnswer(out[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
