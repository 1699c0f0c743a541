package crossing

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// fallbackMaxOutput is the output limit for formats that require one and models that nothing is known of
// (wire sheet: translation, 2.2).
const fallbackMaxOutput = 32000

// minResponsesOutput is the least that Responses takes as an output limit.
const minResponsesOutput = 16

// settings brings the scalar members within what the target takes (wire sheet: translation, 2.2).
func (a *adaption) settings() error {
	a.outputLimit()
	a.sampling()
	a.identity()
	r := a.r
	if r.ServiceTier != nil && !(isOpenAIShape(r.Format) && isOpenAIShape(a.format)) {
		if tier := string(r.ServiceTier); tier != "auto" && tier != "default" {
			r.Notes.Drop("service_tier")
		}
		r.ServiceTier = nil
	}
	if r.Metadata != nil && !(isOpenAIShape(r.Format) && isOpenAIShape(a.format)) {
		r.Notes.Drop("metadata")
		r.Metadata = nil
	}
	if r.Store == codec.True {
		r.Notes.Drop("store")
	}
	r.Store = codec.Unset
	if a.format == codec.Responses {
		// State comes back in the answer and is carried by the client: nothing has to lie with the provider.
		r.Store, r.IncludeState = codec.False, true
	}
	return nil
}

func isOpenAIShape(f codec.Format) bool { return f == codec.Chat || f == codec.Responses }

func (a *adaption) outputLimit() {
	r, t := a.r, a.target
	if r.MaxOutput < 0 && a.format == codec.Messages {
		r.MaxOutput = t.DefaultMaxOutput
		if r.MaxOutput == 0 {
			r.MaxOutput = fallbackMaxOutput
		}
	}
	if t.MaxOutput > 0 && r.MaxOutput > t.MaxOutput {
		r.MaxOutput = t.MaxOutput
	}
	if a.format == codec.Responses && r.MaxOutput >= 0 {
		r.MaxOutput = max(r.MaxOutput, minResponsesOutput)
	}
}

// sampling leaves out what the model refuses. A value of zero is a value.
func (a *adaption) sampling() {
	r := a.r
	if a.target.ReasoningModel || !a.target.Sampling {
		a.dropNumber(&r.Temperature, "temperature")
		a.dropNumber(&r.TopP, "top_p")
		a.dropNumber(&r.TopK, "top_k")
	}
	if a.format != codec.Messages {
		return
	}
	if above(r.Temperature, 1) {
		r.Temperature = []byte("1")
		r.Notes.Emulate("temperature")
	}
	if r.Temperature != nil && r.TopP != nil {
		a.dropNumber(&r.TopP, "top_p") // newer models refuse the two together
	}
}

func (a *adaption) dropNumber(value *[]byte, name string) {
	if *value != nil {
		*value = nil
		a.r.Notes.Drop(name)
	}
}

func above(number []byte, limit float64) bool {
	f, err := strconv.ParseFloat(string(number), 64)
	return err == nil && f > limit
}

// identity hands on who the user is in the target's terms. Claude Code's user id holds account and device ids, so that
// another company gets a hash of it; the same hash keeps its requests on one prompt cache.
func (a *adaption) identity() {
	r := a.r
	switch {
	case a.format == codec.Messages:
		if r.SafetyIdentifier != nil {
			r.User = r.SafetyIdentifier
		}
	case r.Format == codec.Messages && r.User != nil:
		sum := sha256.Sum256(scan.Unescape(nil, r.User))
		hashed := hex.AppendEncode(a.r.Room(2*len(sum)), sum[:])
		r.SafetyIdentifier, r.User = hashed, nil
		if r.PromptCacheKey == nil {
			r.PromptCacheKey = hashed
		}
	}
}
