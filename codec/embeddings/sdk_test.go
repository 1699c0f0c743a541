package embeddings_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// OpenAI's SDK asks as it does and reads what it needs, while Google's API is asked behind it.
func TestTheSDKReadsVectorsOfAnotherHost(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			t.Error(err)
		}
		p := plan(t, string(body), gemini001, google)
		for _, b := range p.Batches {
			if err := p.DecodeAnswer(b, []byte(hostAnswer(google, b, 128, false))); err != nil {
				t.Error(err)
			}
		}
		out, err := p.AppendAnswer(nil)
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(out)
	}))
	defer server.Close()

	client := openai.NewClient(option.WithBaseURL(server.URL), option.WithAPIKey("key"))
	answer, err := client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{
		Model:      "gemini-embedding-001",
		Dimensions: openai.Int(128),
		Input:      openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a", "b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Data) != 2 || len(answer.Data[1].Embedding) != 128 || answer.Data[1].Index != 1 || answer.Model != "gemini-embedding-001" || answer.Usage.TotalTokens == 0 {
		t.Errorf("got %+v", answer)
	}
	if diff := cmp.Diff(float32(0.8), float32(answer.Data[1].Embedding[1])); diff != "" {
		t.Error(diff)
	}
}
