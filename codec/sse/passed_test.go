package sse_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mnemeproxy/mneme/codec/sse"
)

// Whatever is cut where, the bytes that were passed add up to the stream, and end with a whole frame until its end.
func TestPassedBytesAddUpToTheStream(t *testing.T) {
	stream := "\xEF\xBB\xBF\n\ndata: a\n\n\n: ping\r\n\r\ndata: b\r\n\r\ndata: rest"
	for name, reader := range map[string]io.Reader{
		"at once": strings.NewReader(stream), "byte by byte": iotest.OneByteReader(strings.NewReader(stream)),
	} {
		s := sse.NewSplitter(512, sse.MaxFrame)
		var f sse.Frame
		passed := ""
		for {
			_, err := s.Read(reader)
			for s.Next(&f) {
			}
			passed += string(s.Passed())
			if err != nil {
				break
			}
		}
		if whole := strings.TrimSuffix(stream, "data: rest"); passed != whole {
			t.Errorf("%s: before the end %q has passed, want %q", name, passed, whole)
		}
		s.Residue(&f)
		if passed += string(s.Passed()); passed != stream {
			t.Errorf("%s: %q has passed, want %q", name, passed, stream)
		}
	}
}
