package fuzz_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/codec/sse"
)

// eventsOf decodes a provider's stream that arrives in pieces of at most size bytes, and prints its events, one per
// line. Each event is checked for the order that every decoder promises, and by check for further promises of the
// codec.
func eventsOf(t *testing.T, side codec.ProviderCodec, stream []byte, size int, check func(ev *codec.Event) error) string {
	t.Helper()
	var (
		printed strings.Builder
		events  []codec.Event
		frame   sse.Frame
		order   eventOrder
		split   = sse.NewSplitter(512, 1<<20)
		decoder = side.NewDecoder()
		rest    = &pieces{rest: bytes.NewReader(stream), size: size}
		end     = codec.EndEOF
	)
	take := func() {
		for i := range events {
			ev := &events[i]
			if err := errors.Join(order.take(ev), check(ev)); err != nil {
				t.Fatalf("%v behind\n%s", err, printed.String())
			}
			fmt.Fprintf(&printed, "%d %d %d %d %d %d %v %q %q %q %v %v\n",
				ev.Kind, ev.Type, ev.Item, ev.Sub, ev.Finish, ev.End, ev.Whole, ev.Raw, ev.CallID, ev.Name, ev.Usage, ev.Err)
		}
	}
	for {
		_, err := split.Read(rest)
		for split.Next(&frame) {
			if !frame.Comment {
				events = decoder.Decode(events[:0], frame.Name, frame.Data)
				take()
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			end = codec.EndBroken
			break
		}
	}
	var residue []byte
	if split.Residue(&frame) {
		residue = frame.Data
	}
	events = decoder.Finish(events[:0], end, residue)
	take()
	if !order.ended {
		t.Fatalf("no end after\n%s", printed.String())
	}
	return printed.String()
}

// pieces returns at most size bytes at a time.
type pieces struct {
	rest *bytes.Reader
	size int
}

func (p *pieces) Read(b []byte) (int, error) { return p.rest.Read(b[:min(len(b), p.size)]) }

// eventOrder checks what every decoder promises: dense ordinals, nothing for an item before it opens or after it closes,
// bodies that can be copied into a JSON string, one end.
type eventOrder struct {
	open  []bool
	ended bool
}

func (o *eventOrder) take(ev *codec.Event) error {
	if o.ended {
		return fmt.Errorf("event %d after the end", ev.Kind)
	}
	switch ev.Kind {
	case codec.EventItemOpen:
		if int(ev.Item) != len(o.open) {
			return fmt.Errorf("item %d opened, %d expected", ev.Item, len(o.open))
		}
		o.open = append(o.open, true)
	case codec.EventText, codec.EventRefusal, codec.EventReasoning, codec.EventSignature, codec.EventArguments, codec.EventCustomInput:
		if !scan.Valid(scan.QuoteBody(nil, ev.Raw)) {
			return fmt.Errorf("%q is not a string body", ev.Raw)
		}
		fallthrough
	case codec.EventAnnotation, codec.EventItemClose:
		if ev.Item < 0 || int(ev.Item) >= len(o.open) || !o.open[ev.Item] {
			return fmt.Errorf("event %d for item %d, which is not open", ev.Kind, ev.Item)
		}
		o.open[ev.Item] = ev.Kind != codec.EventItemClose
	case codec.EventEnd:
		o.ended = true
	}
	return nil
}

// written returns what a provider is sent for a request, which has to be JSON, and the same each time.
func written(t *testing.T, side codec.ProviderCodec, r *codec.Request, target *codec.Target) ([]byte, error) {
	t.Helper()
	first, err := side.AppendRequest(nil, r, target)
	if err != nil {
		return nil, err
	}
	if !scan.Valid(first) {
		t.Fatalf("not JSON: %s", first)
	}
	if again, err := side.AppendRequest(nil, r, target); err != nil || !bytes.Equal(first, again) {
		t.Fatalf("differs (%v):\n%s\n%s", err, first, again)
	}
	return first, nil
}
