package mcp

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

type recallInput struct {
	Prompt    string `json:"prompt" jsonschema:"the question, or the text of an error"`
	Directory string `json:"directory,omitempty" jsonschema:"the directory that you work in; left out: from all of them"`
	Session   string `json:"session_id,omitempty" jsonschema:"your own conversation, which is left out"`
	MaxTokens int    `json:"max_tokens,omitempty" jsonschema:"how long the answer may be, at most 2000; 1000 if left out"`
}

// recallTokens is how much memory_recall gives by default.
const recallTokens = 1000

func (t *tools) recall(ctx context.Context, in *recallInput, p *page) error {
	if in.Prompt == "" {
		return codec.Invalid("prompt", "say what the question is")
	}
	if _, err := count("max_tokens", in.MaxTokens, 0, recall.MaxTokens); err != nil {
		return err
	}
	p.bound(maxTokens)
	in.MaxTokens = cmp.Or(in.MaxTokens, recallTokens)
	r := t.recaller.Recall(ctx, &recall.Query{
		Account: t.account, Prompt: in.Prompt, Project: in.Directory, Wide: in.Directory == "", Session: in.Session, Key: t.key, Tokens: in.MaxTokens, Asked: true,
	})
	if r.Text == "" {
		p.line("Nothing is recalled: %s. Search with memory_search.", r.Reason.Sentence())
		t.hint(ctx, p, []search.Filter{{Field: "project", Op: "eq", Value: project.Clean(in.Directory)}})
		return nil
	}
	p.write(r.Text + "\n")
	return nil
}

type noteInput struct {
	Text      string   `json:"text" jsonschema:"what is to be kept, in full sentences that are understood later"`
	Directory string   `json:"directory,omitempty" jsonschema:"the directory that it is about"`
	Tags      []string `json:"tags,omitempty" jsonschema:"words to find it by"`
}

// maxNote is the longest note with its tags, in bytes.
const maxNote = 8 << 10

// notesKey is the chat key of the session for notes.
const notesKey = "notes"

// note records a note as an exchange of its own: a person's or an agent's words, without an answer.
func (t *tools) note(ctx context.Context, in *noteInput, p *page) error {
	p.bound(0)
	if err := t.permit(store.ScopeWrite); err != nil {
		return err
	}
	text := strings.TrimSpace(in.Text)
	if text == "" {
		return codec.Invalid("text", "say what is to be kept")
	}
	size := len(text)
	for _, tag := range in.Tags {
		size += 1 + len(tag)
	}
	if size > maxNote {
		return codec.Invalid("text", "a note and its tags have %d bytes together, and at most %d are kept: shorten it, or keep several notes", size, maxNote)
	}
	if len(in.Tags) > 0 {
		text += "\n" + strings.Join(in.Tags, " ")
	}
	body, err := json.Marshal(map[string]any{"model": "note", "messages": []any{map[string]string{"role": "user", "content": text}}})
	if err != nil {
		return err
	}
	capture, err := t.recorder.Begin(ctx, &record.Opening{
		Account: t.account, Surface: codec.Chat, Format: codec.Chat, ModelAsked: "note", ChatKey: notesKey,
		Project: project.Clean(in.Directory), ContentType: "application/json", Body: body,
	})
	if err == nil {
		err = capture.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200})
	}
	if err != nil {
		return err
	}
	p.line("Kept as %s.", capture.ID())
	return nil
}

type forgetInput struct {
	IDs     []string `json:"ids,omitempty" jsonschema:"exchanges to erase, at most 20"`
	Session string   `json:"session_id,omitempty" jsonschema:"the conversation to erase, with all of its exchanges"`
	Confirm string   `json:"confirm,omitempty" jsonschema:"the token that the first call gave"`
}

func (t *tools) forget(ctx context.Context, in *forgetInput, p *page) error {
	p.bound(0)
	if err := t.permit(store.ScopeErase); err != nil {
		return err
	}
	if len(in.IDs) > mostIDs || (len(in.IDs) == 0) == (in.Session == "") {
		return codec.Invalid("ids", "name 1 to %d exchanges, or else a session_id", mostIDs)
	}
	_, newest, _ := strings.Cut(in.Confirm, "-")
	selection, err := t.chosen(in, newest)
	if isMissing(err) && newest != "" { // erased since
		newest = ""
		selection, err = t.chosen(in, newest)
	}
	if err != nil {
		return err
	}
	would, err := t.archive.Erase(ctx, t.account, selection.Selection, true)
	if err != nil {
		return err
	}
	if would.Exchanges == 0 {
		p.line("There is nothing of that kind to erase.")
		return nil
	}
	token := confirmation(t.account, in, selection.newest, would.Exchanges)
	if in.Confirm != token {
		if newest != "" { // a token of something else: show all
			in.Confirm = ""
			return t.forget(ctx, in, p)
		}
		p.line("%d exchanges would be erased for good. Nothing has been erased yet: to do it, call again with \"confirm\": %q.", would.Exchanges, token)
		return nil
	}
	erasure, err := t.archive.Erase(ctx, t.account, selection.Selection, false)
	if err != nil {
		return err
	}
	p.line("%d exchanges are being erased (%s).", would.Exchanges, erasure.ID)
	return nil
}

// choice is what to erase.
type choice struct {
	record.Selection
	newest string // of a session: the last exchange to erase, those that began after it stay; "": it has none
}

// chosen returns what to erase. A session may have grown since it was shown, so it ends with the newest exchange that
// was shown; "": its newest one now.
func (t *tools) chosen(in *forgetInput, newest string) (choice, error) {
	if in.Session == "" {
		return choice{Selection: record.Selection{Exchanges: in.IDs}}, nil
	}
	c := choice{Selection: record.Selection{Sessions: []string{in.Session}}, newest: newest}
	if newest != "" {
		last, err := t.archive.Turn(t.account, newest)
		c.Until = last.Exchange.Started.Add(1)
		return c, err
	}
	page, err := t.archive.Timeline(t.account, in.Session, record.TimelineQuery{Descending: true, Limit: newestShown})
	for i := range page.Data {
		if x := &page.Data[i].Exchange; x.Outcome != record.OutcomeOpen {
			c.newest, c.Until = x.ID, x.Started.Add(1)
			break
		}
	}
	return c, err
}

// newestShown is how many of a session's newest exchanges are searched for one that has ended.
const newestShown = 20

func isMissing(err error) bool {
	return err != nil && codec.AsError(err, "").Kind == codec.KindNotFound
}

// confirmation is the token for what was shown. It keeps an agent from erasing in one step; it is not a secret.
func confirmation(account string, in *forgetInput, newest string, exchanges int64) string {
	ids := slices.Clone(in.IDs)
	slices.Sort(ids)
	sum := blake3.Sum256([]byte(account + "\n" + in.Session + "\n" + strings.Join(ids, "\n") + "\n" + strconv.FormatInt(exchanges, 10)))
	token := hex.EncodeToString(sum[:6])
	if newest != "" {
		token += "-" + newest
	}
	return token
}

type digestInput struct {
	Directory string `json:"directory,omitempty" jsonschema:"the directory that you work in"`
	Session   string `json:"session_id,omitempty" jsonschema:"your own conversation; left out: the one that runs with your key"`
}

// digest gives what the caller's own conversation said and did so far, and the last work in its directory.
func (t *tools) digest(ctx context.Context, in *digestInput, p *page) error {
	p.bound(maxTokens)
	if in.Session == "" {
		in.Session = t.own(ctx, in.Directory)
	}
	if in.Session == "" && in.Directory == "" {
		return codec.Invalid("directory", "name the directory that you work in, or your session_id")
	}
	q := recall.Query{Account: t.account, Project: in.Directory, Session: in.Session}
	for _, read := range []func(context.Context, *recall.Query) recall.Recalled{t.recaller.Resume, t.recaller.Digest} {
		if r := read(ctx, &q); r.Text != "" {
			p.write(r.Text + "\n")
		}
	}
	return nil
}

// own returns the session that runs with the caller's key; of several the one in the directory; "" if that does not decide.
func (t *tools) own(ctx context.Context, directory string) string {
	running := t.recaller.Running(ctx, t.account, t.key)
	if directory = project.Clean(directory); len(running) > 1 && directory != "" {
		running = slices.DeleteFunc(running, func(id string) bool {
			s, err := t.archive.Session(t.account, id)
			return err != nil || s.Project != directory
		})
	}
	if len(running) != 1 {
		return ""
	}
	return running[0]
}

// addDigest offers the digest as a prompt too.
func addDigest(s *sdk.Server, t *tools) {
	s.AddPrompt(&sdk.Prompt{
		Name: "project_digest", Description: aboutDigest,
		Arguments: []*sdk.PromptArgument{
			{Name: "directory", Description: "The directory."}, {Name: "session_id", Description: "Your own conversation."},
		},
	}, func(ctx context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		var p page
		if err := t.digest(ctx, &digestInput{r.Params.Arguments["directory"], r.Params.Arguments["session_id"]}, &p); err != nil {
			return nil, t.told("project_digest", err)
		}
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: p.text()}}}}, nil
	})
}

const aboutDigest = "After your context was compacted, or at the start of work: what your own conversation said, decided, ran and edited so far, and what was done last in the directory, " +
	"with its notes and open failures, quoted from the record."
