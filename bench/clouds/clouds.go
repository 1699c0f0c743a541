// Package clouds simulates the APIs that clouds put in front of models: Azure OpenAI, Vertex AI and Amazon Bedrock,
// with their paths, credentials and stream framing. They check a request as the real ones do, and forward it to an
// origin that speaks the vendors' own APIs, such as the simulated provider.
package clouds

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Key is the API key of Azure.
const Key = "azure-key"

// Token is the access token that the /token endpoint of the Vertex fake issues, and that its other endpoints accept.
const Token = "vertex-token" //nolint:gosec // valid only for the fake

// Credentials are the credentials of Bedrock.
var Credentials = aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "bedrock-secret"}

// Region is the region of Bedrock.
const Region = "us-east-1"

// asked is a request for the origin.
type asked struct {
	path  string
	query string
	body  []byte
	beta  string
}

// forward sends a request to the origin.
func forward(r *http.Request, origin string, a asked) (*http.Response, error) {
	target := origin + a.path
	if a.query != "" {
		target += "?" + a.query
	}
	request, err := http.NewRequestWithContext(r.Context(), http.MethodPost, target, bytes.NewReader(a.body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", r.Header.Get("Accept"))
	request.Header.Set("Anthropic-Version", "2023-06-01")
	if a.beta != "" {
		request.Header.Set("Anthropic-Beta", a.beta)
	}
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key"} {
		request.Header.Set(name, "simulated")
	}
	request.Header.Set("Authorization", "Bearer simulated")
	return http.DefaultClient.Do(request)
}

// relay passes on an answer as it arrives. If it breaks off, so does the copy.
func relay(w http.ResponseWriter, from *http.Response) {
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if value := from.Header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(from.StatusCode)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Body.Read(buffer)
		_, _ = w.Write(buffer[:n])
		_ = http.NewResponseController(w).Flush()
		if err == io.EOF {
			return
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

func refuse(w http.ResponseWriter, status int, format string, args ...any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": fmt.Sprintf(format, args...)})
}

// members decodes an object and returns it with the members of set, and without some others.
func members(body []byte, set map[string]any, without ...string) (text []byte, had map[string]json.RawMessage, err error) {
	if err := json.Unmarshal(body, &had); err != nil {
		return nil, nil, err
	}
	changed := make(map[string]json.RawMessage, len(had))
	for name, value := range had {
		changed[name] = value
	}
	for _, name := range without {
		delete(changed, name)
	}
	for name, value := range set {
		if changed[name], err = json.Marshal(value); err != nil {
			return nil, nil, err
		}
	}
	text, err = json.Marshal(changed)
	return text, had, err
}

// Azure starts a resource of Azure OpenAI in front of an origin. Deployments are named after their models.
func Azure(origin string) *httptest.Server {
	return serve(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if r.Header.Get("Api-Key") != Key || r.Header.Get("Authorization") != "" {
			refuse(w, http.StatusUnauthorized, "Access denied due to invalid subscription key or wrong API endpoint.")
			return
		}
		a := asked{body: body}
		version := r.URL.Query().Get("api-version")
		if rest, v1 := strings.CutPrefix(r.URL.Path, "/openai/v1/"); v1 && version == "" {
			a.path = "/v1/" + rest
		} else if rest, deployed := strings.CutPrefix(r.URL.Path, "/openai/deployments/"); deployed && version != "" {
			deployment, operation, _ := strings.Cut(rest, "/")
			text, _, err := members(body, map[string]any{"model": deployment})
			if err != nil {
				refuse(w, http.StatusBadRequest, "%v", err)
				return
			}
			a.path, a.body = "/v1/"+operation, text
		} else {
			refuse(w, http.StatusNotFound, "Resource not found")
			return
		}
		pass(w, r, origin, a)
	})
}

// Vertex starts Vertex AI in front of an origin, with the endpoint that issues tokens.
func Vertex(origin string) *httptest.Server {
	return serve(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if r.URL.Path == "/token" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, Token)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+Token || r.Header.Get("X-Goog-Api-Key") != "" || r.Header.Get("X-Api-Key") != "" {
			refuse(w, http.StatusUnauthorized, "Request had invalid authentication credentials.")
			return
		}
		_, rest, _ := strings.Cut(r.URL.Path, "/publishers/")
		publisher, rest, _ := strings.Cut(rest, "/models/")
		model, method, _ := strings.Cut(rest, ":")
		switch {
		case !strings.HasPrefix(r.URL.Path, "/v1/projects/") || model == "":
			refuse(w, http.StatusNotFound, "not found: %s", r.URL.Path)
		case publisher == "google":
			pass(w, r, origin, asked{path: "/v1beta/models/" + model + ":" + method, query: r.URL.RawQuery, body: body})
		default:
			text, had, err := members(body, map[string]any{"model": strings.ReplaceAll(model, "@", "-")}, "anthropic_version")
			if err != nil || had["model"] != nil || string(had["anthropic_version"]) != `"vertex-2023-10-16"` {
				refuse(w, http.StatusBadRequest, "anthropic_version: is missing or wrong, or there is a model: %v", err)
				return
			}
			pass(w, r, origin, asked{path: "/v1/messages", body: text, beta: r.Header.Get("Anthropic-Beta")})
		}
	})
}

// Bedrock starts Amazon Bedrock in [Region] in front of an origin.
func Bedrock(origin string) *httptest.Server {
	return serve(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if err := signed(r, body); err != nil {
			w.Header().Set("X-Amzn-ErrorType", "InvalidSignatureException")
			refuse(w, http.StatusForbidden, "%v", err)
			return
		}
		rest, found := strings.CutPrefix(r.URL.Path, "/model/")
		id, method, _ := strings.Cut(rest, "/")
		_, name, anthropic := strings.Cut(id, "anthropic.")
		if !found || !anthropic || method != "invoke" && method != "invoke-with-response-stream" {
			refuse(w, http.StatusNotFound, "Could not resolve the foundation model from the provided model identifier.")
			return
		}
		name, _, _ = strings.Cut(name, "-v1:")
		text, had, err := members(body, map[string]any{"model": name, "stream": method != "invoke"}, "anthropic_version", "anthropic_beta")
		if err != nil || had["model"] != nil || had["stream"] != nil || string(had["anthropic_version"]) != `"bedrock-2023-05-31"` {
			refuse(w, http.StatusBadRequest, "Malformed input request: extraneous key or no anthropic_version: %v", err)
			return
		}
		var betas []string
		_ = json.Unmarshal(had["anthropic_beta"], &betas)
		answer, err := forward(r, origin, asked{path: "/v1/messages", body: text, beta: strings.Join(betas, ",")})
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer answer.Body.Close()
		switch {
		case answer.StatusCode >= http.StatusBadRequest:
			var said struct {
				Error struct {
					Message string `json:"message"`
				} `json:"error"`
			}
			_ = json.NewDecoder(answer.Body).Decode(&said)
			refuse(w, answer.StatusCode, "%s", said.Error.Message)
		case method == "invoke":
			relay(w, answer)
		default:
			frames(w, answer.Body)
		}
	})
}

// signed checks a signature by computing it from the request.
func signed(r *http.Request, body []byte) error {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return fmt.Errorf("Missing Authentication Token") //nolint:staticcheck // AWS' own words
	}
	target := *r.URL
	target.Scheme, target.Host = "http", r.Host
	again := &http.Request{
		Method: r.Method, URL: &target, Host: r.Host, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": r.Header["Content-Type"]},
	}
	digest := sha256.Sum256(body)
	if err := signer.NewSigner().SignHTTP(r.Context(), Credentials, again, hex.EncodeToString(digest[:]), "bedrock", Region, at); err != nil {
		return err
	}
	if r.Header.Get("Authorization") != again.Header.Get("Authorization") {
		return fmt.Errorf("The request signature we calculated does not match the signature you provided") //nolint:staticcheck // AWS' own words
	}
	return nil
}

// frames writes server-sent events in AWS' framing.
func frames(w http.ResponseWriter, events io.Reader) {
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	encoder := eventstream.NewEncoder()
	write := func(headers eventstream.Headers, payload any) {
		text, _ := json.Marshal(payload)
		_ = encoder.Encode(w, eventstream.Message{Headers: headers, Payload: text})
		_ = http.NewResponseController(w).Flush()
	}
	header := func(name, value string) eventstream.Header {
		return eventstream.Header{Name: name, Value: eventstream.StringValue(value)}
	}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 64<<20)
	failed := false
	for lines.Scan() {
		if lines.Text() == "event: error" {
			failed = true
			continue
		}
		data, found := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case found && failed:
			var said struct {
				Error struct {
					Type    string `json:"type"`
					Message string `json:"message"`
				} `json:"error"`
			}
			_ = json.Unmarshal([]byte(data), &said)
			exception := "internalServerException"
			if said.Error.Type == "overloaded_error" {
				exception = "serviceUnavailableException"
			}
			write(eventstream.Headers{header(":message-type", "exception"), header(":exception-type", exception)}, map[string]string{"message": said.Error.Message})
			return
		case found:
			write(eventstream.Headers{header(":message-type", "event"), header(":event-type", "chunk"), header(":content-type", "application/json")},
				map[string]string{"bytes": base64.StdEncoding.EncodeToString([]byte(data)), "p": "abcdefghijkl"})
		}
	}
	if lines.Err() != nil {
		panic(http.ErrAbortHandler)
	}
}

func pass(w http.ResponseWriter, r *http.Request, origin string, a asked) {
	answer, err := forward(r, origin, a)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer answer.Body.Close()
	relay(w, answer)
}

func serve(handle func(http.ResponseWriter, *http.Request, []byte)) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		handle(w, r, body)
	}))
}
