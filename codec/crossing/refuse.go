package crossing

import (
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

func itoa(n int) string { return strconv.Itoa(n) }

// refuse rejects what would change the meaning of the answer if it were left out (docs/wire/translation.md#2.1).
func (a *adaptation) refuse() error {
	r := a.r
	switch {
	case len(r.Stateful) > 0:
		return codec.Invalid(r.Stateful[0], "%s refers to something that only the provider that made it can look up, and this model belongs to %s: send the conversation itself",
			r.Stateful[0], a.target.Provider)
	case r.PreviousResponse != nil:
		e := codec.Invalid("previous_response_id", "previous_response_id cannot be followed to a model of %s: send the conversation itself", a.target.Provider)
		e.Code = "previous_response_not_found"
		return e
	case r.AudioOutput:
		return codec.Invalid("modalities", "models of %s do not answer in audio here", a.target.Provider)
	case r.N > 1:
		return codec.Invalid(r.Members.Named("n"), "only one answer can be asked of %s through this surface", a.target.Provider)
	case r.Logprobs == codec.True && !a.takes.LogProbs:
		return codec.Invalid(r.Members.Named("logprobs"), "%s gives no log probabilities here", a.target.Provider)
	case r.MaxOutput == 0:
		return codec.Invalid(a.from.Members.MaxOutput, "an output limit of 0 has no meaning at %s", a.target.Provider)
	}
	// Translated answers have no log probabilities, so none are requested.
	if r.Logprobs == codec.True {
		r.Notes.Drop("logprobs")
	}
	if n, ok := scan.Int(r.TopLogprobs); ok && n > 0 {
		r.Notes.Drop("top_logprobs")
	}
	r.Logprobs, r.TopLogprobs = codec.Unset, nil
	return nil
}
