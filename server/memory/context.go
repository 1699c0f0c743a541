package memory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// excerptBytes is how many bytes of a difference are shown.
const excerptBytes = 400

const estimatedTokenBytes = 4

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
	blocks := prefixOf(x.RawRequest)
	fill(answer, x, blocks)
	before, err := h.before(c.account, x)
	if err != nil || before == nil {
		return answer, nil //nolint:nilerr // there is nothing to compare with, or it is damaged
	}
	was := prefixOf(before.RawRequest)
	compare(answer, blocks, was)
	answer.Previous = before.ID
	if lostTokens(&before.ExchangeInfo, &x.ExchangeInfo) > 0 {
		answer.Cache = h.newBreak(&before.ExchangeInfo, &x.ExchangeInfo)
		explain(answer.Cache, was, blocks, answer.Break)
	}
	if b := answer.Break; b != nil && h.CacheLoss != nil {
		b.Lost = h.CacheLoss(&x.ExchangeInfo, b.Tokens)
	}
	return answer, nil
}

// before returns the request before an exchange in its session, whose cache it could use; nil for the first.
func (h *handler) before(account string, x *record.Exchange) (*record.Exchange, error) {
	if x.Session == "" {
		return nil, nil
	}
	page, err := h.Archive.Timeline(account, x.Session, record.TimelineQuery{After: x.ID, Limit: 20, Descending: true})
	if err != nil {
		return nil, err
	}
	for i := range page.Data {
		if e := &page.Data[i].Exchange; e.Auxiliary == x.Auxiliary && e.Surface == x.Surface && leavesCache(e) {
			return h.Archive.Exchange(account, e.ID)
		}
	}
	return nil, nil
}

// block is a part of a request, in the order in which prompt caches read it: tools, system, messages.
type block struct {
	kind  string
	index int
	text  []byte
}

func prefixOf(body []byte) (blocks []block) {
	var envelope codec.Envelope
	if envelope.Read(body) != nil {
		return nil
	}
	for _, list := range []struct {
		kind  string
		spans []codec.Span
	}{{"tools", envelope.Tools}, {"system", envelope.Opening}, {"messages", envelope.Items}} {
		for i, span := range list.spans {
			blocks = append(blocks, block{list.kind, i, span.Of(body)})
		}
	}
	return blocks
}

// fill sums up the parts of the request.
func fill(answer *api.Context, x *record.Exchange, blocks []block) {
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
func (t *contextTally) addPrefix(blocks []block) (tools []api.ContextPart) {
	opening := true // system messages at the beginning
	for _, b := range blocks {
		switch b.kind {
		case "tools":
			t.parts.add("tools", len(b.text))
			name := cmp.Or(scan.String(scan.Get(b.text, "name")), scan.String(scan.Path(b.text, "function", "name")))
			tools = append(tools, api.ContextPart{Name: name, Count: 1, Bytes: int64(len(b.text))})
		case "system":
			t.parts.add("system", len(b.text))
		case "messages":
			role := scan.String(scan.Get(b.text, "role"))
			if opening = opening && (role == "system" || role == "developer"); opening {
				t.parts.add("system", len(b.text))
			}
		}
	}
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

// compare finds the first block that differs from the previous request. Cache markers move with the end of the
// conversation and do not count.
func compare(answer *api.Context, now, before []block) {
	for i, b := range before {
		if i < len(now) && b.kind == now[i].kind && bytes.Equal(unmarked(b.text), unmarked(now[i].text)) {
			answer.Common += int64(len(b.text))
			continue
		}
		found := &api.ContextBreak{Kind: b.kind, Index: b.index}
		was, is := b.text, []byte(nil)
		if i < len(now) {
			is = now[i].text
			found.Kind, found.Index = now[i].kind, now[i].index
		}
		at := difference(was, is)
		found.Before, found.Now = excerpt(was, at), excerpt(is, at)
		for _, rest := range before[i:] {
			found.Tokens += int64(len(rest.text)) / estimatedTokenBytes
		}
		answer.Break = found
		return
	}
}

var cacheMarkers = [][]byte{[]byte(`,"cache_control":{"type":"ephemeral"}`), []byte(`,"cache_control":{"type":"ephemeral","ttl":"1h"}`), []byte(`,"cache_control":{"type":"ephemeral","ttl":"5m"}`)}

func unmarked(text []byte) []byte {
	if !bytes.Contains(text, []byte(`"cache_control"`)) {
		return text
	}
	for _, marker := range cacheMarkers {
		text = bytes.ReplaceAll(text, marker, nil)
	}
	return text
}

// difference returns the offset where two texts diverge.
func difference(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// excerpt returns the text around an offset.
func excerpt(text []byte, at int) string {
	from := max(at-excerptBytes/4, 0)
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	to := min(from+excerptBytes, len(text))
	if from >= to {
		return ""
	}
	return strings.ToValidUTF8(string(text[from:to]), "")
}
