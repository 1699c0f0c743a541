package embeddings

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unsafe"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// appendNumbers reads an array of numbers. ok is false unless all are finite numbers that fit 32 bits, and no more than
// a vector can have.
func appendNumbers(dst []float32, array []byte) ([]float32, bool) {
	if !scan.IsArray(array) {
		return dst, false
	}
	for e := scan.Array(array); e.Next(); {
		if !scan.IsNumber(e.Value) || len(dst) == maxDimensions {
			return dst, false
		}
		// ParseFloat needs a string and does not keep it, so the bytes are passed without a copy, which would cost more
		// than reading the number.
		v, err := strconv.ParseFloat(unsafe.String(unsafe.SliceData(e.Value), len(e.Value)), 32)
		if err != nil {
			return dst, false
		}
		dst = append(dst, float32(v))
	}
	return dst, true
}

// appendBase64 reads the body of a string that holds little-endian 32-bit floats in base64.
func (p *Plan) appendBase64(dst []float32, body []byte) ([]float32, bool) {
	if bytes.IndexByte(body, '\\') >= 0 { // an escaped slash
		body = scan.Unescape(nil, body)
	}
	size := base64.StdEncoding.DecodedLen(len(body))
	p.bytes = slices.Grow(p.bytes[:0], size)[:size]
	n, err := base64.StdEncoding.Decode(p.bytes, body)
	if err != nil || n%4 != 0 || n/4 > maxDimensions {
		return dst, false
	}
	for raw := p.bytes[:n]; len(raw) > 0; raw = raw[4:] {
		v := math.Float32frombits(binary.LittleEndian.Uint32(raw))
		if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
			return dst, false
		}
		dst = append(dst, v)
	}
	return dst, true
}

// appendVector writes numbers in the shortest form that reads back as the same 32-bit float.
func appendVector(dst []byte, vector []float32) []byte {
	dst = append(dst, '[')
	for i, v := range vector {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendFloat(dst, float64(v), 'g', -1, 32)
	}
	return append(dst, ']')
}

// appendBase64Vector writes little-endian 32-bit floats in standard base64, as a string.
func appendBase64Vector(dst []byte, vector []float32) []byte {
	dst = append(dst, '"')
	// Three floats are twelve bytes and sixteen characters, without padding: all groups except the last are written
	// that way.
	var group [12]byte
	for len(vector) > 0 {
		n := min(len(vector), 3)
		for i, v := range vector[:n] {
			binary.LittleEndian.PutUint32(group[4*i:], math.Float32bits(v))
		}
		dst = base64.StdEncoding.AppendEncode(dst, group[:4*n])
		vector = vector[n:]
	}
	return append(dst, '"')
}
