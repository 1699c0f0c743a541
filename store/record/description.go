package record

import (
	"slices"

	"github.com/mnemeproxy/mneme/codec"
)

const (
	maxTitle = 500
	MaxNote  = 4000
	MaxTags  = 50
	maxTag   = 100
)

// Description is a person's title, tags and note for a session or an exchange; a nil part stays unchanged. An exchange
// has no title.
type Description struct {
	Title *string
	Tags  []string
	Note  *string
}

// Check returns the fault of a description that is too long or has too many tags.
func (d *Description) Check() error {
	if d.Title != nil && len(*d.Title) > maxTitle {
		return codec.Invalid("title", "a title has at most %d bytes", maxTitle)
	}
	if d.Note != nil && len(*d.Note) > MaxNote {
		return codec.Invalid("note", "a note has at most %d bytes", MaxNote)
	}
	if len(d.Tags) > MaxTags || slices.ContainsFunc(d.Tags, func(tag string) bool { return tag == "" || len(tag) > maxTag }) {
		return codec.Invalid("tags", "there are at most %d tags, of 1 to %d bytes", MaxTags, maxTag)
	}
	return nil
}

// Set changes the parts that are given.
func (d *Description) Set(title *string, tags *[]string, note *string) {
	if d.Title != nil {
		*title = *d.Title
	}
	if d.Tags != nil {
		*tags = d.Tags
	}
	if d.Note != nil {
		*note = *d.Note
	}
}
