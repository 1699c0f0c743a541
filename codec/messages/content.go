package messages

import "github.com/mnemeproxy/mneme/codec/scan"

// content is a content block split into its members, whatever its type: the type may come after them.
type content struct {
	kind                                             []byte // string body
	text, thinking, signature, data                  []byte // raw values from here on
	id, name, input, toolUseID, isError, content     []byte
	source, title, fileID, toolName, tool, citations []byte
	context, cacheControl                            []byte
}

// read reads the members of the block that begins at an offset of doc, and returns the offset after it.
func (c *content) read(doc []byte, start int) (end int) {
	m := scan.ObjectAt(doc, start)
	for m.Next() {
		switch string(m.Key) {
		case "type":
			c.kind = scan.Body(m.Value)
		case "text":
			c.text = m.Value
		case "thinking":
			c.thinking = m.Value
		case "signature":
			c.signature = m.Value
		case "data":
			c.data = m.Value
		case "id":
			c.id = m.Value
		case "name":
			c.name = m.Value
		case "input":
			c.input = m.Value
		case "tool_use_id":
			c.toolUseID = m.Value
		case "is_error":
			c.isError = m.Value
		case "content":
			c.content = m.Value
		case "source":
			c.source = m.Value
		case "title":
			c.title = m.Value
		case "context":
			c.context = m.Value
		case "file_id":
			c.fileID = m.Value
		case "tool_name":
			c.toolName = m.Value
		case "tool":
			c.tool = m.Value
		case "citations":
			c.citations = m.Value
		case "cache_control":
			c.cacheControl = m.Value
		}
	}
	return m.Close()
}
