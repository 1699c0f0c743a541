package fuzz_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/mnemeproxy/mneme/codec/sse"
	"github.com/mnemeproxy/mneme/fuzz/mutant"
)

type readFrame struct {
	name, data []byte
	comment    bool
}

// readFrames splits a stream that arrives in pieces of at most size bytes.
func readFrames(t *testing.T, stream []byte, size int) (frames []readFrame, raw []byte) {
	t.Helper()
	s := sse.NewSplitter(0, sse.MaxFrame)
	from := bytes.NewReader(stream)
	var f sse.Frame
	take := func() {
		frames = append(frames, readFrame{bytes.Clone(f.Name), bytes.Clone(f.Data), f.Comment})
		raw = append(raw, f.Raw...)
	}
	for {
		_, err := s.Read(io.LimitReader(from, int64(size)))
		for s.Next(&f) {
			take()
		}
		if errors.Is(err, io.EOF) && from.Len() == 0 {
			break
		}
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if s.Residue(&f) {
		take()
	}
	return frames, raw
}

// FuzzFrames splits a stream in two ways: the frames are the same, and no bytes are lost except blank lines and the
// byte order mark.
func FuzzFrames(f *testing.F) {
	for _, stream := range []string{
		"data: {}\n\n", "event: a\r\ndata: 1\r\n\r\n", "data: 1\r\rdata: 2\r\r", "\xEF\xBB\xBFdata: x\n\n", ": c\n\n{\"error\":1}",
		"data: a\ndata: b\n\ndata: unfinished",
	} {
		f.Add([]byte(stream), 1)
		f.Add([]byte(stream), 3)
	}
	f.Fuzz(mutant.Each(1000, func(t *testing.T, stream []byte, size int) {
		if size < 1 || len(stream) > 1<<16 {
			return
		}
		whole, raw := readFrames(t, stream, max(len(stream), 1))
		cut, _ := readFrames(t, stream, size)
		if len(whole) != len(cut) {
			t.Fatalf("%d frames whole, %d in pieces of %d", len(whole), len(cut), size)
		}
		for i := range whole {
			if !bytes.Equal(whole[i].name, cut[i].name) || !bytes.Equal(whole[i].data, cut[i].data) || whole[i].comment != cut[i].comment {
				t.Fatalf("frame %d: %q whole, %q in pieces of %d", i, whole[i].data, cut[i].data, size)
			}
		}
		ends := func(c rune) rune {
			if c == '\r' || c == '\n' {
				return -1
			}
			return c
		}
		if want := bytes.Map(ends, bytes.TrimPrefix(stream, []byte("\xEF\xBB\xBF"))); !bytes.Equal(bytes.Map(ends, raw), want) {
			t.Fatalf("bytes lost: %q of %q", raw, stream)
		}
	}))
}
