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
	marks   = [][]byte{statetoken.Mark} // of all formats
)

// Register adds a format to the table. It is to be called while the program starts, before anything is crossed.
func Register(d *codec.Definition) {
	formats[d.Traits.Format] = &row{Definition: d}
	marks = append(marks, d.Marks...)
}

// Formats are those in the table, by their numbers.
func Formats() []codec.Format {
	var list []codec.Format
	for _, d := range &formats {
		if d != nil {
			list = append(list, d.Traits.Format)
		}
	}
	return list
}

// definition is that of a format; one that is not in the table has no facts.
func definition(f codec.Format) *row {
	if d := formats[f]; d != nil {
		return d
	}
	return &unknown
}

var unknown = row{Definition: new(codec.Definition)}

// Traits are the facts of a format, not to be changed.
func Traits(f codec.Format) *codec.Traits { return &definition(f).Traits }

// Takes is what a target takes in a format.
func Takes(f codec.Format, t *codec.Target) codec.Takes {
	d := definition(f)
	takes := d.Traits.Takes
	takes.CallID = d.Traits.CallID
	if d.Narrow != nil {
		d.Narrow(&takes, t)
	}
	return takes
}

// ClientCodec is the codec for a surface. Surfaces without one of their own, embeddings among them, have chat's errors.
func ClientCodec(surface codec.Format) codec.ClientCodec {
	if c := definition(surface).Client; c != nil {
		return c
	}
	return definition(codec.Chat).Client
}

// ProviderCodec is the codec for a format that providers speak; errors of embeddings read like chat's.
func ProviderCodec(f codec.Format) codec.ProviderCodec {
	if c := definition(f).Provider; c != nil {
		return c
	}
	return definition(codec.Chat).Provider
}

// providerFor is the codec for a target in a format.
func providerFor(f codec.Format, t *codec.Target) codec.ProviderCodec {
	if of := definition(f).ProviderOf; of != nil {
		return of(t)
	}
	return ProviderCodec(f)
}

// AppendHeartbeat appends a sign of life in the form of a surface, a comment where it has none of its own. next is the
// number of the stream's next event, 0 where none was numbered.
func AppendHeartbeat(dst []byte, surface codec.Format, next int64) []byte {
	if beat := Traits(surface).Stream.Heartbeat; beat != nil {
		return beat(dst, next)
	}
	return append(dst, ": ping\n\n"...)
}
