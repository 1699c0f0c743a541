package chat

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// appendCitation adds a citation to a list of annotations, in this format's shape. A citation without a URL cannot be
// expressed and is dropped.
func appendCitation(list, raw []byte, origin codec.Format) []byte {
	if origin == codec.Chat {
		return appendElement(list, raw)
	}
	c := readCitation(raw)
	if len(c.url) == 0 {
		return list
	}
	if len(list) > 0 {
		list = append(list, ',')
	}
	list = append(list, `{"type":"url_citation","url_citation":{"start_index":`...)
	list = appendNumber(list, c.start)
	list = append(list, `,"end_index":`...)
	list = appendNumber(list, c.end)
	list = append(list, `,"title":`...)
	list = scan.QuoteBody(list, c.title)
	list = append(list, `,"url":`...)
	list = scan.QuoteBody(list, c.url)
	return append(list, `}}`...)
}

func appendElement(list, raw []byte) []byte {
	if len(list) > 0 {
		list = append(list, ',')
	}
	return append(list, raw...)
}

// appendNumber writes a position; if a format has none it is 0, because the SDKs' types require it.
func appendNumber(dst, raw []byte) []byte {
	if !scan.IsNumber(raw) {
		return append(dst, '0')
	}
	return append(dst, raw...)
}

type citation struct {
	url, title []byte // string bodies
	start, end []byte // numbers
}

// readCitation reads the flat form of Responses and of Messages, whose search results call the URL source.
func readCitation(raw []byte) (c citation) {
	for m := scan.Object(raw); m.Next(); {
		switch string(m.Key) {
		case "url", "source":
			c.url = scan.Body(m.Value)
		case "title":
			c.title = scan.Body(m.Value)
		case "start_index":
			c.start = m.Value
		case "end_index":
			c.end = m.Value
		}
	}
	return c
}
