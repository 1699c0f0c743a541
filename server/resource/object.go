package resource

import (
	"bytes"
	"net/url"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Made returns the ids of the objects that an answer is about, the first being its own: what a request has made, or has
// been shown of something that it named.
func Made(answer []byte) (ids []string) {
	visit := func(object []byte) {
		for m := scan.Object(object); m.Next(); {
			if !scan.IsString(m.Value) {
				continue
			}
			switch id, name := scan.String(m.Value), string(m.Key); {
			case id == "" || len(id) > longestID:
			case name == "id", name == "name" && strings.Contains(id, "/"), strings.HasSuffix(name, "file_id"), name == "container_id", name == "vector_store_id", name == "thread_id":
				ids = append(ids, strings.Clone(id))
			}
		}
	}
	if !scan.IsObject(answer) {
		return nil
	}
	visit(answer)
	for m := scan.Object(answer); m.Next(); {
		if scan.IsObject(m.Value) && string(m.Key) != "metadata" && string(m.Key) != "attributes" {
			visit(m.Value)
		}
	}
	return ids
}

// longestID is longer than any id of a provider.
const longestID = 256

// List is what an answer with a list says.
type List struct {
	IDs   []string // of all its elements, in order
	Next  string   // how the next page is asked for: the value of Param; "": there is none
	Param string   // of the query
	lists []codec.Span
}

// ReadList reads an answer that lists objects: an object with lists of objects that have an id, or a name.
func ReadList(answer []byte) (l List) {
	more := false
	for m := scan.Object(answer); m.Next(); {
		switch string(m.Key) {
		case "has_more":
			more = scan.IsTrue(m.Value)
		case "nextPageToken":
			l.Next, l.Param = scan.String(m.Value), "pageToken"
		case "next_page":
			if token := scan.String(m.Value); token != "" {
				l.Next, l.Param = token, "page"
			}
		default:
			if scan.IsArray(m.Value) {
				l.lists = append(l.lists, codec.Span{Start: m.End - len(m.Value), End: m.End})
			}
		}
	}
	for _, list := range l.lists {
		for e := scan.Array(list.Of(answer)); e.Next(); {
			l.IDs = append(l.IDs, idOf(e.Value))
		}
	}
	if n := len(l.IDs); more && l.Next == "" && n > 0 {
		l.Next, l.Param = l.IDs[n-1], "after"
		if scan.Get(answer, "object") == nil { // Anthropic's
			l.Param = "after_id"
		}
	}
	return l
}

// idOf returns the id of an element of a list; "" if it has none.
func idOf(element []byte) string {
	if !scan.IsObject(element) {
		return ""
	}
	if id := scan.String(scan.Get(element, "id")); id != "" {
		return id
	}
	return scan.String(scan.Get(element, "name"))
}

// Keep returns the answer with only those elements of its lists whose id is in owned, and how many these are. The ids at
// the ends of the page are those of the elements that are left.
func (l *List) Keep(answer []byte, owned map[string]bool) (kept []byte, n int) {
	var first, last string
	at := 0
	for _, list := range l.lists {
		kept = append(append(kept, answer[at:list.Start]...), '[')
		open := len(kept)
		for e := scan.Array(list.Of(answer)); e.Next(); {
			id := idOf(e.Value)
			if !owned[id] {
				continue
			}
			if n++; first == "" {
				first = id
			}
			if len(kept) > open {
				kept = append(kept, ',')
			}
			kept, last = append(kept, e.Value...), id
		}
		kept = append(kept, ']')
		at = list.End
	}
	return ends(append(kept, answer[at:]...), first, last), n
}

// ends sets the ids at the ends of a page.
func ends(answer []byte, first, last string) []byte {
	var out []byte
	at := 0
	for m := scan.Object(answer); m.Next(); {
		name := string(m.Key)
		if name != "first_id" && name != "last_id" {
			continue
		}
		id := last
		if name == "first_id" {
			id = first
		}
		out = append(out, answer[at:m.End-len(m.Value)]...)
		if id == "" {
			out = append(out, "null"...)
		} else {
			out = scan.Quote(out, id)
		}
		at = m.End
	}
	return append(out, answer[at:]...)
}

// Usage returns the tokens that the end of an answer states, complete or streamed; zero if it states none.
func Usage(end []byte) (u codec.Usage) {
	for _, name := range [...]string{`"usage":`, `"usageMetadata":`} {
		i := bytes.LastIndex(end, []byte(name))
		if i < 0 {
			continue
		}
		stated := bytes.TrimLeft(end[i+len(name):], " \t\r\n")
		if !scan.IsObject(stated) {
			continue
		}
		count := func(names ...string) (n int64) {
			for _, name := range names {
				if v, ok := scan.Int(scan.Get(stated, name)); ok && v > 0 {
					return min(v, codec.MaxTokens)
				}
			}
			return 0
		}
		cached, _ := scan.Int(scan.Get(scan.Get(stated, "input_tokens_details"), "cached_tokens"))
		input := count("input_tokens", "prompt_tokens", "promptTokenCount")
		u.CacheRead = min(max(cached, count("cache_read_input_tokens", "cachedContentTokenCount"), 0), input)
		u.InputUncached = input - u.CacheRead
		u.Output = codec.AddCounts(count("output_tokens", "completion_tokens", "candidatesTokenCount"), count("thoughtsTokenCount"))
		return u
	}
	return u
}

// Without returns a query without the parameters of which drop says so, by their plain names and values.
func Without(query string, drop func(name, value string) bool) string {
	kept := make([]string, 0, 8)
	for pair := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if plain, err := url.QueryUnescape(value); err == nil {
			value = plain
		}
		if !drop(name, value) {
			kept = append(kept, pair)
		}
	}
	return strings.Join(kept, "&")
}

// With returns a query with a parameter set.
func With(query, name, value string) string {
	query = Without(query, func(other, _ string) bool { return other == name })
	if query != "" {
		query += "&"
	}
	return query + name + "=" + url.QueryEscape(value)
}

// Parameter returns the value of a parameter of a query, "" if it has none.
func Parameter(query, name string) (value string) {
	Without(query, func(other, v string) bool {
		if other == name && value == "" {
			value = v
		}
		return false
	})
	return value
}
