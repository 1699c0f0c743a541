package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/cputime"
	"github.com/mnemeproxy/mneme/store/record"
)

// BenchmarkReplay puts back what was recalled in the earlier turns of a request of 200 KB, whose messages the proxy has seen
// before: five texts of 1.6 KB, which is all that one conversation is given, and silence at the other turns.
func BenchmarkReplay(b *testing.B) {
	const (
		size  = 200_000
		texts = 5
	)
	for _, shape := range []struct{ turns, calls int }{{10, 9}, {50, 0}} {
		b.Run(fmt.Sprintf("%d turns of %d calls", shape.turns, shape.calls), func(b *testing.B) {
			h := build(b)
			exchange := h.post(messages.path, messages.body("", false)).exchange()
			h.settled(exchange)
			var items []string
			each := size / (shape.turns * (2 + 2*shape.calls))
			for turn := range shape.turns {
				said := quoted(fmt.Sprint(turn, strings.Repeat(" and so on", each/10)))
				items = append(items, `{"role":"user","content":`+said+`}`)
				for call := range shape.calls {
					id := fmt.Sprintf("toolu_%d_%d", turn, call)
					items = append(items, fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"run","input":{"command":%s}}]}`, id, said),
						fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%s}]}`, id, said))
				}
				items = append(items, `{"role":"assistant","content":`+said+`}`)
			}
			body := []byte(`{"model":"m","max_tokens":100,"messages":[` + strings.Join(append(items, `{"role":"user","content":"Go on."}`), ",") + `]}`)
			replay, err := h.proxy.Replaying(b.Context(), "acme", body, func(turn int) record.Recollection {
				if turn < texts {
					return record.Recollection{Exchange: exchange, Quotes: []string{exchange}, Text: "<mneme-recall>\n" + strings.Repeat("It was the lease. ", 90) + "\n</mneme-recall>", Tokens: 400}
				}
				return record.Recollection{Exchange: exchange, Reason: "coverage"}
			})
			ok(b, err)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			before := cputime.Used()
			for b.Loop() {
				if n := replay(); n != texts {
					b.Fatalf("%d texts were put back, want %d", n, texts)
				}
			}
			b.ReportMetric(float64(cputime.Used()-before)/float64(b.N), "cpu-ns/op") // of the whole process, the collector's included
		})
	}
}
