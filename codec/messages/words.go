package messages

import (
	"github.com/mnemeproxy/mneme/codec/scan"
)

// appendWords describes a block that only this format has in plain text, as a string body, for a model of another
// format. It appends nothing for blocks without text. Signatures and encrypted content are omitted.
func appendWords(dst []byte, c *content) []byte {
	switch string(c.kind) {
	case blockSearchResult:
		dst = appendLine(dst, "", c.title)
		dst = appendLine(dst, "Source: ", c.source)
		return appendLines(dst, c.content)
	case blockServerToolUse, blockMCPToolUse:
		if !scan.IsString(c.name) {
			return dst
		}
		dst = append(dst, "Called "...)
		dst = append(dst, scan.Body(c.name)...)
		if scan.Count(c.input) > 0 {
			dst = append(dst, " with "...)
			dst = scan.Escape(dst, c.input)
		}
		return dst
	case "web_search_tool_result":
		for el := scan.Array(c.content); el.Next(); {
			dst = appendLine(dst, "", scan.Get(el.Value, "title"))
			dst = appendLine(dst, "", scan.Get(el.Value, "url"))
		}
		return appendFailure(dst, c.content)
	case "mcp_tool_result", blockCompaction:
		return appendLines(dst, c.content)
	}
	if isServerTool(c.kind) {
		return appendResult(dst, c.content)
	}
	return dst
}

// resultTexts are the members of tool results with text, in the order in which they are written.
var resultTexts = [...]struct{ member, label string }{
	{"url", ""}, {"stdout", ""}, {"stderr", ""}, {"text", ""}, {"file_type", "File type: "},
}

// appendResult describes the object in the result of a fetch, a program or an editor.
func appendResult(dst, result []byte) []byte {
	for _, member := range resultTexts {
		dst = appendLine(dst, member.label, scan.Get(result, member.member))
	}
	for el := scan.Array(scan.Get(result, "tool_references")); el.Next(); {
		dst = appendLine(dst, "Found tool ", scan.Get(el.Value, "tool_name"))
	}
	if inner := scan.Get(result, "content"); scan.IsString(inner) {
		dst = appendLine(dst, "", inner)
	} else if source := scan.Get(inner, "source"); string(scan.Body(scan.Get(source, "type"))) == "text" {
		dst = appendLine(dst, "", scan.Get(source, "data"))
	}
	return appendFailure(dst, result)
}

func appendFailure(dst, result []byte) []byte {
	return appendLine(dst, "Failed: ", scan.Get(result, "error_code"))
}

// appendLines writes a string, or the text blocks of an array, one line each.
func appendLines(dst, v []byte) []byte {
	if scan.IsString(v) {
		return appendLine(dst, "", v)
	}
	for el := scan.Array(v); el.Next(); {
		dst = appendLine(dst, "", scan.Get(el.Value, "text"))
	}
	return dst
}

// appendLine adds a line with the text of a string value; other values and empty text add none.
func appendLine(dst []byte, label string, v []byte) []byte {
	body := scan.Body(v)
	if len(body) == 0 {
		return dst
	}
	if len(dst) > 0 {
		dst = append(dst, `\n`...)
	}
	dst = append(dst, label...)
	return append(dst, body...)
}
