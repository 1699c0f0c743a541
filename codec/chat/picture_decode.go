package chat

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// picture reads an image in the form of OpenRouter, an element of images or of content. One that the host only gives the
// address of is text: no format has a place for it.
func (d *decoder) picture(dst []codec.Event, element []byte) []codec.Event {
	url := scan.Get(element, "image_url")
	if scan.IsObject(url) {
		url = scan.Get(url, "url")
	}
	body := scan.Body(url)
	if len(body) == 0 {
		return d.opaque(dst, element)
	}
	if bytes.IndexByte(body, '\\') >= 0 { // escaped slashes
		body = scan.Escape(nil, scan.Unescape(nil, body))
	}
	media, data, ok := codec.CutDataURL(body)
	if !ok {
		dst = d.leave(dst)
		dst = d.text(dst, codec.ItemText, append(append([]byte("![image]("), body...), ')'))
		return d.leave(dst)
	}
	dst = d.leave(dst)
	item := d.items
	d.items++
	return append(dst,
		codec.Event{Kind: codec.EventItemOpen, Type: codec.ItemImage, Item: item, Name: media},
		codec.Event{Kind: codec.EventItemClose, Type: codec.ItemImage, Item: item, Raw: data})
}
