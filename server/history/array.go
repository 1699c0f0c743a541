package history

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxElement bounds an element of a file that is one JSON array, in bytes: a whole conversation.
const maxElement = 256 << 20

// eachElement reads the elements of a JSON array one by one. Errors name the line where the element began.
func eachElement(ctx context.Context, from io.Reader, visit func(element json.RawMessage) error) error {
	counted := &countedLines{from: bufio.NewReaderSize(from, 256<<10)}
	counted.refill()
	decoder := json.NewDecoder(counted)
	at := func(err error) error {
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("line %d: the file is truncated; export it again", counted.line+1)
		case errors.As(err, &syntax):
			return fmt.Errorf("near line %d: %w", counted.line+1, errNotJSON)
		}
		return fmt.Errorf("near line %d: %w", counted.line+1, err)
	}
	if token, err := decoder.Token(); err != nil || token != json.Delim('[') {
		return errors.New("line 1: this is not a list of conversations")
	}
	for decoder.More() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		var element json.RawMessage
		if err := decoder.Decode(&element); err != nil {
			return at(err)
		}
		counted.refill()
		if err := visit(element); err != nil {
			return at(err)
		}
	}
	if _, err := decoder.Token(); err != nil {
		return at(err)
	}
	return nil
}

// countedLines counts lines, and returns at most maxElement bytes between two refills.
type countedLines struct {
	from io.Reader
	line int
	left int
}

func (c *countedLines) refill() { c.left = maxElement }

func (c *countedLines) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("a conversation is longer than the maximum of %d MiB", maxElement>>20)
	}
	n, err := c.from.Read(p[:min(len(p), c.left)])
	c.left -= n
	for _, b := range p[:n] {
		if b == '\n' {
			c.line++
		}
	}
	return n, err
}
