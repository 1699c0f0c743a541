package crossing

import (
	"unsafe"

	"github.com/mnemeproxy/mneme/codec"
)

// adaptation is a request on its way to a target, which every step reads and rewrites.
type adaptation struct {
	r      *codec.Request
	from   *codec.Traits // of the client's format
	to     *codec.Traits // of the provider's
	takes  codec.Takes   // and what the target takes
	target *codec.Target
	memory Memory
	back   *wayBack
}

// wayBack is what the steps did that has to be undone in the answer. It holds views of the request.
type wayBack struct {
	names    nameMap
	wrapped  map[string]bool // names of free-text tools that were sent as functions, before they were made legal
	stops    [][]byte        // sequences that the provider does not support
	jsonTool string          // name of the tool that replaces a schema; "" for none
}

// adapt rewrites a canonical request so that the target can accept it, and prepares back for the answer. The steps are
// in separate files, each named after what it corrects. The order matters: references to tools by name or to calls by
// id are resolved before names and ids change, and state is restored before the conversation is reshaped around it.
func adapt(back *restorer, r *codec.Request, format codec.Format, s *Settings) error {
	a := &adaptation{r: r, from: Traits(r.Format), to: Traits(format), takes: Takes(format, &s.Target), target: &s.Target, memory: s.memory(), back: &back.back}
	back.prepare(a)
	var (
		tools        = toolStep{adaptation: a}
		conversation = conversationStep{a}
		state        = stateStep{adaptation: a}
	)
	for _, step := range []func() error{
		a.refuse,
		tools.offerAll,
		tools.choose,
		conversation.clear,
		pairStep{a}.run,
		mediaStep{a}.run,
		state.run,
		conversation.order,
		identifierStep{a}.run,
		settingsStep{a}.run,
		reasoningStep{a}.run,
		outputStep{a}.run,
		breakpointStep{a}.run,
		a.stopSequences,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// view returns b as a string without a copy, for keys of maps that live as long as the request: names and ids are views
// into the client's body or memory of the request, which do not change until the exchange is released. An agent's
// history holds hundreds of them, and copying them would cost more than translating it.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
