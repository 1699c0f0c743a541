// Package crossing joins any client codec to any provider codec. It holds the only table of formats; everywhere else it
// asks a format for its facts ([codec.Traits]), never for its name.
//
// Exchanges with equal formats are not translated. Their bytes pass through untouched, except that [CleanHistory]
// removes foreign state from a conversation that another provider took part in, and an [Observer] notes what the record
// needs. For different formats, the client's body is decoded to the canonical request, adapted to the target (adapt.go
// lists the steps), and encoded for the provider. Then, frame by frame, the provider's answer is decoded to events, the
// adaptation is undone (restore.go), and the events are encoded for the client.
package crossing

import (
	"math"
	"sync"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/codec/gemini"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/statetoken"
)

// A new format is a folder and a row here.
func init() {
	addMark(statetoken.Mark)
	Register(chat.Definition())
	Register(responses.Definition())
	Register(messages.Definition())
	Register(gemini.Definition())
	Register(embeddings.Definition())
}

type row struct {
	*codec.Definition
	observers sync.Pool
}

var (
	formats [math.MaxUint8 + 1]*row
	marks   [math.MaxUint8 + 1][][]byte // of all formats, without their quotes, by what follows that
)

// Register adds a format to the table. Call it while the program starts, before anything is crossed.
func Register(d *codec.Definition) {
	formats[d.Traits.Format] = &row{Definition: d}
	for _, mark := range d.Marks {
		addMark(mark)
	}
}

func addMark(mark []byte) { marks[mark[1]] = append(marks[mark[1]], mark[1:]) }

// Formats returns those in the table, by their numbers.
func Formats() []codec.Format {
	var list []codec.Format
	for _, d := range &formats {
		if d != nil {
			list = append(list, d.Traits.Format)
		}
	}
	return list
}

// definition returns the row of a format; a format that is not in the table has no facts.
func definition(f codec.Format) *row {
	if d := formats[f]; d != nil {
		return d
	}
	return &unknown
}

var unknown = row{Definition: new(codec.Definition)}

// Traits returns the facts of a format, which must not be changed.
func Traits(f codec.Format) *codec.Traits { return &definition(f).Traits }

// Takes returns what a target accepts in a format.
func Takes(f codec.Format, t *codec.Target) codec.Takes {
	d := definition(f)
	takes := d.Traits.Takes
	takes.CallID = d.Traits.CallID
	if d.Narrow != nil {
		d.Narrow(&takes, t)
	}
	return takes
}

// ClientCodec returns the codec of a surface. Surfaces without one, such as embeddings, have chat's errors.
func ClientCodec(surface codec.Format) codec.ClientCodec {
	if c := definition(surface).Client; c != nil {
		return c
	}
	return definition(codec.Chat).Client
}

// ProviderCodec returns the codec of a provider format; errors of embeddings are read like chat's.
func ProviderCodec(f codec.Format) codec.ProviderCodec {
	if c := definition(f).Provider; c != nil {
		return c
	}
	return definition(codec.Chat).Provider
}

// providerFor returns the codec for a target in a format.
func providerFor(f codec.Format, t *codec.Target) codec.ProviderCodec {
	if of := definition(f).ProviderOf; of != nil {
		return of(t)
	}
	return ProviderCodec(f)
}

// AppendHeartbeat appends a heartbeat in the form of a surface, a comment if it has none of its own. next is the number
// of the stream's next event, 0 if none was numbered.
func AppendHeartbeat(dst []byte, surface codec.Format, next int64) []byte {
	if beat := Traits(surface).Stream.Heartbeat; beat != nil {
		return beat(dst, next)
	}
	return append(dst, ": ping\n\n"...)
}

// TokenCount returns how the answer to a client that asks for the size of a prompt is written; nil if clients of the
// surface do not ask.
func TokenCount(surface codec.Format) func(dst []byte, tokens int64) []byte {
	return definition(surface).AppendTokenCount
}
