package short

import "encoding/binary"

// lengths is the length in bits of each byte's code, in hexadecimal. The code is a canonical Huffman code: codes of one length
// ascend with the byte, and follow the shorter ones. The lengths come from English prose, partly in JSON, with the bytes
// of steps.
const lengths = "" +
	"cccccccccc9ccccccccccccccccccccc" +
	"3b89bbba889b6868888888888879b9bb" +
	"b9aaa9bababaaaaaaba99ababbb878b8" +
	"7475546655a766456954467787a878bc" +
	"9cccccccccccccccccc9accccccc9ccc" +
	"cccccccccccccccccccccccccccccccc" +
	"ccc8cccccccccccccccccccccccccccc" +
	"cc8ccccccccccccccccccccccccccccc"

// mostBits is the length of the longest code.
const mostBits = 12

var codes, decoded = makeCodes()

// code is the code of a byte, and its length in bits.
type code struct {
	bits   uint16
	length uint8
}

// symbol is the byte whose code the next bits begin with, and the length of the code.
type symbol struct{ value, length uint8 }

func makeCodes() (codes [256]code, decoded [1 << mostBits]symbol) {
	next := 0 // in decoded, which is filled from the shortest codes to the longest
	for length := 1; length <= mostBits; length++ {
		for b := range lengths {
			if lengthOf(lengths[b]) != length {
				continue
			}
			codes[b] = code{uint16(next >> (mostBits - length)), uint8(length)}
			for range 1 << (mostBits - length) {
				decoded[next] = symbol{uint8(b), uint8(length)}
				next++
			}
		}
	}
	return codes, decoded
}

func lengthOf(digit byte) int {
	if digit >= 'a' {
		return int(digit-'a') + 10
	}
	return int(digit - '0')
}

// appendBits appends the codes of b, highest bit first, and fills the last byte with zeros.
func appendBits(dst, b []byte) []byte {
	var bits uint64 // the lowest held bits are not appended yet
	held := 0
	for _, c := range b {
		code := codes[c]
		bits = bits<<code.length | uint64(code.bits)
		if held += int(code.length); held >= 32 {
			held -= 32
			dst = binary.BigEndian.AppendUint32(dst, uint32(bits>>held))
		}
	}
	for ; held > 0; held -= 8 {
		dst = append(dst, byte(bits<<8>>held))
	}
	return dst
}

// appendSymbols appends the n bytes that bits stand for. It reports whether there are exactly as many.
func appendSymbols(dst, bits []byte, n int) ([]byte, bool) {
	var word uint64 // the next bits are its highest
	held := 0
	for ; n > 0; n-- {
		for held < mostBits && len(bits) > 0 {
			word |= uint64(bits[0]) << (56 - held)
			bits = bits[1:]
			held += 8
		}
		s := decoded[word>>(64-mostBits)]
		if held -= int(s.length); held < 0 {
			return dst, false
		}
		word <<= s.length
		dst = append(dst, s.value)
	}
	return dst, len(bits) == 0 && held < 8 && word == 0
}
