package digest

import (
	"bytes"
	"reflect"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/store/record"
)

// maxAlternatives is the largest number of answers to one request that are read; providers allow as many.
const maxAlternatives = 128

// alternatives returns the answers to a request that asked for several at once, without the first one that was read. Any of
// them may be empty, such as one that was filtered.
func alternatives(surface codec.Format, x *record.Exchange, first *record.Message) (others []record.Message) {
	if crossing.Choice(surface, 1) == nil || !bytes.Contains(x.RawResponse, []byte(`"index":1`)) && !bytes.Contains(x.RawResponse, []byte(`"index": 1`)) {
		return nil
	}
	asked, _ := scan.Int(scan.Get(x.RawRequest, "n")) // calls have an index too
	for n := int64(1); n < min(asked, maxAlternatives); n++ {
		next := answered(readChoice(surface, x, n))
		if reflect.DeepEqual(&next, first) { // a stream may begin with any of them
			next = answered(readChoice(surface, x, 0))
		}
		if len(next.Parts) > 0 {
			others = append(others, next)
		}
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
