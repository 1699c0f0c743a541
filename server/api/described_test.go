// Package api_test holds docs/api/openapi.yaml and the server to each other, and lets a client that was generated from the
// file work with a real server.
package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// description is the file, and what of it was seen to be true.
type description struct {
	document *openapi3.T
	routes   routers.Router

	mu       sync.Mutex
	answered map[string]bool // ids of operations that were answered with a success
}

func init() { // lines of JSON are a text to the library
	openapi3filter.RegisterBodyDecoder("application/x-ndjson", openapi3filter.PlainBodyDecoder)
}

func readDescription(t *testing.T) *description {
	t.Helper()
	document, err := openapi3.NewLoader().LoadFromFile(filepath.FromSlash("../../docs/api/openapi.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range document.Components.Schemas { // an answer with a member that the file does not have is a fault here
		if no := false; s.Value.Type.Is("object") && len(s.Value.Properties) > 0 {
			s.Value.AdditionalProperties.Has = &no
		}
	}
	document.Servers = nil // those of the tests are elsewhere
	for _, item := range document.Paths.Map() {
		item.Servers = nil
	}
	routes, err := legacy.NewRouter(document)
	if err != nil {
		t.Fatal(err)
	}
	return &description{document: document, routes: routes, answered: map[string]bool{}}
}

// operations returns the id of each operation by its method and path.
func (d *description) operations() map[string]string {
	ids := map[string]string{}
	for path, item := range d.document.Paths.Map() {
		for method, operation := range item.Operations() {
			ids[method+" "+path] = operation.OperationID
		}
	}
	return ids
}

// over returns a transport that lets pass only what the file describes.
func (d *description) over(next http.RoundTripper) http.RoundTripper {
	return &describedTransport{description: d, next: next}
}

type describedTransport struct {
	*description
	next http.RoundTripper
}

func (d *describedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	route, parameters, err := d.routes.FindRoute(r)
	if err != nil {
		return nil, fmt.Errorf("%s %s is not described: %w", r.Method, r.URL.Path, err)
	}
	asked := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateRequest(r.Context(), asked); err != nil {
		return nil, fmt.Errorf("%s is not asked as described: %w", route.Operation.OperationID, err)
	}
	answer, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if err := d.check(r.Context(), asked, answer); err != nil {
		_ = answer.Body.Close()
		return nil, fmt.Errorf("%s is not answered as described: %w", route.Operation.OperationID, err)
	}
	if answer.StatusCode < http.StatusMultipleChoices {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.answered[route.Operation.OperationID] = true
	}
	return answer, nil
}

// check holds an answer to the file: its status and its type, and what it says where that is JSON.
func (d *describedTransport) check(ctx context.Context, asked *openapi3filter.RequestValidationInput, answer *http.Response) error {
	described := asked.Route.Operation.Responses.Status(answer.StatusCode)
	if described == nil && answer.StatusCode < http.StatusBadRequest {
		return fmt.Errorf("status %d", answer.StatusCode)
	}
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if kind != "application/json" {
		if described == nil {
			return fmt.Errorf("an error of type %q", kind)
		}
		if kinds := contentTypes(described.Value); len(kinds) > 0 && !slices.Contains(kinds, kind) {
			return fmt.Errorf("type %q, described are %v", kind, kinds)
		}
		return nil
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	_ = answer.Body.Close()
	answer.Body = io.NopCloser(bytes.NewReader(body))
	if described != nil && len(contentTypes(described.Value)) == 0 {
		return fmt.Errorf("status %d has a body", answer.StatusCode)
	}
	return openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: asked, Status: answer.StatusCode, Header: answer.Header,
		Body: io.NopCloser(bytes.NewReader(body)), Options: asked.Options,
	})
}

func contentTypes(r *openapi3.Response) (kinds []string) {
	for kind := range r.Content {
		kinds = append(kinds, strings.ToLower(kind))
	}
	return kinds
}
