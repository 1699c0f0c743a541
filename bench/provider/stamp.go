package provider

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// A stamp is the time at which an event was handed to the socket: nanoseconds since 1970 in decimal, between two
// tildes. It passes through every translation as text, so that who reads the event knows how long it traveled.
const (
	stampMark  = '~'
	StampSize  = 21 // bytes: 19 digits and two marks
	blankStamp = "~0000000000000000000~"
	stampEvery = 20 // deltas: what remembers and indexes texts is to get words, and few numbers
)

// stampedText is made-up text for n deltas of StampSize bytes, with a blank stamp in every twentieth, the first included.
func stampedText(n int) string {
	words := madeUpText(n * StampSize)
	var b strings.Builder
	b.Grow(len(words))
	for i := range n {
		if i%stampEvery == 0 {
			b.WriteString(blankStamp)
		} else {
			b.WriteString(words[i*StampSize : (i+1)*StampSize])
		}
	}
	return b.String()
}

// fillStamps writes the time into all blank stamps of b.
func fillStamps(b []byte) {
	now := time.Now().UnixNano()
	for {
		i := bytes.Index(b, []byte(blankStamp))
		if i < 0 {
			return
		}
		strconv.AppendInt(b[i+1:i+1], now, 10)
		b = b[i+StampSize:]
	}
}

// ReadStamp finds the first stamp in b and gives its time and what follows it.
func ReadStamp(b []byte) (at time.Time, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(b, stampMark)
		if i < 0 || len(b)-i < StampSize {
			return time.Time{}, nil, false
		}
		if b[i+StampSize-1] == stampMark {
			if n, err := strconv.ParseInt(string(b[i+1:i+StampSize-1]), 10, 64); err == nil {
				return time.Unix(0, n), b[i+StampSize:], true
			}
		}
		b = b[i+1:]
	}
}
