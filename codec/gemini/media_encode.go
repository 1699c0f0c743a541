package gemini

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// media writes an image, document or recording. A text document is a text part.
func (w *writer) media(t turn, p *codec.Part, m *codec.Message) error {
	if p.Kind == codec.PartDocument && len(p.Text) > 0 {
		w.text(t, p)
		return nil
	}
	w.part(t)
	return w.mediaPart(p, m)
}

func (w *writer) mediaPart(p *codec.Part, m *codec.Message) error {
	if len(p.Detail) > 0 && string(p.Detail) != "auto" {
		w.r.Notes.Drop("image_url.detail")
	}
	kind, data := p.MediaType, p.Data
	if data == nil {
		kind, data, _ = codec.CutDataURL(p.URL)
	}
	switch {
	case data != nil:
		w.write(`{"inlineData":{`)
		w.string("mimeType", mediaType(kind, data, p.Kind))
		w.string("data", data)
		w.write(`}}`)
		return nil
	case fetchable(p.URL):
		w.write(`{"fileData":{`)
		if len(p.MediaType) > 0 {
			w.string("mimeType", p.MediaType)
		}
		w.string("fileUri", p.URL)
		w.write(`}}`)
		return nil
	case len(p.URL) > 0:
		err := codec.Invalid(w.r.Path(m.Index), "%s takes no media by web address: send the data itself, as base64", w.provider())
		err.Code = "image_url_not_fetchable"
		return err
	}
	return codec.Invalid(w.r.Path(m.Index), "%s has no access to files that were uploaded elsewhere: send the data itself, as base64", w.provider())
}

func (w *writer) provider() string {
	if w.t.Provider == "" {
		return "gemini"
	}
	return w.t.Provider
}

// fetchable reports whether Google can read the URL itself: its own files and buckets, and public videos.
func fetchable(url []byte) bool {
	if bytes.IndexByte(url, '\\') >= 0 { // escaped slashes
		url = scan.Unescape(nil, url)
	}
	for _, prefix := range [...]string{
		"gs://", "https://generativelanguage.googleapis.com/", "https://www.youtube.com/", "https://youtube.com/", "https://youtu.be/",
	} {
		if bytes.HasPrefix(url, []byte(prefix)) {
			return true
		}
	}
	return false
}

// mediaType returns the type in the API's spelling. If a format has none, or only a word, the first bytes and that word
// decide.
func mediaType(kind, data []byte, of codec.PartKind) []byte {
	switch string(kind) {
	case "image/jpg":
		return []byte("image/jpeg")
	case "wav", "mp3", "flac", "aac", "ogg", "aiff":
		return append([]byte("audio/"), kind...)
	case "":
		return guessType(data, of)
	}
	return kind
}

// guessType recognizes files by the base64 of their first bytes.
func guessType(data []byte, of codec.PartKind) []byte {
	for _, magic := range [...][2]string{
		{"iVBORw", "image/png"},
		{"/9j/", "image/jpeg"},
		{"R0lGOD", "image/gif"},
		{"UklGR", "image/webp"},
		{"JVBERi", "application/pdf"},
	} {
		if bytes.HasPrefix(data, []byte(magic[0])) {
			return []byte(magic[1])
		}
	}
	switch of {
	case codec.PartDocument:
		return []byte("application/pdf")
	case codec.PartAudio:
		return []byte("audio/wav")
	}
	return []byte("image/png")
}
