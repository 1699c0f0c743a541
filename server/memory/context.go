package memory

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/promptcache"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// mostFiles is how many files and tools are listed.
const mostFiles = 30

func (h *handler) contextOf(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	x, err := h.Archive.Exchange(c.account, c.id())
	if err != nil {
		return nil, err
	}
	answer := &api.Context{Object: "memory.context", ID: x.ID, Bytes: int64(len(x.RawRequest)), Parts: []api.ContextPart{}, Files: []api.ContextPart{}, Tools: []api.ContextPart{}, Woven: []api.ContextPart{}}
	blocks := promptcache.Prefix(x.RawRequest)
	fill(answer, x, blocks)
	info, err := h.caches.Before(c.account, x)
	if err != nil || info == nil {
		return answer, nil //nolint:nilerr // there is nothing to compare with, or it is damaged
	}
	before, err := h.Archive.Exchange(c.account, info.ID)
	if err != nil {
		return answer, nil //nolint:nilerr // as above
	}
	was := promptcache.Prefix(before.RawRequest)
	answer.Common, answer.Break = promptcache.Compare(blocks, was)
	answer.Previous = before.ID
	answer.Cache = h.caches.Explained(&before.ExchangeInfo, &x.ExchangeInfo, was, blocks, answer.Break)
	if b := answer.Break; b != nil && b.Tokens > x.Usage.CacheRead { // otherwise they came from a cache after all
		b.Lost = h.caches.LossOf(&x.ExchangeInfo, b.Tokens)
	}
	return answer, nil
}

// fill sums up the parts of the request.
func fill(answer *api.Context, x *record.Exchange, blocks []promptcache.Block) {
	t := contextTally{parts: make(sizes), files: make(sizes), woven: make(sizes)}
	answer.Tools = append(answer.Tools, t.addPrefix(blocks)...)
	d, err := digest.Exchange(x)
	if err != nil {
		return
	}
	t.addMessages(d.Messages)
	digest.Woven(x, t.addWoven)
	answer.Parts, answer.Files, answer.Woven = t.parts.largest(), t.files.largest(), t.woven.largest()
	slices.SortStableFunc(answer.Tools, func(a, b api.ContextPart) int { return cmp.Compare(b.Bytes, a.Bytes) })
	answer.Tools = answer.Tools[:min(len(answer.Tools), mostFiles)]
}

// contextTally counts what fills a context: by part, by file that was read, and by kind of text that the client inserted.
type contextTally struct{ parts, files, woven sizes }

// addPrefix counts the blocks that digests leave out, and returns the declared tools.
func (t *contextTally) addPrefix(blocks []promptcache.Block) (tools []api.ContextPart) {
	promptcache.Fixed(blocks, func(kind string, text []byte) {
		t.parts.add(kind, len(text))
		if kind == "tools" {
			tools = append(tools, api.ContextPart{Name: promptcache.ToolName(text), Count: 1, Bytes: int64(len(text))})
		}
	})
	return tools
}

func (t *contextTally) addMessages(messages []record.Message) {
	of := make(map[string]string) // call id → file
	for i := range messages {
		m := &messages[i]
		for j := range m.Parts {
			t.addPart(m.Role, &m.Parts[j], of)
		}
	}
}

func (t *contextTally) addPart(role string, p *record.Part, of map[string]string) {
	switch p.Kind {
	case "call":
		t.parts.add("calls", len(p.Arguments)+len(p.Name))
		if files, _ := search.Files(p); len(files) > 0 {
			of[p.CallID] = files[0]
		}
	case "result":
		t.parts.add("results", len(p.Text))
		if file := of[p.CallID]; file != "" {
			t.files.add(file, len(p.Text))
		}
	case "media":
		t.parts.add("media", int(p.Bytes))
	case "reasoning":
		t.parts.add("reasoning", len(p.Text))
	default:
		if kind := wholeNote(p.Text); kind != "" && role == "user" {
			t.addWoven(kind, len(p.Text))
			return
		}
		t.parts.add(role, len(p.Text))
	}
}

func (t *contextTally) addWoven(kind string, size int) {
	t.parts.add("woven", size)
	t.woven.add(kind, size)
}

// sizes are counts and bytes by name.
type sizes map[string]*api.ContextPart

func (s sizes) add(name string, size int) {
	if size == 0 {
		return
	}
	p := s[name]
	if p == nil {
		p = &api.ContextPart{Name: name}
		s[name] = p
	}
	p.Count++
	p.Bytes += int64(size)
}

// largest returns the largest ones, at most mostFiles.
func (s sizes) largest() []api.ContextPart {
	parts := make([]api.ContextPart, 0, len(s))
	for p := range maps.Values(s) {
		parts = append(parts, *p)
	}
	slices.SortFunc(parts, func(a, b api.ContextPart) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	return parts[:min(len(parts), mostFiles)]
}

// wholeNotes are the beginnings of texts that clients insert before a user's words and that stay in the conversation.
var wholeNotes = [...]struct{ kind, beginning string }{
	{"user_instructions", "<user_instructions>"}, {"INSTRUCTIONS", "<INSTRUCTIONS>"}, {"permissions", "<permissions"}, {"AGENTS.md", "# AGENTS.md"},
}

// wholeNote returns the kind of a text that a client inserted, "" for one that a person wrote.
func wholeNote(text string) string {
	text = strings.TrimSpace(text)
	for _, note := range wholeNotes {
		if strings.HasPrefix(text, note.beginning) {
			return note.kind
		}
	}
	return ""
}
