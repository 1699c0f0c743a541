package crossing

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// fallbackMaxOutput is the output limit for formats that require one and unknown models (docs/wire/translation.md#2.2).
const fallbackMaxOutput = 32000

// settingsStep handles scalar members.
type settingsStep struct{ *adaptation }

// run brings the scalar members within the target's limits (docs/wire/translation.md#2.2).
func (a settingsStep) run() error {
	a.outputLimit()
	a.sampling()
	a.identity()
	r := a.r
	a.serviceTier()
	if r.Metadata != nil && a.from.Author != a.to.Author {
		r.Notes.Drop("metadata")
		r.Metadata = nil
	}
	if r.Store == codec.True {
		r.Notes.Drop("store")
	}
	r.Store = codec.Unset
	if a.takes.KeepsAnswers {
		// State comes back in the answer and the client carries it: the provider need not store anything.
		r.Store, r.IncludeState = codec.False, true
	}
	return nil
}

// serviceTier keeps tiers between the two formats that share their words. The fast speed of Messages is the priority
// tier there; its own tiers have no effect elsewhere.
func (a settingsStep) serviceTier() {
	r := a.r
	switch tier := string(r.ServiceTier); {
	case tier == "", a.from.Author == a.to.Author:
		return
	case tier == "priority" && a.from.Members.Priority != "" && a.takes.ServiceTiers:
		r.Notes.Emulate(a.from.Members.Priority)
		return
	case tier == "priority" && a.from.Members.Priority != "":
		r.Notes.Drop(a.from.Members.Priority)
	case tier != "auto" && tier != "default":
		r.Notes.Drop("service_tier")
	}
	r.ServiceTier = nil
}

func (a settingsStep) outputLimit() {
	r, t := a.r, a.target
	if r.MaxOutput < 0 && a.takes.NeedsMaxOutput {
		r.MaxOutput = t.DefaultMaxOutput
		if r.MaxOutput == 0 {
			r.MaxOutput = fallbackMaxOutput
		}
	}
	if t.MaxOutput > 0 && r.MaxOutput > t.MaxOutput {
		r.MaxOutput = t.MaxOutput
	}
}

// sampling removes what the model refuses. The Messages codec handles the limits of thinking: only it knows what else
// is written.
func (a settingsStep) sampling() {
	if a.target.ReasoningModel || !a.target.Sampling {
		a.dropNumber(&a.r.Temperature, "temperature")
		a.dropNumber(&a.r.TopP, "top_p")
		a.dropNumber(&a.r.TopK, "top_k")
	}
}

func (a settingsStep) dropNumber(value *[]byte, name string) {
	if *value != nil {
		*value = nil
		a.r.Notes.Drop(name)
	}
}

// identity passes on the user's identity in the target's terms. Another company gets a hash of an id that reveals more;
// equal hashes keep a user's requests on one prompt cache.
func (a settingsStep) identity() {
	r := a.r
	switch {
	case !a.takes.SafetyIdentifier:
		if r.SafetyIdentifier != nil {
			r.User = r.SafetyIdentifier
		}
	case a.from.Client.PrivateUser && r.User != nil:
		sum := sha256.Sum256(scan.Unescape(nil, r.User))
		hashed := hex.AppendEncode(a.r.Alloc(2*len(sum)), sum[:])
		r.SafetyIdentifier, r.User = hashed, nil
		if r.PromptCacheKey == nil {
			r.PromptCacheKey = hashed
		}
	}
}
