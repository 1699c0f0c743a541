package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// The first byte of a block, of an answer's part or of a turn says how the rest is encoded.
const (
	encodingRaw    = 0
	encodingZstd   = 1
	encodingPieces = 2 // blocks only: pieces, none of them a node
	encodingFrames = 3 // parts of answers only: frames, see frames.go

	encodingTurn      = 4 // turns only, see turn_value.go
	encodingContinued = 5 // likewise
)

const (
	compressFrom = 1 << 10 // bytes; what is shorter loses a quarter at most, and each takes about 8 µs
	maxDecoded   = 1 << 30 // bytes one value may decode to
)

var (
	compressor   = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)))
	decompressor = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxDecoded)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // options that do not fit together: a mistake in this file
	}
	return v
}

func encodeBytes(raw []byte) []byte { return appendEncoded(nil, raw) }

func appendEncoded(dst, raw []byte) []byte {
	if len(raw) >= compressFrom {
		packed := compressor.EncodeAll(raw, append(slices.Grow(dst, len(raw)/2+64), encodingZstd))
		if len(packed)-len(dst) < len(raw) {
			return packed
		}
	}
	return append(append(slices.Grow(dst, 1+len(raw)), encodingRaw), raw...)
}

// appendDecoded appends what encodeBytes or encodeAnswer was given.
func appendDecoded(dst, value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, errors.New("empty value")
	}
	switch value[0] {
	case encodingRaw:
		return append(dst, value[1:]...), nil
	case encodingZstd:
		return decompressor.DecodeAll(value[1:], dst)
	case encodingFrames:
		return appendFrames(dst, value[1:])
	}
	return nil, fmt.Errorf("unknown encoding %d", value[0])
}
