package crossing

import (
	"github.com/mnemeproxy/mneme/codec"
)

var ephemeral = []byte(`{"type":"ephemeral"}`)

// breakpointStep handles prompt cache marks.
type breakpointStep struct{ *adaptation }

// run marks for Anthropic's prompt cache what agents send again with every turn: tools, instructions and the two newest
// user turns. Nothing is cached there without a mark, and clients of other formats cannot ask for one. A client's own
// marks are kept, up to the provider's limit: the earliest are dropped.
func (a breakpointStep) run() error {
	if a.takes.Breakpoints == 0 {
		return nil
	}
	marks := a.marks()
	if len(marks) > 0 || a.r.CacheControl != nil {
		for _, mark := range marks[:max(len(marks)-a.takes.Breakpoints, 0)] {
			*mark = nil
		}
		return nil
	}
	if !a.target.Breakpoints {
		return nil
	}
	if n := len(a.r.Tools); n > 0 {
		a.r.Tools[n-1].CacheControl = ephemeral
	}
	if n := len(a.r.Instructions); n > 0 {
		a.r.Instructions[n-1].CacheControl = ephemeral
	}
	left := 2
	for i := len(a.r.Messages) - 1; i >= 0 && left > 0; i-- {
		m := &a.r.Messages[i]
		if m.Role == codec.RoleUser || m.Role == codec.RoleTool {
			m.Parts[len(m.Parts)-1].CacheControl = ephemeral
			left--
		}
	}
	return nil
}

// marks lists the client's own breakpoints, earliest first, including those inside tool results.
func (a breakpointStep) marks() []*[]byte {
	var marks []*[]byte
	note := func(mark *[]byte) {
		if *mark != nil {
			marks = append(marks, mark)
		}
	}
	for i := range a.r.Tools {
		note(&a.r.Tools[i].CacheControl)
	}
	for i := range a.r.Instructions {
		note(&a.r.Instructions[i].CacheControl)
	}
	for i := range a.r.Messages {
		for j := range a.r.Messages[i].Parts {
			p := &a.r.Messages[i].Parts[j]
			for k := range p.Parts {
				note(&p.Parts[k].CacheControl)
			}
			note(&p.CacheControl)
		}
	}
	return marks
}
