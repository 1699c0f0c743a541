package gemini

import (
	"bytes"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// foreign marks the signatures that answers of other providers' models were given here.
var foreign = append([]byte{'"'}, tokenMark...)

// clean removes state tokens, which Google would refuse as corrupted signatures. A call keeps the value that stands for
// another provider's model.
func clean(c *codec.Cleaner, body []byte) []byte {
	return scan.AppendMembers(make([]byte, 0, len(body)), body, func(dst []byte, m *scan.Members) ([]byte, bool) {
		dst = append(dst, body[m.Start:m.End]...)
		if string(m.Key) != "contents" || !bytes.Contains(m.Value, foreign) {
			return dst, true
		}
		dst = dst[:len(dst)-len(m.Value)]
		dst, _ = scan.AppendElements(dst, m.Value, func(dst, content []byte) ([]byte, bool) {
			return cleanContent(c, dst, content), true
		})
		return dst, true
	})
}

func cleanContent(c *codec.Cleaner, dst, content []byte) []byte {
	return scan.AppendMembers(dst, content, func(dst []byte, m *scan.Members) ([]byte, bool) {
		dst = append(dst, content[m.Start:m.End]...)
		if string(m.Key) != "parts" || !bytes.Contains(m.Value, foreign) {
			return dst, true
		}
		dst = dst[:len(dst)-len(m.Value)]
		dst, _ = scan.AppendElements(dst, m.Value, func(dst, part []byte) ([]byte, bool) {
			return cleanPart(c, dst, part), true
		})
		return dst, true
	})
}

func cleanPart(c *codec.Cleaner, dst, part []byte) []byte {
	p := readPart(part)
	if !bytes.HasPrefix(p.signature, tokenMark) {
		return append(dst, part...)
	}
	c.Drop(members.Reasoning)
	return scan.AppendMembers(dst, part, func(dst []byte, m *scan.Members) ([]byte, bool) {
		var spelled [48]byte
		switch {
		case string(name(&spelled, m.Key)) != "thoughtSignature":
			return append(dst, part[m.Start:m.End]...), true
		case p.call != nil && c.Target.NeedsSignature:
			return append(append(dst, part[m.Start:m.End-len(m.Value)]...), `"`+anySignature+`"`...), true
		}
		return dst, false
	})
}
