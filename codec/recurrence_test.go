package codec_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// tools is a list of the size of an agent's.
var tools = "[" + strings.Repeat(`{"type":"function","name":"read","description":"reads \"one\" file","parameters":{"type":"object"}},`, 500) + "null]"

func TestAValueThatRecursEndsWhereItsBytesSay(t *testing.T) {
	var known codec.Recurrence
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		doc := []byte(`{"tools":` + tools + `}`)
		switch random.IntN(4) {
		case 0: // the same again
		case 1:
			doc = doc[:random.IntN(len(doc))]
		case 2:
			doc[random.IntN(len(doc))] = `"\[]{},:x`[random.IntN(9)]
		case 3:
			cut := 9 + random.IntN(len(doc)-9)
			doc = append(doc[:cut:cut], doc[min(cut+random.IntN(200), len(doc)):]...)
		}
		at := min(9, len(doc))
		end, ok := known.Skip("acct_1", doc, at)
		want, valid := scan.SkipValid(doc, at)
		if ok != valid || ok && end != want {
			t.Fatalf("ends at %d, %t; want %d, %t", end, ok, want, valid)
		}
	}
}

func BenchmarkRecurringTools(b *testing.B) {
	doc := []byte(`{"tools":` + tools + `}`)
	for _, account := range []string{"", "acct_1"} {
		b.Run("account="+account, func(b *testing.B) {
			var known codec.Recurrence
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if end, ok := known.Skip(account, doc, 9); !ok || end != len(doc)-1 {
					b.Fatal("not read")
				}
			}
		})
	}
}
