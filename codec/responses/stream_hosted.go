package responses

import (
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// itemMembers writes the members after the id of an item that arrived complete, and returns the id's prefix. It writes
// nothing for an item without a counterpart in this format.
func itemMembers(dst, raw []byte, origin codec.Format) (prefix string, members []byte) {
	if origin == codec.Responses {
		return ownMembers(dst, raw)
	}
	return searchMembers(dst, raw)
}

func ownMembers(dst, raw []byte) (string, []byte) {
	var wireType []byte
	for m := scan.Object(raw); m.Next(); {
		if string(m.Key) == "id" {
			continue
		}
		if string(m.Key) == "type" {
			wireType = scan.Body(m.Value)
		}
		dst = appendFlat(append(dst, ','), raw[m.Start:m.End])
	}
	switch string(wireType) {
	case "", typeMessage, typeReasoning, typeCall, typeCustomCall: // these have events of their own
		return "", dst[:0]
	}
	return wirePrefix(wireType), append(dst, '}')
}

// wirePrefix returns the prefix of ids of items of a type, as a string body; types without one here get a prefix
// derived from their name.
func wirePrefix(wireType []byte) string {
	switch string(wireType) {
	case typeWebSearch:
		return "ws_"
	case typeImageGeneration:
		return "ig_"
	case "tool_search_call":
		return "tsc_"
	case "tool_search_output":
		return "tso_"
	case "local_shell_call":
		return "lsh_"
	case "compaction":
		return "cmp_"
	case "file_search_call":
		return "fs_"
	case "code_interpreter_call":
		return "ci_"
	}
	return strings.TrimSuffix(string(wireType), "_call") + "_"
}

// searchMembers converts a search that Anthropic ran to a web_search_call. Its results have no place in this format;
// the text's citations name the pages.
func searchMembers(dst, raw []byte) (string, []byte) {
	if string(scan.Body(scan.Get(raw, "type"))) != "server_tool_use" ||
		string(scan.Body(scan.Get(raw, "name"))) != "web_search" {
		return "", dst
	}
	dst = append(dst, `,"type":"web_search_call","status":"completed","action":{"type":"search","query":`...)
	if query := scan.Path(raw, "input", "query"); scan.IsString(query) {
		dst = append(dst, query...)
	} else {
		dst = append(dst, `""`...)
	}
	return "ws_", append(dst, `}}`...)
}
