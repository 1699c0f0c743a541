package record

import (
	"testing"
	"time"
)

// BenchmarkRecord is the record of an exchange with an agent, written and read.
func BenchmarkRecord(b *testing.B) {
	now := time.Unix(1_800_000_000, 5).UTC()
	info := ExchangeInfo{
		ID: "exch_01k3n8m2f0c9h7q6r5s4t3v2w1", Account: "acme", KeyID: "key_7f3a", Outcome: OutcomeComplete, Started: now, FirstByte: now,
		LastByte: now, Status: 200, Surface: "messages", Format: "messages", Provider: "anthropic", Stream: true,
		ModelAsked: "claude-sonnet-5", ModelSent: "claude-sonnet-5", ModelServed: "claude-sonnet-5-20260801", NativeSession: "b7e1c9d0",
		Usage:        UsageInfo{InputUncached: 12, CacheRead: 48_000, CacheWrite: 900, Output: 310},
		FinishReason: "tool_use", ResponseID: "msg_01", ProviderReqID: "req_01", Project: "/home/ada/mneme",
		Header:      []HeaderField{{Name: "User-Agent", Value: "claude-cli/2.1"}, {Name: "Anthropic-Version", Value: "2023-06-01"}},
		RequestType: "application/json", ResponseType: "text/event-stream", RequestSize: 180_000, ResponseSize: 4_100,
		Cost: &Cost{USD: 21_000_000, Saved: 120_000_000, Price: "claude-sonnet-5"},
	}
	b.Run("write", func(b *testing.B) {
		var record []byte
		for b.Loop() {
			record = Append(record[:0], &info)
		}
	})
	b.Run("read", func(b *testing.B) {
		record := Encode(&info)
		for b.Loop() {
			var got ExchangeInfo
			if err := Decode(record, &got); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("sizes", func(b *testing.B) {
		record := Encode(&info)
		for b.Loop() {
			var got ExchangeSizes
			if err := Decode(record, &got); err != nil || got.Request == 0 {
				b.Fatal(err)
			}
		}
	})
}
