package grid

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"github.com/mnemeproxy/mneme/bench/clouds"
	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
)

// hosts serve models of other companies, each with the column whose format and model it serves.
var hosts = []struct {
	upstream
	host string
}{
	{upstream{"chat", "azure/gpt-4.1", codec.Chat}, "azure"},
	{upstream{"chat", "azure-2024/gpt-4.1", codec.Chat}, "azure-2024"},
	{upstream{"gemini", "vertex/gemini-3.8-flash", codec.Gemini}, "vertex"},
	{upstream{"messages", "vertex-claude/claude-opus-4-8", codec.Messages}, "vertex-claude"},
	{upstream{"messages", "bedrock/us.anthropic.claude-opus-4-8-v1:0", codec.Messages}, "bedrock"},
	{upstream{"chat", "openrouter/gpt-4.1", codec.Chat}, "openrouter"},
	{upstream{"chat", "ollama/gpt-4.1", codec.Chat}, "ollama"},
}

func TestEveryHostCarriesEveryCase(t *testing.T) {
	if testing.Short() {
		t.Skip("many cases, one after the other")
	}
	h := buildOn(t, placesOf)
	for _, host := range hosts {
		for _, surface := range []string{"chat", "responses", "messages", "gemini"} {
			if surface == host.speak.String() {
				continue
			}
			t.Run(host.host+"/"+surface, func(t *testing.T) {
				x := crossing{surface, host.upstream}
				for _, s := range stories {
					if s.from != "" || s.none != nil && s.none(x) != "" {
						continue
					}
					t.Run(s.name, func(t *testing.T) {
						for _, stream := range []bool{false, true} {
							s.play(t, h, x, stream)
						}
					})
				}
			})
		}
	}
}

// placesOf starts the simulated hosts in front of the simulated provider.
func placesOf(t testing.TB, sim *provider.Server) map[string]router.ProviderConfig {
	t.Helper()
	azure, vertex, bedrock := clouds.Azure(sim.URL()), clouds.Vertex(sim.URL()), clouds.Bedrock(sim.URL())
	for _, server := range []interface{ Close() }{azure, vertex, bedrock} {
		t.Cleanup(server.Close)
	}
	setenv := t.(interface{ Setenv(name, value string) }).Setenv
	setenv("GOOGLE_APPLICATION_CREDENTIALS", serviceAccount(t, vertex.URL+"/token"))
	setenv("AWS_ACCESS_KEY_ID", clouds.Credentials.AccessKeyID)
	setenv("AWS_SECRET_ACCESS_KEY", clouds.Credentials.SecretAccessKey)
	setenv("AWS_CONFIG_FILE", filepath.Join(t.TempDir(), "none"))
	return map[string]router.ProviderConfig{
		"azure":         {BaseURL: azure.URL, APIKey: clouds.Key, Formats: []codec.Format{codec.Chat}},
		"azure-2024":    {Preset: "azure", BaseURL: azure.URL, APIKey: clouds.Key, APIVersion: "2024-10-21", Formats: []codec.Format{codec.Chat}},
		"vertex":        {BaseURL: vertex.URL, Project: "p"},
		"vertex-claude": {BaseURL: vertex.URL, Project: "p", Region: "europe-west4"},
		"bedrock":       {BaseURL: bedrock.URL, Region: clouds.Region},
		"openrouter":    {BaseURL: sim.URL() + "/v1", APIKey: "k"},
		"ollama":        {BaseURL: sim.URL() + "/v1"},
	}
}

// serviceAccount writes the file from which Google's library learns whose tokens to request, and where.
func serviceAccount(t testing.TB, tokens string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "mneme@example.iam.gserviceaccount.com", "private_key_id": "1",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": tokens,
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
