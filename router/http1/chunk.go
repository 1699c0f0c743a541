package http1

import "io"

// chunks reads the chunked transfer coding (RFC 9112, section 7.1) in pieces that are cut anywhere. Its zero value is
// at the first chunk.
//
// Sizes are hexadecimal digits only, and every line ends in CR LF. Extensions and trailers are skipped.
type chunks struct {
	state   chunkState
	digits  uint8  // of the size, leading zeros included
	left    uint64 // bytes of the chunk; its size while its line is read
	passed  int    // bytes of extensions and trailers
	content bool   // the trailer line is not empty
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkExtension
	chunkSizeLF
	chunkData
	chunkDataCR
	chunkDataLF
	chunkTrailer
	chunkTrailerLF
	chunkEnd
)

const (
	maxDigits = 15       // of a size: 2^60 bytes suffice, and cannot overflow
	maxPassed = 64 << 10 // bytes of all extensions and trailers of a body
)

// strip moves the content in p to its front and returns its length, and how many bytes of p it has used: fewer than all
// only if the body ends in p. The error is io.EOF at the end of the body, and ErrMalformed if p is not chunked.
func (c *chunks) strip(p []byte) (n, used int, err error) {
	for i := 0; i < len(p); {
		if c.state == chunkData {
			run := int(min(uint64(len(p)-i), c.left))
			if n != i {
				copy(p[n:], p[i:i+run])
			}
			n += run
			i += run
			if c.left -= uint64(run); c.left == 0 {
				c.state = chunkDataCR
			}
			continue
		}
		if !c.step(p[i]) {
			return n, i, malformed("chunk")
		}
		i++
		if c.state == chunkEnd {
			return n, i, io.EOF
		}
	}
	return n, len(p), nil
}

// step consumes one byte of framing, and reports whether it is valid there.
func (c *chunks) step(b byte) bool {
	switch c.state {
	case chunkSize:
		digit, ok := hexDigit(b)
		switch {
		case ok && c.digits < maxDigits:
			c.left = c.left<<4 | uint64(digit)
			c.digits++
			return true
		case c.digits == 0:
			return false
		case b == '\r':
			c.state = chunkSizeLF
			return true
		case b == ';' || b == ' ' || b == '\t': // blanks before an extension are invalid but common
			c.state = chunkExtension
			return true
		}
		return false
	case chunkExtension:
		if b == '\r' {
			c.state = chunkSizeLF
			return true
		}
		return c.pass(b)
	case chunkSizeLF:
		c.state = chunkData
		if c.left == 0 {
			c.state = chunkTrailer
		}
		c.digits = 0
		return b == '\n'
	case chunkDataCR:
		c.state = chunkDataLF
		return b == '\r'
	case chunkDataLF:
		c.state = chunkSize
		return b == '\n'
	case chunkTrailer:
		if b == '\r' {
			c.state = chunkTrailerLF
			return true
		}
		c.content = true
		return c.pass(b)
	case chunkTrailerLF:
		c.state = chunkEnd
		if c.content {
			c.state, c.content = chunkTrailer, false
		}
		return b == '\n'
	}
	return false
}

// pass skips a byte of an extension or a trailer.
func (c *chunks) pass(b byte) bool {
	c.passed++
	return b != '\n' && c.passed <= maxPassed
}

func hexDigit(b byte) (byte, bool) {
	switch {
	case b >= '0' && b <= '9':
		return b - '0', true
	case b >= 'a' && b <= 'f':
		return b - 'a' + 10, true
	case b >= 'A' && b <= 'F':
		return b - 'A' + 10, true
	}
	return 0, false
}
