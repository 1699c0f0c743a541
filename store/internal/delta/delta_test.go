package delta

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func roundTrip(t rapid.TB, source, target []byte) (steps []byte) {
	t.Helper()
	index := NewIndex(source)
	defer index.Release()
	steps = index.Append(nil, target)
	got, err := AppendDecoded(nil, steps, source, len(target))
	if err != nil || !bytes.Equal(got, target) {
		t.Fatalf("%q of %q came back as %q (%v)", target, source, got, err)
	}
	return steps
}

func TestWhatStandsInTheSourceTakesAFewBytes(t *testing.T) {
	text := strings.Repeat("The lease of shard 7 was lost at 12:03.\nIts holder had been paused, and \"came back\" late.\n", 1)
	source, err := json.Marshal(map[string]string{"role": "user", "content": text})
	if err != nil {
		t.Fatal(err)
	}
	if steps := roundTrip(t, source, []byte(text)); len(steps) > len(text)/3 {
		t.Errorf("%d bytes became %d", len(text), len(steps))
	}
}

func TestWhatDoesNotStandInTheSourceIsKept(t *testing.T) {
	for _, source := range []string{"", "short", "something of no use whatever"} {
		for _, target := range []string{"", "a", "eight by", "quite other bytes that stand nowhere else"} {
			roundTrip(t, []byte(source), []byte(target))
		}
	}
}

func TestWhatIsEncodedComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source := rapid.SliceOfN(rapid.ByteRange('a', 'd'), 0, 300).Draw(t, "source")
		target := rapid.SliceOfN(rapid.ByteRange('a', 'd'), 0, 40).Draw(t, "target")
		for range rapid.IntRange(0, 4).Draw(t, "stretches") {
			from := rapid.IntRange(0, len(source)).Draw(t, "from")
			target = append(target, source[from:rapid.IntRange(from, len(source)).Draw(t, "to")]...)
		}
		roundTrip(t, source, target)
	})
}

func TestNoStepsGiveMoreThanIsWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const most = 100
		source := make([]byte, rapid.IntRange(0, 2*most).Draw(t, "source"))
		if got, err := AppendDecoded(nil, rapid.SliceOf(rapid.Byte()).Draw(t, "steps"), source, most); err == nil && len(got) > most {
			t.Errorf("there are %d bytes", len(got))
		}
	})
}

func TestStepsOfAnotherSourceAreRefused(t *testing.T) {
	source := []byte("what is said in the request of the exchange")
	steps := roundTrip(t, source, source)
	if got, err := AppendDecoded(nil, steps, source[:10], 1<<10); err == nil {
		t.Errorf("they gave %q", got)
	}
	if got, err := AppendDecoded(nil, steps, source, 10); err == nil {
		t.Errorf("more than is wanted was given: %q", got)
	}
}

func BenchmarkAppend(b *testing.B) {
	source := []byte(strings.Repeat("some text of a request that is not the same everywhere 0123456789. ", 20))
	for i := range source {
		if i%13 == 0 {
			source[i] = byte('a' + i%26)
		}
	}
	target := source[300:1000]
	b.ReportAllocs()
	var steps []byte
	for b.Loop() {
		index := NewIndex(source)
		steps = index.Append(steps[:0], target)
		index.Release()
	}
}
