package crossing

import (
	"slices"

	"github.com/mnemeproxy/mneme/codec"
)

// mediaStep adapts images, documents and sounds to the target.
type mediaStep struct{ *adaptation }

// run checks images, documents and sounds against what the target accepts, and moves images out of tool results if
// those may only hold text (docs/wire/translation.md#2.3).
func (a mediaStep) run() error {
	for i := range a.r.Messages {
		m := &a.r.Messages[i]
		m.Parts = a.introduceDocuments(m.Parts)
		for j := range m.Parts {
			m.Parts[j].Parts = a.introduceDocuments(m.Parts[j].Parts)
			if err := a.medium(&m.Parts[j], m); err != nil {
				return err
			}
			for k := range m.Parts[j].Parts {
				if err := a.medium(&m.Parts[j].Parts[k], m); err != nil {
					return err
				}
			}
		}
	}
	if !a.takes.ImagesInResults {
		a.liftImages()
	}
	return nil
}

// introduceDocuments puts the title and the context of a Messages client's documents into words, since no other format
// has members for them: at the start of a document's text, or else before the document, unless the title can be its
// file name.
func (a mediaStep) introduceDocuments(parts []codec.Part) []codec.Part {
	for i := range parts {
		if !a.introduces(&parts[i]) {
			continue
		}
		introduced := append(a.r.NewParts(2*len(parts)), parts[:i]...)
		for _, p := range parts[i:] {
			if words := a.introduction(&p); words != nil && p.Text != nil {
				p.Text = append(append(words, `\n\n`...), p.Text...)
			} else if words != nil {
				introduced = append(introduced, codec.Part{Kind: codec.PartText, Text: words})
			}
			introduced = append(introduced, p)
		}
		return introduced
	}
	return parts
}

func (a mediaStep) introduces(p *codec.Part) bool {
	return p.Kind == codec.PartDocument && a.from.Client.TitledDocuments && (len(p.Context) > 0 || len(p.Filename) > 0 && !a.namesFile(p))
}

func (a mediaStep) namesFile(p *codec.Part) bool {
	return p.Text == nil && a.takes.FileNames
}

func (a mediaStep) introduction(p *codec.Part) []byte {
	if !a.introduces(p) {
		return nil
	}
	const title, context, between = "Title: ", "Context: ", `\n`
	words := a.r.Alloc(len(title) + len(p.Filename) + len(between) + len(context) + len(p.Context))
	if len(p.Filename) > 0 && !a.namesFile(p) {
		words = append(append(words, title...), p.Filename...)
		a.r.Notes.Emulate(a.contentPath([]byte("document.title")))
	}
	if len(p.Context) > 0 {
		if len(words) > 0 {
			words = append(words, between...)
		}
		words = append(append(words, context...), p.Context...)
		a.r.Notes.Emulate(a.contentPath([]byte("document.context")))
	}
	return words
}

func (a mediaStep) medium(p *codec.Part, m *codec.Message) error {
	switch p.Kind {
	case codec.PartAudio:
		p.MediaType = codec.MediaType(p.MediaType)
		if !a.takes.Audio {
			return codec.Invalid(a.r.Path(m.Index), "%s takes no audio", a.target.Model)
		}
		return nil
	case codec.PartImage, codec.PartDocument:
	default:
		return nil
	}
	p.MediaType = codec.MediaType(p.MediaType)
	if !a.takes.ImageDetail && len(p.Detail) > 0 && string(p.Detail) != "auto" {
		a.r.Notes.Drop("image_url.detail")
	}
	if len(p.FileID) > 0 && !a.keepsFile(p) {
		return codec.Invalid(a.r.Path(m.Index), "the file %q lies with another provider than %s: send its content instead", p.FileID, a.target.Provider)
	}
	if p.Kind == codec.PartImage && len(p.Data) > 0 {
		return a.imageType(p, m)
	}
	return nil
}

// keepsFile reports whether the target has the files that ids of the client's format mean, and takes their ids.
func (a mediaStep) keepsFile(p *codec.Part) bool {
	author := a.from.Author
	return a.to.Author == author && a.target.Family == author && (p.Kind == codec.PartDocument || a.takes.ImageFiles)
}

// imageType normalizes the media type, and refuses types that the target cannot read.
func (a mediaStep) imageType(p *codec.Part, m *codec.Message) error {
	if string(p.MediaType) == "image/jpg" {
		p.MediaType = []byte("image/jpeg")
	}
	if a.takes.ImageTypes == nil || slices.Contains(a.takes.ImageTypes, string(p.MediaType)) {
		return nil
	}
	return codec.Invalid(a.r.Path(m.Index), "%s takes pictures as JPEG, PNG, GIF or WebP, not %s", a.target.Model, p.MediaType)
}

// liftImages moves images and documents from tool results into a user message after the whole run of results, and
// leaves a note in their place.
func (a mediaStep) liftImages() {
	lifted := make([]codec.Message, 0, len(a.r.Messages))
	for _, m := range a.r.Messages {
		if m.Role != codec.RoleTool {
			lifted = append(lifted, m)
			continue
		}
		var pictures []codec.Part
		for j := range m.Parts {
			pictures = a.liftFrom(&m.Parts[j], pictures)
		}
		lifted = append(lifted, m)
		if len(pictures) > 0 {
			lifted = append(lifted, codec.Message{Role: codec.RoleUser, Parts: pictures, Index: m.Index})
			a.r.Notes.Emulate(a.from.Members.Conversation + ".tool_result.image")
		}
	}
	a.r.Messages = lifted
}

func (a mediaStep) liftFrom(result *codec.Part, pictures []codec.Part) []codec.Part {
	for k := range result.Parts {
		p := &result.Parts[k]
		if p.Kind != codec.PartImage && (p.Kind != codec.PartDocument || p.Text != nil) {
			continue
		}
		pictures = append(pictures, *p)
		note := append(a.r.Alloc(40), "[attachment "...)
		note = append(append(note, itoa(len(pictures))...), " follows below]"...)
		*p = codec.Part{Kind: codec.PartText, Text: note}
	}
	return pictures
}
