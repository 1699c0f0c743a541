// Package mcp offers an account's memory to its agents as tools of the Model Context Protocol, over its streamable HTTP
// transport (revision 2025-11-25, sections "Transports" and "Tools"). All tools except memory_note and memory_forget
// are read-only. There are no protocol sessions: each request is independent.
package mcp

import (
	"context"
	"log/slog"
	"net/http"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// Options configure a [Handler].
type Options struct {
	Archive  Archive
	Recorder Recorder
	Searcher Searcher
	Recaller Recaller
	Version  string // of mneme, for clients
	Log      *slog.Logger
	// Identify returns a caller with the scope.
	Identify func(r *http.Request, scope store.Scopes) (store.Identity, error)
	// Trace opens the span of an operation on the memory; the returned function ends it with a status of HTTP. nil: there are none.
	Trace func(r *http.Request, operation string) (end func(status int))
	// Fail answers with an error.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// maxBody bounds a request, in bytes: a tool call is a query and a few ids.
const maxBody = 1 << 20

type toolsKey struct{}

// Handler serves the protocol at one path.
func Handler(o Options) http.Handler {
	schemas := sdk.NewSchemaCache()
	protocol := sdk.NewStreamableHTTPHandler(func(r *http.Request) *sdk.Server {
		t, _ := r.Context().Value(toolsKey{}).(*tools)
		return newServer(t, o.Version, schemas)
	}, &sdk.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: maxBody, PropagateRequestCancellation: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := o.Identify(r, store.ScopeRead)
		if err != nil {
			o.Fail(w, r, err)
			return
		}
		t := &tools{archive: o.Archive, recorder: o.Recorder, searcher: o.Searcher, recaller: o.Recaller, account: caller.Account, key: caller.KeyID, log: o.Log, permit: func(scope store.Scopes) error {
			_, err := o.Identify(r, scope)
			return err
		}, trace: func(operation string) func(int) {
			if o.Trace == nil || operation == "" {
				return func(int) {}
			}
			return o.Trace(r, operation)
		}}
		protocol.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), toolsKey{}, t)))
	})
}

// instructions tell an agent what the tools are for.
const instructions = "The recorded conversations of this account, your own earlier ones among them. Find with memory_search, " +
	"read around a hit with memory_timeline, and read single exchanges whole with memory_get. memory_recall gives what earlier sessions say about a question in " +
	"this project, in one call; project_digest what your conversation has said and done, where you no longer see it; memory_note keeps something for later."

// newServer serves one request.
func newServer(t *tools, version string, schemas *sdk.SchemaCache) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "mneme", Title: "mneme memory", Version: version}, &sdk.ServerOptions{
		Instructions: instructions, SchemaCache: schemas,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Prompts: &sdk.PromptCapabilities{}},
	})
	add(s, t, "memory_search", "Search recorded conversations by words, names (paths, symbols, error codes) and similarity. "+
		"Gives the question and the answer of each round found, or one entry per session, the best first; memory_timeline has the steps in between.", t.search)
	add(s, t, "memory_timeline", "Read a recorded conversation around one of its exchanges, or its end: what each exchange added, long texts cut.", t.timeline)
	add(s, t, "memory_get", "Read what single exchanges added to their conversations: the new messages, calls and results, and the answer, in full.", t.get)
	add(s, t, "memory_list_sessions", "List recorded conversations, the newest first.", t.listSessions)
	add(s, t, "memory_get_session", "Show one recorded conversation: when, with which models, how long, and its summary where there is one.", t.getSession)
	add(s, t, "memory_stats", "Show how much is recorded, and how far the search index is behind.", t.stats)
	add(s, t, "memory_recall", "Ask what earlier sessions in this directory say about a question or an error: the closest questions with their answers, quoted, with how much of the question each holds. Your own conversation is left out.", t.recall)
	add(s, t, "project_digest", aboutDigest, t.digest)
	addTool(s, t, &sdk.Tool{
		Name: "memory_note", Description: "Keep a note for later sessions: a decision, a correction, what a person asked to remember.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: new(bool), OpenWorldHint: new(bool)},
	}, t.note)
	destroys := true
	addTool(s, t, &sdk.Tool{
		Name: "memory_forget", Description: "Erase exchanges or a whole conversation for good. The first call says what would go, and gives a token; the second, with the token, erases.",
		Annotations: &sdk.ToolAnnotations{DestructiveHint: &destroys, IdempotentHint: true, OpenWorldHint: new(bool)},
	}, t.forget)
	addDigest(s, t)
	return s
}

// operations are the tools that search and change the memory, by OpenTelemetry's names for that.
var operations = map[string]string{"memory_search": "search_memory", "memory_recall": "search_memory", "memory_note": "create_memory", "memory_forget": "delete_memory"}

// add registers a tool that answers with text.
func add[In any](s *sdk.Server, t *tools, name, description string, read func(context.Context, *In, *page) error) {
	addTool(s, t, &sdk.Tool{Name: name, Description: description, Annotations: &sdk.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: new(bool)}}, read)
}

func addTool[In any](s *sdk.Server, t *tools, tool *sdk.Tool, read func(context.Context, *In, *page) error) {
	sdk.AddTool(s, tool, func(ctx context.Context, _ *sdk.CallToolRequest, in In) (*sdk.CallToolResult, any, error) {
		var p page
		end := t.trace(operations[tool.Name])
		err := read(ctx, &in, &p)
		if err != nil {
			told := t.told(tool.Name, err)
			if isOurs(told) {
				end(http.StatusInternalServerError)
			} else {
				end(http.StatusBadRequest)
			}
			return nil, nil, told
		}
		end(http.StatusOK)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: p.text()}}}, nil, nil
	})
}

// told words an error for the agent; errors that the agent cannot fix go to the log.
func (t *tools) told(tool string, err error) *codec.Error {
	e := codec.AsError(err, "the memory failed on this; the proxy's log says why")
	if isOurs(e) {
		t.log.Error("a tool of the memory failed", "tool", tool, "account", t.account, "error", err)
	}
	return e
}

// isOurs reports whether an agent cannot mend an error.
func isOurs(e *codec.Error) bool { return e.Kind == codec.KindInternal || e.Kind == codec.KindStorage }
