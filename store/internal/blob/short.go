package blob

import (
	"bytes"

	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/short"
)

// Answers that are too small to compress, and skeletons of small requests, which contain the request, are stored as short
// texts. Only this store's own files have them: other stores send and receive the plain form.

// encodeShort encodes a short text, with its first byte. It returns nil if that saves too little.
func encodeShort(text []byte) []byte {
	if len(text) > short.Most {
		return nil
	}
	room := append(buffer.Get(1+len(text)), encodingShort)
	defer func() { buffer.Put(room) }()
	var ok bool
	if room, ok = short.Append(room, text); !ok {
		return nil
	}
	return bytes.Clone(room)
}

// encodeSmall encodes a part of an answer of less than compressFrom bytes.
func encodeSmall(part []byte) []byte {
	if value := encodeShort(part); value != nil {
		return value
	}
	return Encode(part)
}

// PlainSkeleton returns a skeleton of [Version].
func PlainSkeleton(skeleton []byte) ([]byte, error) {
	if len(skeleton) == 0 || skeleton[0] != encodingShort {
		return skeleton, nil
	}
	return short.AppendDecoded([]byte{Version}, skeleton[1:])
}

// IsPlain reports whether an encoded part of an answer is in an encoding that stores of every version read.
func IsPlain(value []byte) bool { return len(value) > 0 && value[0] <= EncodingFrames }

// PlainPart returns an encoded part of an answer in an encoding that stores of every version read.
func PlainPart(value []byte) ([]byte, error) {
	if len(value) == 0 || value[0] != encodingShort {
		return value, nil
	}
	return short.AppendDecoded([]byte{EncodingRaw}, value[1:])
}

// piecesOf returns the list of pieces of a skeleton.
func piecesOf(skeleton []byte) (list []byte, err error) {
	if skeleton, err = PlainSkeleton(skeleton); err != nil {
		return nil, err
	}
	if len(skeleton) == 0 || skeleton[0] != Version {
		return nil, errVersion
	}
	return skeleton[1:], nil
}
