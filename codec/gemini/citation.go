package gemini

import (
	"bytes"
	"hash/maphash"
	"strconv"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

const (
	// maxCited is how much text of an answer is kept for placing citations, as string bodies.
	maxCited = 1 << 20
	// maxCitations bounds the citations of one answer.
	maxCitations = 1000
)

// citations has what is needed to turn grounding metadata, which comes at the end and counts bytes of the whole text,
// into citations that count characters.
type citations struct {
	text  []byte // string bodies of the text items, one after the other
	from  int    // start of the open one
	full  bool
	plain []byte // the open one, unescaped
	seed  maphash.Seed
	seen  map[uint64]struct{} // frames repeat earlier citations
}

func (c *citations) begin() { c.from = len(c.text) }

func (c *citations) keep(text []byte) {
	if c.full || len(c.text)+len(text) > maxCited {
		c.full = true // later text cannot be placed
		return
	}
	c.text = append(c.text, text...)
}

func (c *citations) reset() {
	if cap(c.text) > keepScratch {
		c.text, c.plain = nil, nil
	}
	c.text, c.from, c.full = c.text[:0], 0, false
	clear(c.seen)
}

// first reports whether the citation is new.
func (c *citations) first(citation []byte) bool {
	if c.seen == nil {
		c.seen = make(map[uint64]struct{})
		c.seed = maphash.MakeSeed()
	}
	sum := maphash.Bytes(c.seed, citation)
	if _, known := c.seen[sum]; known || len(c.seen) >= maxCitations {
		return false
	}
	c.seen[sum] = struct{}{}
	return true
}

// cite emits the sources of the open text, one annotation per source and cited segment. They have the shape of the
// Responses format, the smallest one that is complete: in the native shape a citation is spread over two
// lists.
func (d *decoder) cite(dst []codec.Event, grounding, sources []byte) []codec.Event {
	if d.open != codec.ItemText || (len(grounding) == 0 && len(sources) == 0) {
		return dst
	}
	supports := scan.Get(grounding, "groundingSupports")
	marks := scan.Get(sources, "citationSources")
	if marks == nil {
		marks = scan.Get(sources, "citations")
	}
	if scan.Count(supports) == 0 && scan.Count(marks) == 0 {
		return dst
	}
	d.citations.plain = scan.Unescape(d.citations.plain[:0], d.citations.text[d.citations.from:])

	webs := groundingChunks(grounding)
	for e := scan.Array(supports); e.Next(); {
		start, end := d.citations.segment(scan.Get(e.Value, "segment"))
		for chunk := scan.Array(scan.Get(e.Value, "groundingChunkIndices")); chunk.Next(); {
			n, ok := scan.Int(chunk.Value)
			if !ok || n < 0 || n >= int64(len(webs)) {
				continue
			}
			dst = d.annotate(dst, start, end, scan.Get(webs[n], "uri"), scan.Get(webs[n], "title"))
		}
	}
	for e := scan.Array(marks); e.Next(); {
		start, end := d.citations.segment(e.Value)
		dst = d.annotate(dst, start, end, scan.Get(e.Value, "uri"), scan.Get(e.Value, "title"))
	}
	return dst
}

// groundingChunks lists the sources of an answer: web pages, retrieved documents and places have the same members.
func groundingChunks(grounding []byte) [][]byte {
	var webs [][]byte
	for e := scan.Array(scan.Get(grounding, "groundingChunks")); e.Next() && len(webs) < maxCitations; {
		var web []byte
		for m := scan.Object(e.Value); m.Next(); {
			if scan.IsObject(m.Value) {
				web = m.Value
				break
			}
		}
		webs = append(webs, web)
	}
	return webs
}

func (d *decoder) annotate(dst []codec.Event, start, end int, uri, title []byte) []codec.Event {
	if len(scan.Body(uri)) == 0 {
		return dst
	}
	if !scan.IsString(title) {
		title = []byte(`""`)
	}
	from := len(d.scratch)
	b := append(d.scratch, `{"type":"url_citation","start_index":`...)
	b = strconv.AppendInt(b, int64(start), 10)
	b = append(b, `,"end_index":`...)
	b = strconv.AppendInt(b, int64(end), 10)
	b = append(append(b, `,"url":`...), uri...)
	b = append(append(b, `,"title":`...), title...)
	b = append(b, '}')
	d.scratch = b
	citation := b[from:len(b):len(b)]
	if !d.citations.first(citation) {
		d.scratch = b[:from]
		return dst
	}
	return append(dst, codec.Event{Kind: codec.EventAnnotation, Item: d.next - 1, Raw: citation, Origin: codec.Responses})
}

// segment converts a range of bytes to one of characters. If the text of the segment is given, it verifies the range:
// if the range does not contain it, it is searched for. A citation that cannot be placed is put at the end of the text.
func (c *citations) segment(segment []byte) (start, end int) {
	text := []byte(nil)
	var from, to int64
	for m := scan.Object(segment); m.Next(); {
		switch string(m.Key) {
		case "startIndex":
			from, _ = scan.Int(m.Value)
		case "endIndex":
			to, _ = scan.Int(m.Value)
		case "text":
			text = scan.Unescape(nil, scan.Body(m.Value))
		}
	}
	size := int64(len(c.plain))
	legal := 0 <= from && from <= to && to <= size
	if len(text) > 0 && !(legal && bytes.Equal(c.plain[from:to], text)) {
		at := int64(bytes.Index(c.plain, text))
		legal = at >= 0
		from, to = at, at+int64(len(text))
	}
	if !legal {
		from, to = size, size
	}
	start = utf8.RuneCount(c.plain[:from])
	return start, start + utf8.RuneCount(c.plain[from:to])
}
