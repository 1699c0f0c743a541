package provider_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"testing"

	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"google.golang.org/genai"

	"github.com/mnemeproxy/mneme/bench/provider"
)

func dot[T float32 | float64](a, b []T) float64 {
	var sum float64
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

func TestEmbeddingsOfLikeTextsLieClose(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	answer, err := ptr(openaiClient(s.URL())).Embeddings.New(context.Background(), openai.EmbeddingNewParams{
		Model: "text-embedding-3-small",
		Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{
			"how to open a file in Go", "Open the file in Go.", "a recipe for apple pie", "how to open a file in Go",
		}},
		Dimensions: openai.Int(512),
	})
	if err != nil {
		t.Fatal(err)
	}
	v := make([][]float64, 4)
	for i, e := range answer.Data {
		v[i] = e.Embedding
		if e.Index != int64(i) || len(v[i]) != 512 || math.Abs(dot(v[i], v[i])-1) > 1e-3 {
			t.Errorf("vector %d has index %d, %d numbers and the square length %f", i, e.Index, len(v[i]), dot(v[i], v[i]))
		}
	}
	if !slices.Equal(v[0], v[3]) {
		t.Error("the same text has two vectors")
	}
	if near, far := dot(v[0], v[1]), dot(v[0], v[2]); near < far+0.3 {
		t.Errorf("like texts are %f apart, others %f", near, far)
	}
	if answer.Usage.PromptTokens == 0 || answer.Usage.PromptTokens != answer.Usage.TotalTokens {
		t.Errorf("usage is %+v", answer.Usage)
	}
}

func TestBase64HoldsTheSameVector(t *testing.T) {
	s := start(t, provider.Options{})
	var vectors [2][]float32
	for i, format := range []string{"float", "base64"} {
		_, body, err := send(t, s.URL()+"/v1/embeddings", `{"model":"text-embedding-3-large","input":"x","encoding_format":"`+format+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Data []struct{ Embedding json.RawMessage }
		}
		must(json.Unmarshal([]byte(body), &answer))
		if format == "float" {
			must(json.Unmarshal(answer.Data[0].Embedding, &vectors[i]))
			continue
		}
		var text string
		must(json.Unmarshal(answer.Data[0].Embedding, &text))
		packed, err := base64.StdEncoding.DecodeString(text)
		must(err)
		for j := 0; j < len(packed); j += 4 {
			vectors[i] = append(vectors[i], math.Float32frombits(binary.LittleEndian.Uint32(packed[j:])))
		}
	}
	if len(vectors[0]) != 3072 || !slices.Equal(vectors[0], vectors[1]) {
		t.Errorf("%d floats, %d in base64, not the same", len(vectors[0]), len(vectors[1]))
	}
}

func TestGeminiEmbeddings(t *testing.T) {
	s := start(t, provider.Options{Strict: true})
	ctx := context.Background()
	client, err := geminiClient(ctx, s.URL())
	if err != nil {
		t.Fatal(err)
	}
	size := int32(768)
	answer, err := client.Models.EmbedContent(ctx, "gemini-embedding-001", genai.Text("hello"), &genai.EmbedContentConfig{OutputDimensionality: &size})
	if err != nil {
		t.Fatal(err)
	}
	v := answer.Embeddings[0].Values
	if len(v) != 768 || dot(v, v) > 0.9 {
		t.Errorf("%d numbers of square length %f; a cut vector of this model is no unit vector", len(v), dot(v, v))
	}
	_, body, err := send(t, s.URL()+"/v1beta/models/gemini-embedding-001:embedContent", `{"content":{"parts":[{"text":"hello"}]},"outputDimensionality":768}`)
	must(err)
	var single struct{ Embedding struct{ Values []float32 } }
	must(json.Unmarshal([]byte(body), &single))
	if !slices.Equal(single.Embedding.Values, v) {
		t.Error("the single call gives another vector than the batch")
	}
}

func TestEmbeddingScriptsStandInTheModelName(t *testing.T) {
	s := start(t, provider.Options{})
	_, err := ptr(openaiClient(s.URL())).Embeddings.New(context.Background(), openai.EmbeddingNewParams{},
		openaioption.WithRequestBody("application/json", []byte(`{"model":"text-embedding-3-small[[sim: error 503]]","input":"x"}`)))
	if err == nil {
		t.Error("the error of the model name did not come")
	}
	resp, _, err := send(t, s.URL()+"/v1/embeddings", `{"model":"text-embedding-3-small","input":["[[sim: error 429 retry-after=3 ]]","y"]}`)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "3" {
		t.Errorf("the error of the input: %v %v", err, resp)
	}
	resp, _, err = send(t, s.URL()+"/v1beta/models/gemini-embedding-001:batchEmbedContents", `{"requests":[{"content":{"parts":[{"text":"[[sim: html 500]]"}]}}]}`)
	if err != nil || resp.StatusCode != http.StatusInternalServerError {
		t.Errorf("gemini: %v %v", err, resp)
	}
}
