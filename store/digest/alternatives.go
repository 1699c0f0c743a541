package digest

import (
	"bytes"
	"reflect"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/store/record"
)

// maxAlternatives is the largest number of answers to one request that are read; providers allow as many.
const maxAlternatives = 128

// alternatives returns the answers to a request that asked for several at once, without the first one that was read.
func alternatives(surface codec.Format, x *record.Exchange, first *record.Message) (others []record.Message) {
	if crossing.Choice(surface, 1) == nil || !bytes.Contains(x.RawResponse, []byte(`"index":1`)) && !bytes.Contains(x.RawResponse, []byte(`"index": 1`)) {
		return nil
	}
	next := answered(readChoice(surface, x, 1)) // calls have an index too
	for n := int64(2); len(next.Parts) > 0; n++ {
		if reflect.DeepEqual(&next, first) { // a stream may begin with any of them
			next = answered(readChoice(surface, x, 0))
		}
		others = append(others, next)
		if n > maxAlternatives {
			break
		}
		next = answered(readChoice(surface, x, n))
	}
	return others
}

func readChoice(surface codec.Format, x *record.Exchange, n int64) *codec.Answer {
	decoder, answer := crossing.Choice(surface, n), new(codec.Answer)
	if !strings.HasPrefix(x.ResponseType, "text/event-stream") {
		answer.Fold(decoder.Decode(nil, nil, x.RawResponse))
		answer.Fold(decoder.Finish(nil, codec.EndEOF, nil))
		return answer
	}
	frames := sse.Split(x.RawResponse)
	foldFrames(answer, decoder, &frames)
	return answer
}
