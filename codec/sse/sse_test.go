package sse_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/sse"
)

type frame struct {
	Name, Data string
	Comment    bool
}

// split reads the whole stream and returns its frames, the residue's marked by its name.
func split(t interface{ Fatalf(string, ...any) }, r io.Reader) (frames []frame, raw string) {
	s := sse.NewSplitter(16, sse.MaxFrame)
	var f sse.Frame
	for {
		_, err := s.Read(r)
		for s.Next(&f) {
			frames = append(frames, frame{string(f.Name), string(f.Data), f.Comment})
			raw += string(f.Raw)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
	}
	if s.Residue(&f) {
		frames = append(frames, frame{"residue " + string(f.Name), string(f.Data), f.Comment})
		raw += string(f.Raw)
	}
	return frames, raw
}

func TestFramesAreReadByTheRulesOfEventStreams(t *testing.T) {
	cases := map[string]struct {
		stream string
		want   []frame
	}{
		"data only":               {"data: {}\n\n", []frame{{"", "{}", false}}},
		"P42: no space":           {"data:{}\n\n", []frame{{"", "{}", false}}},
		"one space only":          {"data:  x\n\n", []frame{{"", " x", false}}},
		"named":                   {"event: ping\ndata: 1\n\n", []frame{{"ping", "1", false}}},
		"P43: CRLF":               {"event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n", []frame{{"a", "1", false}, {"", "2", false}}},
		"P43: CR":                 {"data: 1\r\rdata: 2\r\r\n", []frame{{"", "1", false}, {"", "2", false}}},
		"mixed line ends":         {"data: 1\r\n\ndata: 2\n\r\n", []frame{{"", "1", false}, {"", "2", false}}},
		"several data lines":      {"data: a\ndata: b\ndata\n\n", []frame{{"", "a\nb\n", false}}},
		"comment":                 {": keep-alive\n\ndata: 1\n\n", []frame{{"", "", true}, {"", "1", false}}},
		"comment inside":          {": x\ndata: 1\n\n", []frame{{"", "1", false}}},
		"a comment as data":       {"data: 1\n\ndata: : keepalive\n\nevent: x\ndata::\n\ndata: 2\n\n", []frame{{"", "1", false}, {"", ": keepalive", true}, {"x", ":", true}, {"", "2", false}}},
		"name without data":       {"event: ping\n\n", []frame{{"ping", "", true}}},
		"empty data":              {"data:\n\n", []frame{{"", "", false}}},
		"byte order mark":         {"\xEF\xBB\xBFdata: 1\n\n", []frame{{"", "1", false}}},
		"many blank lines":        {"\n\n\ndata: 1\n\n\n\n", []frame{{"", "1", false}}},
		"no blank line at end":    {"data: 1\n\ndata: 2\n", []frame{{"", "1", false}, {"residue ", "2", false}}},
		"P48: bare JSON tail":     {"data: 1\n\n{\"error\":{\n\"code\":503}}", []frame{{"", "1", false}, {"residue ", "{\"error\":{\n\"code\":503}}", false}}},
		"cut inside a frame":      {"data: 1\n\ndata: {\"a", []frame{{"", "1", false}, {"residue ", "{\"a", false}}},
		"id and retry are known":  {"id: 7\nretry: 10\ndata: 1\n\n", []frame{{"", "1", false}}},
		"colon inside the value":  {"data: a: b\n\n", []frame{{"", "a: b", false}}},
		"nothing":                 {"", nil},
		"longer than the buffer":  {"data: " + strings.Repeat("x", 1000) + "\n\n", []frame{{"", strings.Repeat("x", 1000), false}}},
		"UTF-8 whatever the cuts": {"data: 日本語😀\n\n", []frame{{"", "日本語😀", false}}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, _ := split(t, strings.NewReader(c.stream))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			oneByOne, _ := split(t, iotest.OneByteReader(strings.NewReader(c.stream)))
			if diff := cmp.Diff(c.want, oneByOne); diff != "" {
				t.Errorf("byte by byte: %s", diff)
			}
		})
	}
}

// P41, P44: any cut of the stream gives the same frames.
func TestFramesDoNotDependOnTheCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ends := rapid.SampledFrom([]string{"\n", "\r\n", "\r"})
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{"data: {\"a\":\"日\"}", "event: x", ": c", "", "data:1", "id: 3", "data: x\u0085y"}), 0, 12).Draw(t, "lines")
		var stream strings.Builder
		for _, line := range lines {
			stream.WriteString(line)
			stream.WriteString(ends.Draw(t, "end"))
		}
		whole, _ := split(t, strings.NewReader(stream.String()))
		cut, _ := split(t, cutReader{strings.NewReader(stream.String()), t})
		if diff := cmp.Diff(whole, cut); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The frames of a stream that has only line feeds are read in a shorter way: with a carriage return in the frame after
// them, they are the same.
func TestFramesAreTheSameWhereLinesAreReadOneByOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(rapid.SampledFrom([]string{
			"data: {\"a\":\"日\"}", "data: ", "data:", "data", "data:1", "event: x", "event: ", "event:y", "event", ": c", "", "", "", "id: 3", "{\"error\":1}", " data: x", "data: event: x",
		}), 0, 16).Draw(t, "lines")
		stream := strings.Join(lines, "\n") + "\n\n"
		plain, _ := split(t, strings.NewReader(stream))
		read, _ := split(t, strings.NewReader(stream+"data: last\r\n\r\n"))
		if diff := cmp.Diff(append(plain, frame{Data: "last"}), read); diff != "" {
			t.Fatal(diff)
		}
	})
}

type cutReader struct {
	r io.Reader
	t *rapid.T
}

func (c cutReader) Read(p []byte) (int, error) {
	return c.r.Read(p[:rapid.IntRange(1, min(len(p), 9)).Draw(c.t, "cut")])
}

func TestAFrameOverTheLimitIsAnErrorAndNotMemory(t *testing.T) {
	s := sse.NewSplitter(512, 4096)
	endless := iotest.DataErrReader(strings.NewReader("data: " + strings.Repeat("x", 10_000)))
	var f sse.Frame
	for {
		_, err := s.Read(endless)
		if errors.Is(err, sse.ErrFrameTooLong) {
			return
		}
		if err != nil || s.Next(&f) {
			t.Fatalf("got frame or error %v, want the limit", err)
		}
	}
}

// chunkedReader gives what a reader of the chunked transfer coding does: it reads as much as there is room for, and takes
// the framing of each event's chunk out of it in place, so that it never fills what it was given.
type chunkedReader struct {
	stream io.Reader
	reads  int
}

func (c *chunkedReader) Read(p []byte) (int, error) {
	c.reads++
	framing := len(p) / 10 // a chunk of 80 bytes has 6 of framing, two of 40 have 12
	return c.stream.Read(p[:len(p)-framing])
}

func TestABurstOfChunksIsReadInFewReads(t *testing.T) {
	const event = `data: {"id":"x","choices":[{"delta":{"content":"word"}}]}` + "\n\n"
	burst := &chunkedReader{stream: strings.NewReader(strings.Repeat(event, 400))}
	s := sse.NewSplitter(16<<10, sse.MaxFrame)
	var f sse.Frame
	for frames := 0; frames < 400; {
		if _, err := s.Read(burst); err != nil {
			t.Fatalf("after %d frames: %v", frames, err)
		}
		for s.Next(&f) {
			frames++
		}
	}
	if burst.reads > 4 { // 23 KB: 1 KiB, 4, and the rest in two
		t.Errorf("%d reads for a burst of %d bytes, want at most 4", burst.reads, 400*len(event))
	}
}

func TestABufferDoesNotGrowForEventsThatComeSingly(t *testing.T) {
	const event = `data: {"id":"x","choices":[{"delta":{"content":"word"}}]}` + "\n\n"
	single := iotest.OneByteReader(strings.NewReader(strings.Repeat(event, 50)))
	s := sse.NewSplitter(16<<10, sse.MaxFrame)
	var f sse.Frame
	allocations := testing.AllocsPerRun(1, func() {
		for range 25 * len(event) {
			if _, err := s.Read(single); err != nil {
				t.Fatal(err)
			}
			for s.Next(&f) {
			}
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations for events of %d bytes, want none", allocations, len(event))
	}
}

func TestSplittingDoesNotAllocatePerFrame(t *testing.T) {
	stream := strings.Repeat("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"hello\"}}\n\n", 50)
	s := sse.NewSplitter(4096, sse.MaxFrame)
	r := strings.NewReader(stream)
	var f sse.Frame
	allocs := testing.AllocsPerRun(50, func() {
		r.Reset(stream)
		s.Reset()
		for {
			_, err := s.Read(r)
			for s.Next(&f) {
				_ = f.Data
			}
			if err != nil {
				return
			}
		}
	})
	if allocs > 0 {
		t.Errorf("%v allocations for 50 frames, want none", allocs)
	}
}

func BenchmarkSplit(b *testing.B) {
	stream := strings.Repeat("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"}}]}\n\n", 100)
	s := sse.NewSplitter(16<<10, sse.MaxFrame)
	r := strings.NewReader(stream)
	var f sse.Frame
	b.ReportAllocs()
	for b.Loop() {
		r.Reset(stream)
		s.Reset()
		for {
			_, err := s.Read(r)
			for s.Next(&f) {
				_ = f.Data
			}
			if err != nil {
				break
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/frame")
}
