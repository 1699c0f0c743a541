//go:build !race

package server_test

import (
	"runtime"
	"runtime/metrics"
	"strings"
	"testing"
)

// The stack of a stream grows to 16 KiB while its request is read and recorded. A collection halves it if less than a
// quarter is in use, 800 bytes for the runtime included. The frames of all functions above the read that waits count, so
// they have to stay small. With the race detector they are larger.
func TestStackAllocatedToAWaitingStream(t *testing.T) {
	translated := strings.Replace(messages.body("", true), messages.model, chat.model, 1)
	for _, stream := range []struct {
		surface
		body string
	}{{chat, chat.body("", true)}, {messages, translated}} {
		t.Run(stream.name, func(t *testing.T) {
			up := newEvents(t)
			h := build(t, func(p *plan) { leadTo(p, up.URL()) })
			h.openStream(stream.surface, stream.body)
			before := stacks()
			const streams = 100
			for range streams {
				h.openStream(stream.surface, stream.body)
			}
			each := (stacks() - before) / streams
			t.Logf("%d bytes of stack for each stream, with those of the provider", each)
			if each > 14<<10 {
				t.Errorf("%d bytes of stack for each stream", each)
			}
		})
	}
}

// stacks returns how many bytes of stacks are in use, once they have shrunk: a collection halves each at most.
func stacks() int64 {
	for range 4 {
		runtime.GC()
	}
	sample := []metrics.Sample{{Name: "/memory/classes/heap/stacks:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
