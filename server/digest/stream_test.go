package digest_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/server/digest"
	"github.com/mnemeproxy/mneme/store"
)

// An answer that was read on its way to the store, in whatever stretches, is digested as one that is read back.
func TestAnAnswerThatWasReadWhileItWasStoredIsDigestedAlike(t *testing.T) {
	for name, x := range exchanges {
		if !strings.HasSuffix(name, "streamed") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			want, err := digest.Exchange(x)
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				read := *x
				read.Reader = digest.Stream(x.Surface)
				var texts bytes.Buffer
				for at, end := int64(0), int64(0); end < int64(len(x.RawResponse)); {
					end = rapid.Int64Range(max(at, end)+1, int64(len(x.RawResponse))).Draw(t, "end")
					at = read.Reader.Read(x.RawResponse[at:end], at, func(_ int32, start int64, fragment []byte) {
						if !bytes.HasPrefix(x.RawResponse[start:], fragment) {
							t.Fatalf("%q does not stand at %d", fragment, start)
						}
						texts.Write(fragment)
					})
				}
				if texts.String() != "There are 3." {
					t.Fatalf("the fragments of texts are %q", texts.String())
				}
				got, err := digest.Exchange(&read)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Fatal(diff)
				}
			})
		})
	}
}

// The rest of an event whose front was passed over is no event, and what comes behind it is read. Such an answer is read
// again to be digested.
func TestTheRestOfALongEventIsPassedOver(t *testing.T) {
	x := exchanges["messages, streamed"]
	answer := string(x.RawResponse)
	read := *x
	read.Reader = digest.Stream(x.Surface)
	begun := strings.Index(answer, "event: content_block_delta")
	torn := begun + len("event: cont")
	whole := read.Reader.Read([]byte(answer[:torn]), 0, func(int32, int64, []byte) { t.Error("there is no text yet") })
	if whole != int64(begun) {
		t.Fatalf("the last whole event ends at %d, not %d", whole, begun)
	}
	whole = read.Reader.Read([]byte(answer[torn:]), int64(torn), func(_ int32, _ int64, fragment []byte) { t.Errorf("%q is the text of half an event", fragment) })
	if whole != int64(len(answer)) {
		t.Fatalf("the last whole event ends at %d of %d", whole, len(answer))
	}
	var d store.Digest
	var err error
	if d, err = digest.Exchange(&read); err != nil {
		t.Fatal(err)
	}
	want, err := digest.Exchange(x)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Error(diff)
	}
}
