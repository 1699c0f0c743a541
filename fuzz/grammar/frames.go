package grammar

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"
)

// eachFrame checks every frame of a stream of UTF-8, without the blank line that ends it.
func eachFrame(stream []byte, check func(frame []byte) error) error {
	if !utf8.Valid(stream) {
		return errors.New("the stream is not UTF-8")
	}
	for n, rest := 0, stream; len(rest) > 0; n++ {
		frame, tail, whole := bytes.Cut(rest, []byte("\n\n"))
		if !whole {
			return fmt.Errorf("frame %d is not followed by a blank line: %q", n, frame)
		}
		rest = tail
		if err := check(frame); err != nil {
			return fmt.Errorf("frame %d: %w: %s", n, err, frame)
		}
	}
	return nil
}
