package opensearch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// PasswordVariable names the environment variable with the password of the user in the address.
const PasswordVariable = "OPENSEARCH_PASSWORD"

// Index is an index of an OpenSearch service. All methods may be called concurrently.
type Index struct {
	base, name string
	user       string // "": none
	password   string
	http       *http.Client

	mu     sync.Mutex
	mapped map[int]bool // lengths of vectors that the index has a field for
}

const (
	dialTimeout = 10 * time.Second // in all for a connection and its encryption
	mostAnswer  = 8 << 20          // bytes; the longest answers have 1,100 ids
)

// indexName is what OpenSearch allows, without the characters that mean several indexes.
var indexName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,199}$`)

// Open returns the index at an address such as https://mneme@search.example.com:9200/memory. The password is in
// OPENSEARCH_PASSWORD. It connects to nothing yet.
func Open(address string) (*Index, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errAddress // the error would quote the address
	}
	name := strings.TrimPrefix(u.Path, "/")
	_, inAddress := u.User.Password()
	switch {
	case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.RawQuery != "", u.Fragment != "", !indexName.MatchString(name):
		return nil, errAddress
	case inAddress:
		return nil, errors.New("put the password into " + PasswordVariable + " instead of the address")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 16
	transport.TLSHandshakeTimeout = dialTimeout
	return &Index{
		base: u.Scheme + "://" + u.Host, name: name, user: u.User.Username(), password: os.Getenv(PasswordVariable),
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		mapped: make(map[int]bool),
	}, nil
}

// Name returns the address without the user.
func (x *Index) Name() string { return x.base + "/" + x.name }

var errAddress = errors.New("write https://USER@HOST:PORT/INDEX, with the name of the index in small letters, digits, dashes and underscores")

// Error is an answer of the service that refuses a request.
type Error struct {
	Status int
	Type   string        // such as index_not_found_exception; "": the answer did not say
	After  time.Duration // how long the service asks to wait; 0: it does not say
}

func (e *Error) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("the search engine answers with status %d", e.Status)
	}
	return fmt.Sprintf("the search engine answers with status %d, %s", e.Status, e.Type)
}

// Wait returns how long the service asks to wait.
func (e *Error) Wait() time.Duration { return e.After }

// isMissing reports whether the service does not have what was asked for.
func isMissing(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == http.StatusNotFound
}

// content types of requests.
const (
	asJSON  = "application/json"
	asLines = "application/x-ndjson"
)

// call sends a request, and decodes the answer into answer unless that is nil. ctx limits its time.
func (x *Index) call(ctx context.Context, method, path string, parameters url.Values, contentType string, body []byte, answer any) error {
	address := x.base + path
	if len(parameters) > 0 {
		address += "?" + parameters.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if len(body) > 0 {
		request.Header.Set("Content-Type", contentType)
	}
	request.Header.Set("Accept", asJSON)
	if x.user != "" {
		request.SetBasicAuth(x.user, x.password)
	}
	response, err := x.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask the search engine: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer of the search engine: %w", err)
	case response.StatusCode < 200 || response.StatusCode > 299:
		return refusal(response, content)
	case len(content) > mostAnswer:
		return fmt.Errorf("the answer of the search engine has more than %d bytes", mostAnswer)
	}
	if kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type")); err != nil || kind != asJSON {
		return errors.New("the answer is not in JSON: the address may be that of another service")
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(content, answer); err != nil {
		return fmt.Errorf("the answer of the search engine cannot be read: %w", err)
	}
	return nil
}

// refusal returns the error for an answer. Reasons are left out: they may quote what was sent.
func refusal(response *http.Response, content []byte) error {
	e := &Error{Status: response.StatusCode}
	var answer struct{ Error json.RawMessage }
	var why struct{ Type string }
	if json.Unmarshal(content, &answer) == nil && json.Unmarshal(answer.Error, &why) == nil {
		e.Type = why.Type
	}
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.After = min(time.Duration(seconds)*time.Second, mostWait)
	}
	return e
}

// mostWait bounds how long a service can have us wait.
const mostWait = 5 * time.Minute

func (x *Index) callJSON(ctx context.Context, method, path string, parameters url.Values, body, answer any) error {
	var encoded []byte
	if body != nil {
		var err error
		if encoded, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return x.call(ctx, method, path, parameters, asJSON, encoded, answer)
}
