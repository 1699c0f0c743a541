package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// ExchangeReplay is "mneme exchange replay ID".
type ExchangeReplay struct {
	Target `embed:""`
	ID     string `arg:"" name:"id" help:"The exchange whose request is sent again."`
	Model  string `placeholder:"NAME" help:"Ask this model instead."`
	Text   bool   `xor:"form" help:"Write the answer as text with a diff against the recorded one; the default at a terminal."`
	Raw    bool   `xor:"form" help:"Write the bytes of the answer as they come; the default elsewhere."`
}

// replayPaths are the paths of the surfaces.
var replayPaths = map[string]string{
	"chat": "/v1/chat/completions", "responses": "/v1/responses", "messages": "/v1/messages", "embeddings": "/v1/embeddings",
	"gemini": "", // see googlesVerb
}

// replayHeaders are the headers of the captured request that decide how it is read.
var replayHeaders = []string{"Anthropic-Version", "Anthropic-Beta"}

// replayKeyLife is the longest life of a replay's key, because a killed replay does not revoke it. The key is checked
// once, when the server has the request; the answer may take longer.
const replayKeyLife = 5 * time.Minute

// Run sends the request through the running server, with a key made for it and revoked afterwards, and shows the
// answer. It is recorded as an exchange of its own, in a session for replays of this one.
func (c *ExchangeReplay) Run(ctx context.Context, s *Env) error {
	origin, err := c.origin(ctx)
	if err != nil {
		return err
	}
	manage := c.manage
	if _, key, err := c.elsewhere(); err == nil && key == "" {
		manage = c.StoreFlags.manage // only --url says where the server of this machine's data listens
	}
	return manage(ctx, mustExist, func(client *admin.Client) (err error) {
		if client.InProcess() {
			return errors.New("no server runs on this data; start one with: mneme serve")
		}
		x, err := client.Memory().Exchange(ctx, c.ID)
		if err != nil {
			return err
		}
		for _, r := range x.Redactions {
			if r.Request > 0 {
				fmt.Fprintf(s.Err, "mneme: the request was stored with credentials masked (%s): the model gets asterisks in their place\n", r.Name)
			}
		}
		secret, revoke, err := c.key(ctx, client, &x)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, revoke()) }()
		request, err := c.request(ctx, &x, origin, secret)
		if err != nil {
			return err
		}
		if c.Raw || !c.Text && !isTerminal(s.Out) {
			_, err := send(request, s, s.Out)
			return err
		}
		again, err := send(request, s, io.Discard)
		if err != nil {
			return err
		}
		return compareAnswers(ctx, client, s.Out, x.Account, x.ID, again)
	})
}

// key returns a key for the replay and a function that revokes it; on a remote server it is the caller's own key.
func (c *ExchangeReplay) key(ctx context.Context, client *admin.Client, x *api.Exchange) (secret string, revoke func() error, err error) {
	if client.Holder() != nil {
		_, secret, err = c.elsewhere()
		return secret, func() error { return nil }, err
	}
	expires := time.Now().Add(replayKeyLife)
	key, err := client.Keys().Create(ctx, api.NewKey{
		Account: x.Account, Scopes: store.ScopeWrite, Label: "replay of " + x.ID, KeySettings: api.KeySettings{Expires: &expires},
	})
	if err != nil {
		return "", nil, err
	}
	return key.Secret, func() error { return client.Keys().Revoke(context.WithoutCancel(ctx), key.ID) }, nil
}

// request returns the captured request without its continuity fields, which would add it to the old conversation.
func (c *ExchangeReplay) request(ctx context.Context, x *api.Exchange, origin, key string) (*http.Request, error) {
	path, ok := replayPaths[x.Surface]
	if !ok || x.Auxiliary == record.AuxiliaryTokens {
		return nil, fmt.Errorf("%s is not a request for a model's answer", x.ID)
	}
	body, err := x.Request()
	if err != nil {
		return nil, err
	}
	var envelope codec.Envelope
	if verb := googlesVerb(x, body); verb != "" {
		envelope.Address(x.ModelAsked, x.Stream)
		model := cmp.Or(c.Model, x.ModelAsked)
		path = "/v1beta/models/" + strings.ReplaceAll(url.PathEscape(model), "%2F", "/") + verb
		if body, err = batchFor(model, body); err != nil {
			return nil, err
		}
	}
	if err := envelope.Read(body); err != nil {
		return nil, err
	}
	body = envelope.Splice(nil, body, cmp.Or(c.Model, envelope.Model))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(origin, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Service-API-Key", key)
	request.Header.Set("X-Service-External-Session-ID", "replay of "+x.ID)
	request.Header.Set("X-Service-Replay", x.ID)
	for _, field := range x.Header {
		for _, name := range replayHeaders {
			if strings.EqualFold(field.Name, name) {
				request.Header.Set(name, field.Value)
			}
		}
	}
	return request, nil
}

// googlesVerb returns the end of the path of a request to Google's API, whose path names the model; "" for other requests.
func googlesVerb(x *api.Exchange, body []byte) string {
	switch {
	case x.Surface == "gemini" && x.Stream:
		return ":streamGenerateContent?alt=sse"
	case x.Surface == "gemini":
		return ":generateContent"
	case x.Surface != "embeddings":
		return ""
	case scan.Get(body, "requests") != nil:
		return ":batchEmbedContents"
	case scan.Get(body, "content") != nil:
		return ":embedContent"
	}
	return ""
}

// batchFor returns a request to Google's API for another model. A batch names the model in each of its requests.
func batchFor(model string, body []byte) ([]byte, error) {
	if scan.Get(body, "requests") == nil {
		return body, nil
	}
	var batch map[string]json.RawMessage
	var requests []map[string]json.RawMessage
	if err := json.Unmarshal(body, &batch); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(batch["requests"], &requests); err != nil {
		return nil, err
	}
	name, err := json.Marshal("models/" + model)
	for _, r := range requests {
		if r != nil { // null is for the server to refuse
			r["model"] = name
		}
	}
	changed, failed := json.Marshal(requests)
	batch["requests"] = changed
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return json.Marshal(batch)
}

// send streams the answer to out, and returns the id of the exchange. An error answer always goes to standard output,
// and is a failure.
func send(request *http.Request, s *Env, out io.Writer) (id string, err error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}} // no proxy: this is our own server
	response, err := client.Do(request)
	if err != nil {
		return "", fmt.Errorf("the server cannot be reached at %s: %w", request.URL.Host, err)
	}
	defer response.Body.Close()
	failed := response.StatusCode >= http.StatusMultipleChoices
	if failed {
		out = s.Out
	}
	if _, err := io.Copy(out, response.Body); err != nil {
		return "", fmt.Errorf("the answer was cut off: %w", err)
	}
	if isTerminal(out) {
		fmt.Fprintln(out)
	}
	id = response.Header.Get("X-Service-Exchange-ID")
	fmt.Fprintf(s.Err, "mneme: on record as %s\n", id)
	if failed {
		return id, fmt.Errorf("the answer is an error, HTTP %d", response.StatusCode)
	}
	return id, nil
}

// compareAnswers writes the second answer as text, and its differences from the first.
func compareAnswers(ctx context.Context, client *admin.Client, w io.Writer, account, first, second string) error {
	before, err := answerText(ctx, client, account, first)
	if err != nil {
		return err
	}
	after, err := answerText(ctx, client, account, second)
	if err != nil {
		return err
	}
	fmt.Fprint(w, after)
	changes := diff.Diff(first, []byte(before), second, []byte(after))
	if len(changes) == 0 {
		_, err = fmt.Fprintln(w, "\nthe same answer as before")
	} else {
		_, err = fmt.Fprintf(w, "\n%s", changes)
	}
	return err
}

// answerText returns an exchange's answer, with a line for each line of text and for each tool call.
func answerText(ctx context.Context, client *admin.Client, account, id string) (string, error) {
	answer, err := client.Memory().Answer(ctx, account, id)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, m := range answer {
		for i := range m.Parts {
			switch p := &m.Parts[i]; p.Kind {
			case "text":
				fmt.Fprintln(&b, printableLines(strings.TrimRight(p.Text, "\n")))
			case "call":
				fmt.Fprintf(&b, "calls %s %s\n", printable(p.Name), printable(p.Arguments))
			case "media":
				fmt.Fprintf(&b, "[%s, %s]\n", printable(p.MediaType), amount(p.Bytes))
			}
		}
	}
	return b.String(), nil
}
