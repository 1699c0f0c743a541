package router

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// recordedUsages are usage objects as providers send them, with what they cost: each kind of tokens times its price on that
// day by the maker's page, worked out by hand. A model may have the service tier of the answer behind a slash.
var recordedUsages = []struct {
	format, model, day, usage, dollars string
}{
	{"messages", "claude-opus-5-5", "2026-11-20", `{"input_tokens":1000,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":500,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.014"},
	{"messages", "claude-opus-5-5", "2026-11-20", `{"input_tokens":12,"cache_read_input_tokens":151000,"cache_creation_input_tokens":800,"output_tokens":1200,"cache_creation":{"ephemeral_5m_input_tokens":800,"ephemeral_1h_input_tokens":0}}`, "0.058248"},
	{"messages", "claude-opus-5-5", "2026-11-20", `{"input_tokens":12,"cache_read_input_tokens":0,"cache_creation_input_tokens":90000,"output_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":90000}}`, "0.720248"},
	{"messages", "claude-opus-5-5", "2026-11-20", `{"input_tokens":3,"cache_read_input_tokens":40000,"cache_creation_input_tokens":3000,"output_tokens":700,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":2000}}`, "0.043012"},
	{"messages", "claude-opus-5-5", "2026-11-20", `{"input_tokens":3,"cache_read_input_tokens":0,"cache_creation_input_tokens":5000,"output_tokens":7}`, "0.025152"}, // no split of what was written: the shorter time
	{"messages", "claude-opus-5-5-20260922", "2026-11-20", `{"input_tokens":1000,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.00402"},
	{"messages", "claude-opus-5", "2026-11-20", `{"input_tokens":1000,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":500,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.0175"},
	{"messages", "claude-opus-5", "2026-11-20", `{"input_tokens":130213,"cache_read_input_tokens":130000,"cache_creation_input_tokens":0,"output_tokens":42,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.717115"}, // input is beside what caches read
	{"messages", "claude-opus-4-8", "2026-11-20", `{"input_tokens":2,"cache_read_input_tokens":18000,"cache_creation_input_tokens":300,"output_tokens":210,"cache_creation":{"ephemeral_5m_input_tokens":300,"ephemeral_1h_input_tokens":0}}`, "0.016135"},
	{"messages", "claude-opus-4-7", "2026-11-20", `{"input_tokens":100,"cache_read_input_tokens":0,"cache_creation_input_tokens":100,"output_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":100}}`, "0.004"},
	{"messages", "claude-opus-4-5-20251101", "2026-11-20", `{"input_tokens":100,"cache_read_input_tokens":10,"cache_creation_input_tokens":0,"output_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"service_tier":"batch"}`, "0.0015025"},
	{"messages", "claude-opus-4-1-20250805", "2026-11-20", `{"input_tokens":1000,"cache_read_input_tokens":500,"cache_creation_input_tokens":250,"output_tokens":125,"cache_creation":{"ephemeral_5m_input_tokens":250,"ephemeral_1h_input_tokens":0}}`, "0.0298125"},
	{"messages", "claude-opus-4-20250514", "2026-11-20", `{"input_tokens":10,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.000225"},
	{"messages", "claude-sonnet-5-5", "2026-11-20", `{"input_tokens":700,"cache_read_input_tokens":7000,"cache_creation_input_tokens":70,"output_tokens":77,"cache_creation":{"ephemeral_5m_input_tokens":70,"ephemeral_1h_input_tokens":0}}`, "0.003045"},
	{"messages", "claude-sonnet-5-5", "2026-10-06", `{"input_tokens":700,"cache_read_input_tokens":7000,"cache_creation_input_tokens":70,"output_tokens":77,"cache_creation":{"ephemeral_5m_input_tokens":70,"ephemeral_1h_input_tokens":0}}`, "0.003745"}, // reading from caches became cheaper on 7 October
	{"messages", "claude-sonnet-5", "2026-11-20", `{"input_tokens":1,"cache_read_input_tokens":1,"cache_creation_input_tokens":2,"output_tokens":1,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":1}}`, "0.0000187"},
	{"messages", "claude-sonnet-4-6", "2026-11-20", `{"input_tokens":0,"cache_read_input_tokens":300000,"cache_creation_input_tokens":0,"output_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.0915"},          // no surcharge on long prompts
	{"messages", "claude-sonnet-4-5", "2026-11-20", `{"input_tokens":100000,"cache_read_input_tokens":99999,"cache_creation_input_tokens":1,"output_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":0}}`, "0.34500345"}, // 200,000 of prompt are not above
	{"messages", "claude-sonnet-4-5", "2026-11-20", `{"input_tokens":100000,"cache_read_input_tokens":100000,"cache_creation_input_tokens":1,"output_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":0}}`, "0.6825075"}, // one more is, and all of it is dearer
	{"messages", "claude-sonnet-4-20250514", "2026-11-20", `{"input_tokens":200001,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "1.200231"},
	{"messages", "claude-3-7-sonnet-latest", "2026-11-20", `{"input_tokens":10,"cache_read_input_tokens":0,"cache_creation_input_tokens":0,"output_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.00018"},
	{"messages", "claude-haiku-5-5", "2026-11-20", `{"input_tokens":1000,"cache_read_input_tokens":50000,"cache_creation_input_tokens":0,"output_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.00065"},
	{"messages", "claude-haiku-5-5", "2026-11-20", `{"input_tokens":1000,"cache_read_input_tokens":100000,"cache_creation_input_tokens":0,"output_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.00575"},
	{"messages", "claude-haiku-4-5-20251001", "2026-11-20", `{"input_tokens":33,"cache_read_input_tokens":66,"cache_creation_input_tokens":99,"output_tokens":11,"cache_creation":{"ephemeral_5m_input_tokens":99,"ephemeral_1h_input_tokens":0}}`, "0.00021835"},
	{"messages", "claude-3-5-haiku-20241022", "2026-11-20", `{"input_tokens":33,"cache_read_input_tokens":66,"cache_creation_input_tokens":110,"output_tokens":11,"cache_creation":{"ephemeral_5m_input_tokens":99,"ephemeral_1h_input_tokens":11}}`, "0.00019228"},
	{"messages", "claude-3-haiku-20240307", "2026-11-20", `{"input_tokens":33,"cache_read_input_tokens":66,"cache_creation_input_tokens":99,"output_tokens":11,"cache_creation":{"ephemeral_5m_input_tokens":99,"ephemeral_1h_input_tokens":0}}`, "0.00005368"},
	{"messages", "claude-fable-5-1", "2026-11-20", `{"input_tokens":100,"cache_read_input_tokens":100000,"cache_creation_input_tokens":0,"output_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.031"},
	{"messages", "claude-mythos-5", "2026-11-20", `{"input_tokens":100,"cache_read_input_tokens":100000,"cache_creation_input_tokens":0,"output_tokens":100,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0}}`, "0.106"},
	{"responses", "gpt-6.1-sol", "2026-11-20", `{"input_tokens":1000,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":500,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":1500}`, "0.007"},
	{"responses", "gpt-6.1-sol", "2026-11-20", `{"input_tokens":168000,"input_tokens_details":{"cached_tokens":151000,"cache_write_tokens":2000},"output_tokens":900,"output_tokens_details":{"reasoning_tokens":600},"total_tokens":168900}`, "0.0591"},
	{"responses", "gpt-6.1-sol", "2026-11-20", `{"input_tokens":10000,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":8000,"cache_write_tokens_details":{"ttl_30m_tokens":5000,"ttl_12h_tokens":3000}},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":10010}`, "0.0316"}, // written for half an hour and for twelve
	{"responses", "gpt-6.1-sol", "2026-11-20", `{"input_tokens":300000,"input_tokens_details":{"cached_tokens":200000,"cache_write_tokens":0},"output_tokens":1000,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":301000}`, "0.455"},
	{"responses", "gpt-6.1-sol/flex", "2026-11-20", `{"input_tokens":1000,"input_tokens_details":{"cached_tokens":500,"cache_write_tokens":0},"output_tokens":500,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":1500}`, "0.003025"},
	{"responses", "gpt-6.1-sol/priority", "2026-11-20", `{"input_tokens":1000,"input_tokens_details":{"cached_tokens":500,"cache_write_tokens":0},"output_tokens":500,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":1500}`, "0.0121"},
	{"responses", "gpt-6.1-terra", "2026-11-20", `{"input_tokens":100,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":50},"output_tokens":100,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":200}`, "0.0006125"},
	{"responses", "gpt-6-sol", "2026-11-20", `{"input_tokens":272000,"input_tokens_details":{"cached_tokens":272000,"cache_write_tokens":0},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":272010}`, "0.0545"},
	{"responses", "gpt-6-sol", "2026-11-20", `{"input_tokens":272001,"input_tokens_details":{"cached_tokens":272000,"cache_write_tokens":0},"output_tokens":10,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":272011}`, "0.108954"},
	{"responses", "gpt-6-luna", "2026-11-20", `{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":10}`, "0.0000022"},
	{"responses", "gpt-6-astra", "2026-11-20", `{"input_tokens":1000,"input_tokens_details":{"cached_tokens":999,"cache_write_tokens":0},"output_tokens":1,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":1001}`, "0.001059"},
	{"responses", "gpt-5.6-terra", "2026-07-29", `{"input_tokens":1000,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":1000,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":2000}`, "0.0175"},
	{"responses", "gpt-5.6-terra", "2026-07-30", `{"input_tokens":1000,"input_tokens_details":{"cached_tokens":0,"cache_write_tokens":0},"output_tokens":1000,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":2000}`, "0.014"},
	{"responses", "gpt-5.6-luna", "2026-11-20", `{"input_tokens":1000,"input_tokens_details":{"cached_tokens":100,"cache_write_tokens":0},"output_tokens":1000,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":2000}`, "0.001382"},
	{"responses", "gpt-5.5", "2026-11-20", `{"input_tokens":8000,"input_tokens_details":{"cached_tokens":6000,"cache_write_tokens":0},"output_tokens":400,"output_tokens_details":{"reasoning_tokens":300},"total_tokens":8400}`, "0.025"},
	{"chat", "gpt-5.5", "2026-11-20", `{"prompt_tokens":8000,"completion_tokens":400,"total_tokens":8400,"prompt_tokens_details":{"cached_tokens":6000},"completion_tokens_details":{"reasoning_tokens":300}}`, "0.025"},                  // reasoning is part of the answer
	{"chat", "gpt-5.5-2026-10-01", "2026-11-20", `{"prompt_tokens":260421,"completion_tokens":2,"total_tokens":260423,"prompt_tokens_details":{"cached_tokens":130213},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.7162065"}, // cached tokens are part of the prompt
	{"chat", "gpt-5.5-pro", "2026-11-20", `{"prompt_tokens":10,"completion_tokens":10,"total_tokens":20,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.0021"},
	{"chat", "gpt-5.4-mini", "2026-11-20", `{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1010,"prompt_tokens_details":{"cached_tokens":900},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.0001875"},
	{"chat", "gpt-5.2-codex", "2026-11-20", `{"prompt_tokens":1000,"completion_tokens":10,"total_tokens":1010,"prompt_tokens_details":{"cached_tokens":900},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.0004725"},
	{"chat", "gpt-5.1", "2026-11-20", `{"prompt_tokens":1024,"completion_tokens":333,"total_tokens":1357,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":256}}`, "0.00461"},
	{"chat", "gpt-5-mini-2025-08-07", "2026-11-20", `{"prompt_tokens":1024,"completion_tokens":333,"total_tokens":1357,"prompt_tokens_details":{"cached_tokens":1024},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.0006916"},
	{"chat", "gpt-5-nano", "2026-11-20", `{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.00000055"},
	{"chat", "gpt-4.1", "2026-11-20", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.0022"},
	{"chat", "gpt-4.1-mini", "2026-11-20", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.00044"},
	{"chat", "gpt-4o-mini", "2026-11-20", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":500},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.0001725"},
	{"chat", "gpt-4o/priority", "2026-11-20", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.00595"},
	{"chat", "o3", "2026-11-20", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400},"completion_tokens_details":{"reasoning_tokens":90}}`, "0.0022"},
	{"chat", "o4-mini/flex", "2026-11-20", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_tokens_details":{"cached_tokens":400},"completion_tokens_details":{"reasoning_tokens":90}}`, "0.000605"},
	{"chat", "o1-pro", "2026-11-20", `{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}`, "0.00075"},
	{"gemini", "gemini-3.8-flash", "2026-11-20", `{"promptTokenCount":5000,"cachedContentTokenCount":4000,"candidatesTokenCount":100,"thoughtsTokenCount":400,"toolUsePromptTokenCount":0}`, "0.002925"}, // thoughts are beside the candidates
	{"gemini", "gemini-3.8-flash", "2027-01-01", `{"promptTokenCount":5000,"cachedContentTokenCount":4000,"candidatesTokenCount":100,"thoughtsTokenCount":400,"toolUsePromptTokenCount":0}`, "0.00585"},
	{"gemini", "gemini-3.1-pro-preview", "2026-11-20", `{"promptTokenCount":200000,"cachedContentTokenCount":0,"candidatesTokenCount":10,"thoughtsTokenCount":0,"toolUsePromptTokenCount":0}`, "0.40012"},
	{"gemini", "gemini-3.1-pro-preview", "2026-11-20", `{"promptTokenCount":200001,"cachedContentTokenCount":100000,"candidatesTokenCount":10,"thoughtsTokenCount":0,"toolUsePromptTokenCount":0}`, "0.440184"},
	{"gemini", "gemini-3-flash-preview", "2026-11-20", `{"promptTokenCount":10,"cachedContentTokenCount":0,"candidatesTokenCount":10,"thoughtsTokenCount":10,"toolUsePromptTokenCount":5}`, "0.0000675"}, // what server tools fed back is input
	{"gemini", "gemini-2.5-pro", "2026-11-20", `{"promptTokenCount":1000,"cachedContentTokenCount":0,"candidatesTokenCount":10,"thoughtsTokenCount":90,"toolUsePromptTokenCount":0}`, "0.00225"},
	{"gemini", "gemini-2.5-flash-lite", "2026-11-20", `{"promptTokenCount":1000,"cachedContentTokenCount":250,"candidatesTokenCount":10,"thoughtsTokenCount":0,"toolUsePromptTokenCount":0}`, "0.0000815"},
	{"gemini", "gemini-2.0-flash-001", "2026-11-20", `{"promptTokenCount":1000,"cachedContentTokenCount":1000,"candidatesTokenCount":10,"thoughtsTokenCount":0,"toolUsePromptTokenCount":0}`, "0.000029"},
	{"chat", "deepseek-v4-pro", "2026-08-01", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_cache_hit_tokens":800,"prompt_cache_miss_tokens":200}`, "0.0001769"},
	{"chat", "deepseek-v4-pro", "2026-11-20T12:00:00Z", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_cache_hit_tokens":800,"prompt_cache_miss_tokens":200}`, "0.0003476"},
	{"chat", "deepseek-v4-pro", "2026-11-20T02:30:00Z", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_cache_hit_tokens":800,"prompt_cache_miss_tokens":200}`, "0.0006952"}, // a Friday, in working hours
	{"chat", "deepseek-v4-pro", "2026-11-21T02:30:00Z", `{"prompt_tokens":1000,"completion_tokens":100,"total_tokens":1100,"prompt_cache_hit_tokens":800,"prompt_cache_miss_tokens":200}`, "0.0003476"}, // a Saturday
	{"chat", "grok-4", "2026-11-20", `{"prompt_tokens":100,"completion_tokens":10,"total_tokens":140,"completion_tokens_details":{"reasoning_tokens":30}}`, "0.0009"},                                   // xAI counts reasoning beside the completion
	{"embeddings", "text-embedding-3-small", "2026-11-20", `{"prompt_tokens":123456,"total_tokens":123456}`, "0.00246912"},
	{"embeddings", "text-embedding-3-large", "2026-11-20", `{"prompt_tokens":8,"total_tokens":8}`, "0.00000104"},
}

// answers put a usage object where each format has it.
var answers = map[string]string{
	"messages":   `{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],"stop_reason":"end_turn","usage":%[1]s}`,
	"chat":       `{"id":"chatcmpl-1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":%[1]s,"service_tier":"%[2]s"}`,
	"responses":  `{"id":"resp_1","object":"response","status":"completed","model":"m","output":[],"usage":%[1]s,"service_tier":"%[2]s"}`,
	"gemini":     `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP","index":0}],"modelVersion":"m","usageMetadata":%[1]s}`,
	"embeddings": `{"object":"list","model":"m","data":[],"usage":%[1]s}`,
}

func TestRecordedUsagesCostWhatTheirMakersAsk(t *testing.T) {
	facts, err := builtInFacts()
	if err != nil {
		t.Fatal(err)
	}
	prices := facts.prices
	if len(recordedUsages) < 60 {
		t.Errorf("there are %d usages", len(recordedUsages))
	}
	for _, u := range recordedUsages {
		format, err := codec.ParseFormat(u.format)
		if err != nil {
			t.Fatal(err)
		}
		model, tier, tiered := strings.Cut(u.model, "/")
		if !tiered {
			tier = "default"
		}
		answer := answers[u.format]
		if strings.Contains(answer, "%[2]s") {
			answer = fmt.Sprintf(answer, u.usage, tier)
		} else {
			answer = fmt.Sprintf(answer, u.usage)
		}
		seen, _ := crossing.Observe(format, []byte(answer), crossing.Memory{}, false)
		day, err := time.Parse(time.RFC3339, u.day)
		if err != nil {
			day, err = time.Parse(time.DateOnly, u.day)
		}
		if err != nil {
			t.Fatal(err)
		}
		price := prices.price("any", model, day)
		if price == nil {
			t.Errorf("%s has no price", model)
			continue
		}
		bill := price.Bill(&seen.Usage, day)
		if got := dollars(bill.Cost); got != u.dollars || !bill.Exact {
			t.Errorf("%s on %s: %s costs %s (exact: %t), want %s\n%+v", u.model, u.day, u.usage, got, bill.Exact, u.dollars, seen.Usage)
		}
	}
}

func dollars(nano int64) string {
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%d.%09d", nano/1e9, nano%1e9), "0"), ".")
}

// Names of other models begin with those that have a price, and cost something else.
func TestAnUnknownModelHasNoPrice(t *testing.T) {
	facts, err := builtInFacts()
	if err != nil {
		t.Fatal(err)
	}
	prices := facts.prices
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for _, model := range []string{"", "claude", "claude-opus-4-9", "claude-opus-5-6", "gpt-5.7", "gpt-5.5-mini", "gpt-4o-audio-preview", "gpt-41", "o3-deep-research", "llama-3", "gemini-2.5-pro-preview-tts"} {
		if p := prices.price("openai", model, now); p != nil {
			t.Errorf("%q costs as %s", model, p.Version)
		}
	}
	if p := prices.price("openai", "gpt-6.1-terra", now.AddDate(0, -2, 0)); p != nil {
		t.Errorf("a model that was not there yet costs as %s", p.Version)
	}
}

func TestOwnPricesTakeThePlaceOfThoseThatComeWithTheProgram(t *testing.T) {
	r := newRouter(t, Config{ModelsFile: priceFile(t, `
prices:
  - {match: gpt-5.5, source: contract, from: 2026-11-01, input: 4, output: 20}
  - {match: "*", provider: local, source: ours, input: 0, output: 0}
  - {match: claude-opus-5, provider: cloud, source: reseller, input: 7, output: 30, cache_read: 0.7}
`)})
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	usage := codec.Usage{InputUncached: 1e6, Output: 1e6}
	for _, c := range []struct {
		provider, model string
		want            int64 // dollars; -1: no price
	}{
		{"openai", "gpt-5.5", 24},
		{"openai", "gpt-5.4", 5 + 22}, // long prompt: 5 and 22.50
		{"local", "anything", 0},
		{"local", "gpt-5.5", 0},
		{"cloud", "claude-opus-5", 37},
		{"anthropic", "claude-opus-5", 30},
		{"openai", "anything", -1},
	} {
		got := int64(-1)
		if p := r.Price(c.provider, c.model, now); p != nil {
			got = p.Bill(&usage, now).Cost / 1e9
		}
		if got != c.want {
			t.Errorf("%s of %s costs %d dollars, want %d", c.model, c.provider, got, c.want)
		}
	}
	if p := r.Price("openai", "gpt-5.5", now.AddDate(0, -1, 0)); p != nil {
		t.Errorf("before the first day of the only row: %s", p.Version)
	}
	cached := codec.Usage{CacheWrite: 10}
	if bill := r.Price("cloud", "claude-opus-5", now).Bill(&cached, now); bill.Exact || bill.Cost != 70_000 {
		t.Errorf("tokens of a kind without a price: %+v", bill)
	}
}

func priceFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "models.yaml")
	write(t, file, text)
	return file
}

func TestAWrongPriceListIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`prices: [{match: m, input: 1}]`:                                 "needs input and output",
		`prices: [{input: 1, output: 1}]`:                                "has no match",
		`prices: [{match: m, input: -1, output: 1}]`:                     "not a price",
		`prices: [{match: m, input: .nan, output: 1}]`:                   "not a price",
		`prices: [{match: m, input: 1, output: 1, from: soon}]`:          "not a day",
		`prices: [{match: m, input: 1, output: 1, tiers: {cheap: 0.5}}]`: `"cheap" is not a tier`,
		`prices: [{match: m, input: 1, output: 1, tiers: {batch: -1}}]`:  "factor",
		`prices: [{match: m, input: 1, output: 1, above: {input: 2}}]`:   "above needs tokens",
		`prices: [{match: m, input: 1, output: 1, reasonning: 2}]`:       "reasonning",
	} {
		if _, err := New(Config{ModelsFile: priceFile(t, text)}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Whatever a provider reports, a cost is no negative number.
func TestACostNeverOverflows(t *testing.T) {
	p := &Price{}
	most := dearest
	p.usual = Rates{Input: &most, Output: &most, CacheRead: &most, CacheWrite: &most, CacheWriteLong: &most}
	u := codec.Usage{InputUncached: 1 << 53, CacheRead: 1 << 53, CacheWrite: 1 << 53, CacheLong: 1 << 53, Output: 1 << 53, Reasoning: 1 << 53}
	if bill := p.Bill(&u, time.Now()); bill.Cost <= 0 {
		t.Errorf("the cost is %d", bill.Cost)
	}
	u = codec.Usage{InputUncached: -5, Output: -5}
	if bill := p.Bill(&u, time.Now()); bill.Cost != 0 {
		t.Errorf("of negative counts the cost is %d", bill.Cost)
	}
}

func BenchmarkBill(b *testing.B) {
	facts, err := builtInFacts()
	if err != nil {
		b.Fatal(err)
	}
	prices := facts.prices
	usage, now := codec.Usage{InputUncached: 12, CacheRead: 151_000, CacheWrite: 800, Output: 1200}, time.Now()
	b.ReportAllocs()
	for b.Loop() {
		prices.price("anthropic", "claude-opus-5-5", now).Bill(&usage, now)
	}
}
