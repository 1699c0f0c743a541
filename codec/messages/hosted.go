package messages

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// appendHostedBlocks writes the content blocks, separated by commas, for an item of a hosted tool. Items without a
// counterpart produce none.
func appendHostedBlocks(dst, wireItem []byte, origin codec.Format) []byte {
	switch wireType := scan.Body(scan.Get(wireItem, "type")); {
	case len(wireType) == 0:
		return dst
	case origin == codec.Messages:
		return appendOneLine(dst, wireItem)
	case string(wireType) == "web_search_call": // of Responses
		return appendWebSearch(dst, wireItem)
	}
	return dst
}

// appendWebSearch writes a finished web_search_call of Responses as the format's pair of blocks.
func appendWebSearch(dst, call []byte) []byte {
	action := scan.Get(call, "action")
	query := scan.Get(action, "query")
	if !scan.IsString(query) {
		return dst
	}
	id := scan.Body(scan.Get(call, "id"))
	dst = append(dst, `{"type":"server_tool_use","id":"srvtoolu_`...)
	dst = append(dst, id...)
	dst = append(dst, `","name":"web_search","input":{"query":`...)
	dst = append(dst, query...)
	dst = append(dst, `}`+toolUseEnd+`,{"type":"web_search_tool_result",`+directCaller+`,"tool_use_id":"srvtoolu_`...)
	dst = append(dst, id...)
	dst = append(dst, `","content":[`...)
	first := true
	for source := scan.Array(scan.Get(action, "sources")); source.Next(); {
		url := scan.Get(source.Value, "url")
		if !scan.IsString(url) {
			continue
		}
		title := scan.Get(source.Value, "title")
		if !scan.IsString(title) {
			title = url
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(dst, `{"type":"web_search_result","url":`...)
		dst = append(dst, url...)
		dst = append(dst, `,"title":`...)
		dst = append(dst, title...)
		dst = append(dst, `,"encrypted_content":"`+statetoken.Foreign+`","page_age":null}`...)
	}
	return append(dst, `]}`...)
}

// appendCitation writes one citation in the format's shape. Annotations of other formats that name a page become
// citations of a search result; others are dropped.
func appendCitation(dst, annotation []byte, origin codec.Format) []byte {
	if origin == codec.Messages {
		if !scan.IsObject(annotation) {
			return dst
		}
		return appendOneLine(dst, annotation)
	}
	page := annotation
	if inner := scan.Get(annotation, "url_citation"); scan.IsObject(inner) { // chat
		page = inner
	} else if inner := scan.Get(annotation, "web"); scan.IsObject(inner) { // gemini
		page = inner
	}
	var url, title []byte
	for m := scan.Object(page); m.Next(); {
		switch string(m.Key) {
		case "url", "uri":
			url = m.Value
		case "title":
			title = m.Value
		}
	}
	if !scan.IsString(url) {
		return dst
	}
	if !scan.IsString(title) {
		title = []byte("null")
	}
	dst = append(dst, `{"type":"web_search_result_location","cited_text":"","encrypted_index":"`+statetoken.Foreign+`","title":`...)
	dst = append(dst, title...)
	dst = append(dst, `,"url":`...)
	dst = append(dst, url...)
	return append(dst, '}')
}
