package crossing

import (
	"crypto/sha256"

	"github.com/mnemeproxy/mneme/codec"
)

// nameMap maps a provider's tool names to the client's. It holds views of the request.
type nameMap struct {
	sent      map[string]string   // client's name → provider's, if different
	original  map[string]original // provider's name → the client's
	qualified map[string]original // flattened name → namespace and name
}

type original struct {
	namespace, name []byte
	flat            []byte // both joined as one name, before it was made legal
}

// qualify remembers the namespace and name of a flattened name.
func (n *nameMap) qualify(flat, namespace, name []byte) {
	n.qualified[view(flat)] = original{namespace: namespace, name: name}
}

// declare gives every name of the request a legal name by the rule of the format. The result depends only on the set of
// names: the same tools get the same names in every turn. A legal name is kept; of names that are equal after cleaning,
// all except an exact match get a hash (docs/wire/translation.md#4.3).
func (n *nameMap) declare(format codec.NameRule, names [][]byte) {
	rule := nameRule(format)
	n.sent, n.original = make(map[string]string), make(map[string]original, len(names)/2)
	wanted := make(map[string]int)
	var unclean [][]byte
	for _, name := range names {
		if rule.legal(name) {
			if _, known := n.original[view(name)]; !known {
				n.lead(name, view(name))
			}
			continue
		}
		if _, known := n.sent[view(name)]; !known {
			n.sent[view(name)] = ""
			unclean = append(unclean, name)
			wanted[rule.clean(name)]++
		}
	}
	for _, name := range unclean {
		clean := rule.clean(name)
		isLegal := string(n.original[clean].flat) == clean // of a legal name
		if isLegal || wanted[clean] > 1 || len(clean) > rule.Max {
			clean = rule.hashed(clean, name)
		}
		n.sent[view(name)] = clean
		n.lead(name, clean)
	}
}

// lead maps a provider's name to the client's.
func (n *nameMap) lead(name []byte, sent string) {
	back := original{name: name}
	if q, ok := n.qualified[view(name)]; ok {
		back = q
	}
	back.flat = name
	n.original[sent] = back
}

// nameRule applies a format's rule for tool names.
type nameRule codec.NameRule

func (r nameRule) takes(c byte) bool {
	if isWord(c) || c == '-' {
		return true
	}
	for i := range len(r.Extra) {
		if r.Extra[i] == c {
			return true
		}
	}
	return false
}

func isWord(c byte) bool {
	return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9'
}

func startsName(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

func (r nameRule) legal(name []byte) bool {
	if len(name) == 0 || len(name) > r.Max || r.Letter && !startsName(name[0]) {
		return false
	}
	for _, c := range name {
		if !r.takes(c) {
			return false
		}
	}
	return true
}

func (r nameRule) clean(name []byte) string {
	clean := make([]byte, 0, len(name)+1)
	if len(name) == 0 || r.Letter && !startsName(name[0]) {
		clean = append(clean, '_')
	}
	for _, c := range name {
		if !r.takes(c) {
			c = '_'
		}
		clean = append(clean, c)
	}
	return string(clean)
}

// hashLength is the length of the hash after a name that had to be shortened or made unique.
const hashLength = 8

func (r nameRule) hashed(clean string, name []byte) string {
	keep := min(len(clean), r.Max-hashLength-1)
	return clean[:keep] + "_" + base62(sha256.Sum256(name), hashLength)
}

// base62 writes the first n digits of a hash.
func base62(hash [sha256.Size]byte, n int) string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	out := make([]byte, n)
	for i := range out {
		// Two bytes per digit: the bias of the remainder is below a thousandth.
		out[i] = digits[(int(hash[(2*i)%len(hash)])<<8|int(hash[(2*i+1)%len(hash)]))%len(digits)]
	}
	return string(out)
}

func clone(b []byte) []byte {
	if b == nil {
		return nil
	}
	return append([]byte{}, b...)
}
