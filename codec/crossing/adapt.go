package crossing

import (
	"github.com/mnemeproxy/mneme/codec"
)

// requestAdapter rewrites one canonical request so that the target can take it, and fills in what has to be undone in the
// answer. Its steps are in files of their own; each is named after what it makes right.
type requestAdapter struct {
	r       *codec.Request
	from    *codec.Traits // of the client's format
	to      *codec.Traits // of the provider's
	takes   codec.Takes   // and what the target takes
	target  *codec.Target
	setting *Settings
	undo    *undo
	flat    map[string]bool // names of tools outside any namespace

	plain []byte // a text without its escapes

	references map[string]bool // names of tools that the conversation refers to; nil: not read yet
}

// adapt runs all steps. The order matters: what refers to tools by name or to calls by id comes before names and ids
// are changed, and state is put back before the conversation is reshaped around it.
func (u *undo) adapt(r *codec.Request, format codec.Format, s *Settings) error {
	a := &requestAdapter{r: r, from: Traits(r.Format), to: Traits(format), takes: Takes(format, &s.Target), target: &s.Target, setting: s, undo: u}
	u.prepare(a)
	for _, step := range []func() error{
		a.refuse,        // refuse.go
		a.tools,         // tools.go
		a.toolChoice,    // tools.go
		a.conversation,  // conversation.go
		a.pairs,         // pairs.go
		a.media,         // media.go
		a.state,         // state.go
		a.order,         // conversation.go
		a.identifiers,   // identifiers.go
		a.settings,      // settings.go
		a.reasoning,     // reasoning.go
		a.outputFormat,  // output.go
		a.breakpoints,   // breakpoints.go
		a.stopSequences, // stop.go
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
