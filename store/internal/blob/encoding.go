package blob

import (
	"errors"
	"fmt"
	"slices"

	"github.com/klauspost/compress/zstd"

	"github.com/mnemeproxy/mneme/store/internal/short"
)

// The first byte of a block or of an answer's part is its encoding. Other values encoded with [Encode] have first bytes
// of their own, from 4 to 6 and from 8 to 15.
const (
	EncodingRaw    = 0
	encodingZstd   = 1
	encodingPieces = 2 // blocks only: pieces, none of them a node
	EncodingFrames = 3 // parts of answers only: frames, see frames.go
	encodingShort  = 7 // parts of answers, and skeletons in place of their version: a short text, see short.go
)

const (
	compressFrom = 1 << 10 // bytes; shorter values would save at most a quarter, and each takes about 8 µs

	// MaxDecoded is how many bytes one value may decode to.
	MaxDecoded = 1 << 30
)

var (
	compressor   = must(zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true)))
	decompressor = must(zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(MaxDecoded)))
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err) // incompatible options: a mistake in this file
	}
	return v
}

// Encode encodes bytes, compressed if that makes them shorter.
func Encode(raw []byte) []byte { return AppendEncoded(nil, raw) }

// AppendEncoded appends the result of [Encode].
func AppendEncoded(dst, raw []byte) []byte {
	if len(raw) >= compressFrom {
		packed := compressor.EncodeAll(raw, append(slices.Grow(dst, roomToEncode(len(raw))), encodingZstd))
		if len(packed)-len(dst) < len(raw) {
			return packed
		}
	}
	return append(append(slices.Grow(dst, 1+len(raw)), EncodingRaw), raw...)
}

// roomToEncode returns how many bytes the result of [Encode] seldom exceeds.
func roomToEncode(size int) int { return size/2 + 64 }

// AppendDecoded appends the input of [Encode] or [EncodeAnswer].
func AppendDecoded(dst, value []byte) ([]byte, error) {
	if len(value) == 0 {
		return nil, errors.New("empty value")
	}
	switch value[0] {
	case EncodingRaw:
		return append(dst, value[1:]...), nil
	case encodingZstd:
		return decompressor.DecodeAll(value[1:], dst)
	case EncodingFrames:
		return appendFrames(dst, value[1:])
	case encodingShort:
		return short.AppendDecoded(dst, value[1:])
	}
	return nil, fmt.Errorf("unknown encoding %d", value[0])
}

// AppendStored appends the stored form of an answer's part before compression: its bytes, or its separated frames, in
// which the text of many events is contiguous.
func AppendStored(dst, value []byte) ([]byte, error) {
	if isFrames(value) {
		value = value[1:]
	}
	return AppendDecoded(dst, value)
}

// isFrames reports whether a part of an answer is stored as separated frames.
func isFrames(value []byte) bool { return len(value) > 0 && value[0] == EncodingFrames }
