package promptcache

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/server/api"
)

// excerptBytes is how many bytes of a difference are shown.
const excerptBytes = 400

// mostNames is how many tools a break lists.
const mostNames = 12

// TokenBytes is how many bytes of a request are taken for a token.
const TokenBytes = 4

// Block is a part of a request, in the order in which prompt caches read it: tools, system, messages.
type Block struct {
	Kind  string // tools, system or messages
	Index int    // in its kind
	Text  []byte
}

// Prefix returns the blocks of a request; nil if it cannot be read.
func Prefix(body []byte) (blocks []Block) {
	var envelope codec.Envelope
	if envelope.Read(body) != nil {
		return nil
	}
	for _, list := range []struct {
		kind  string
		spans []codec.Span
	}{{"tools", envelope.Tools}, {"system", envelope.Opening}, {"messages", envelope.Items}} {
		first := len(blocks)
		add := func(text []byte) { blocks = append(blocks, Block{list.kind, len(blocks) - first, text}) }
		for _, span := range list.spans {
			text := span.Of(body)
			var functions []byte
			if list.kind == "tools" {
				functions = declarations(text)
			}
			if functions == nil {
				add(text)
				continue
			}
			for e := scan.Array(functions); e.Next(); {
				add(e.Value)
			}
		}
	}
	return blocks
}

// declarations returns the list of functions in a tool of Gemini's clients, which declare all of them in one; nil for any
// other tool.
func declarations(tool []byte) []byte {
	for _, name := range []string{"functionDeclarations", "function_declarations"} {
		if functions := scan.Get(tool, name); scan.IsArray(functions) {
			return functions
		}
	}
	return nil
}

// Fixed calls visit with the blocks in front of a conversation: tools, and system text, which may be in the first messages.
func Fixed(blocks []Block, visit func(kind string, text []byte)) {
	for _, b := range blocks {
		if b.Kind == "messages" {
			if role := scan.String(scan.Get(b.Text, "role")); role != "system" && role != "developer" {
				return
			}
			b.Kind = "system"
		}
		visit(b.Kind, b.Text)
	}
}

// Compare finds the first block in which a request differs from the one before, and how many bytes in front are the same;
// nil if it goes on from all of it. Cache markers move with the end of the conversation and do not count, nor does
// whether a message is one text or a list of one.
func Compare(now, before []Block) (common int64, differs *api.ContextBreak) {
	for i, b := range before {
		if i < len(now) && b.Kind == now[i].Kind && (bytes.Equal(b.Text, now[i].Text) || bytes.Equal(plain(b.Text), plain(now[i].Text))) {
			common += int64(len(b.Text))
			continue
		}
		found := &api.ContextBreak{Kind: b.Kind, Index: b.Index}
		was, is := b.Text, []byte(nil)
		if i < len(now) {
			is = now[i].Text
			found.Kind, found.Index = now[i].Kind, now[i].Index
		}
		at := difference(was, is)
		found.Before, found.Now = excerpt(was, at), excerpt(is, at)
		for _, rest := range before[i:] {
			found.Tokens += int64(len(rest.Text)) / TokenBytes
		}
		return common, found
	}
	return common, nil
}

var cacheMarkers = [][]byte{[]byte(`,"cache_control":{"type":"ephemeral"}`), []byte(`,"cache_control":{"type":"ephemeral","ttl":"1h"}`), []byte(`,"cache_control":{"type":"ephemeral","ttl":"5m"}`)}

// plain returns a block without cache markers; a message whose content is a list that begins with a text has that text in place
// of the list's beginning.
func plain(text []byte) []byte {
	if bytes.Contains(text, []byte(`"cache_control"`)) {
		for _, marker := range cacheMarkers {
			text = bytes.ReplaceAll(text, marker, nil)
		}
	}
	const content = `"content":`
	if before, said, is := bytes.Cut(text, []byte(content+`[{"type":"text","text":`)); is {
		if said, is = bytes.CutSuffix(said, []byte("}]}")); is {
			return slices.Concat(before, []byte(content), said, []byte("}"))
		}
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

// explain completes a break without a reason from the two requests.
func explain(b *api.CacheBreak, before, now []Block, differs *api.ContextBreak) {
	was, is := textsOf(before, "tools"), textsOf(now, "tools")
	switch {
	case b.Reason != "":
	case !slices.EqualFunc(was, is, bytes.Equal):
		b.Reason = api.BrokenByTools
		slices.SortFunc(was, bytes.Compare)
		slices.SortFunc(is, bytes.Compare)
		if slices.EqualFunc(was, is, bytes.Equal) {
			b.Reason = api.BrokenByOrder
			return
		}
		b.Names = toolsThatDiffer(before, now)
	case differs != nil:
		b.Reason, b.Kind, b.Index = api.BrokenByBlock, differs.Kind, differs.Index
	default:
		b.Reason = api.BrokenByProviderItself
	}
}

// toolsThatDiffer returns the names of the tools that only one of two requests has as it is. Several of one MCP server are
// its name with their number.
func toolsThatDiffer(before, now []Block) (names []string) {
	of := make(map[string]string)
	for _, list := range [][]Block{before, now} {
		for i := range list {
			if list[i].Kind != "tools" {
				continue
			}
			name, text := ToolName(list[i].Text), string(plain(list[i].Text))
			if of[name] == text {
				delete(of, name)
			} else {
				of[name] = text
			}
		}
	}
	servers := make(map[string]int)
	for name := range of {
		if server := ToolServer(name); server != "" {
			servers[server]++
		}
	}
	for name := range of {
		if servers[ToolServer(name)] <= 1 {
			names = append(names, name)
		}
	}
	for server, count := range servers {
		if count > 1 {
			names = append(names, fmt.Sprintf("%d of mcp__%s", count, server))
		}
	}
	slices.Sort(names)
	return names[:min(len(names), mostNames)]
}

// ToolName returns the name of a declared tool.
func ToolName(text []byte) string {
	return cmp.Or(scan.String(scan.Get(text, "name")), scan.String(scan.Path(text, "function", "name")))
}

// ToolServer returns the MCP server of a tool, by the names that agents give its tools: "mcp__server__tool"; "" for none.
func ToolServer(name string) string {
	rest, found := strings.CutPrefix(name, "mcp__")
	server, _, whole := strings.Cut(rest, "__")
	if !found || !whole {
		return ""
	}
	return server
}

func textsOf(blocks []Block, kind string) (texts [][]byte) {
	for i := range blocks {
		if blocks[i].Kind == kind {
			texts = append(texts, plain(blocks[i].Text))
		}
	}
	return texts
}
