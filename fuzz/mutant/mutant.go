// Package mutant makes every `go test` run of a fuzz target fuzz a little, deterministically: it mutates each input of
// the corpus a few times, seeded by the input itself. So a finding reproduces on every machine. `go test -fuzz` is
// unaffected.
package mutant

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"reflect"
	"testing"
)

// Each returns a function for [testing.F.Fuzz] that calls target, a func(*testing.T, ...) as for Fuzz, with each input
// of the corpus and with n variants of it. The target must not skip inputs by t.Skip, which would skip the variants
// too.
func Each[Target any](n int, target Target) Target {
	if fuzzing() {
		doNotMinimize()
		return target
	}
	f := reflect.ValueOf(target)
	return reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
		f.Call(args)
		t := args[0].Interface().(*testing.T)
		random := rand.New(rand.NewPCG(seed(args[1:]), 0)) //nolint:gosec // the same variants in every run
		for range n {
			if t.Failed() {
				return nil
			}
			try(t, f, mutate(random, args))
		}
		return nil
	}).Interface().(Target)
}

// fuzzing reports whether the engine of `go test -fuzz` chooses the inputs, in the main process or in its workers.
func fuzzing() bool {
	return flag.Lookup("test.fuzz").Value.String() != ""
}

// doNotMinimize keeps the engine from spending a minute on each new input. Targets with a store have goroutines of their own,
// so nearly every input looks new, and none would be tried.
func doNotMinimize() {
	const name = "test.fuzzminimizetime"
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
	if !given {
		_ = flag.Set(name, "10x")
	}
}

// try logs the variant on which the target failed, because the name of the test does not identify it.
func try(t *testing.T, target reflect.Value, args []reflect.Value) {
	passed := false
	defer func() {
		if !passed || t.Failed() {
			t.Logf("the input was changed: %s", describe(args[1:]))
		}
	}()
	target.Call(args)
	passed = true
}

// describe writes values in the form of files in testdata/fuzz.
func describe(values []reflect.Value) (text string) {
	for _, v := range values {
		text += fmt.Sprintf("\n%s(%#v)", v.Type(), v.Interface())
		if b, ok := v.Interface().([]byte); ok {
			text = text[:len(text)-len(fmt.Sprintf("%#v)", b))] + fmt.Sprintf("%q)", b)
		}
	}
	return text
}

func seed(values []reflect.Value) uint64 {
	sum := fnv.New64a()
	for _, v := range values {
		_, _ = fmt.Fprintf(sum, "%v\x00", v.Interface())
	}
	return sum.Sum64()
}

// mutate changes one of the arguments except the test itself. Slices are copied.
func mutate(random *rand.Rand, args []reflect.Value) []reflect.Value {
	changed := append([]reflect.Value(nil), args...)
	at := 1 + random.IntN(len(args)-1)
	for i, v := range args[1:] {
		var is any
		switch was := v.Interface().(type) {
		case []byte:
			b := append([]byte{}, was...)
			if i+1 == at {
				b = mutateBytes(random, b)
			}
			is = b
		case string:
			is = was
			if i+1 == at {
				is = string(mutateBytes(random, []byte(was)))
			}
		case bool:
			is = was != (i+1 == at)
		default:
			n := reflect.New(v.Type()).Elem()
			n.Set(v)
			if i+1 == at {
				mutateInteger(random, n)
			}
			is = n.Interface()
		}
		changed[i+1] = reflect.ValueOf(is)
	}
	return changed
}

func mutateInteger(random *rand.Rand, n reflect.Value) {
	var by int64
	if random.IntN(2) == 0 {
		by = int64(random.IntN(9)) - 4
	} else {
		by = random.Int64N(1 << min(62, n.Type().Bits()-1))
	}
	if n.CanInt() {
		n.SetInt(n.Int() + by)
		return
	}
	n.SetUint(n.Uint() + uint64(by))
}

// tokens have a meaning in the formats under test.
var tokens = []string{
	"\r\n", "\n", "\n\n", "data: ", "event: ", "[DONE]", "{", "}", "[", "]", "\"", "\\", "\\u0000", "\\ud83d", "null", "true",
	"-1", "1e999", "18446744073709551616", ":", ",", "\x00", "\xff", "\xe2\x80", "\u2028", "0", "tool_calls", "type", "content",
}

// mutateBytes makes one to four changes.
func mutateBytes(random *rand.Rand, b []byte) []byte {
	for range 1 + random.IntN(4) {
		if len(b) == 0 {
			b = append(b, tokens[random.IntN(len(tokens))]...)
			continue
		}
		at := random.IntN(len(b))
		end := min(len(b), at+1+random.IntN(1+random.IntN(32)))
		switch random.IntN(8) {
		case 0: // a bit
			b[at] ^= 1 << random.IntN(8)
		case 1: // a byte
			b[at] = byte(random.Uint32())
		case 2: // cut
			b = b[:at]
		case 3: // shorten
			b = append(b[:at], b[end:]...)
		case 4: // twice
			b = insert(b, end, string(b[at:end]))
		case 5: // somewhere else
			part := string(b[at:end])
			b = append(b[:at], b[end:]...)
			b = insert(b, random.IntN(len(b)+1), part)
		default:
			b = insert(b, at, tokens[random.IntN(len(tokens))])
		}
	}
	return b
}

func insert(b []byte, at int, text string) []byte {
	return append(b[:at:at], append([]byte(text), b[at:]...)...)
}
