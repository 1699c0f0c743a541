package promptcache_test

import (
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/promptcache"
)

func TestHostsWhoseCachesLiveForAnUnknownTimeHaveNone(t *testing.T) {
	for _, c := range []struct {
		provider, format, model string
		life                    time.Duration
	}{
		{"anthropic", "messages", "claude-opus-4-8", 5 * time.Minute},
		{"gateway", "messages", "claude-opus-4-8", 5 * time.Minute},
		{"openai", "responses", "gpt-5.5", 10 * time.Minute},
		{"openai", "responses", "gpt-5.6-sol", 30 * time.Minute},
		{"openai", "chat", "gpt-6", 30 * time.Minute},
		{"openai", "chat", "o3", 10 * time.Minute},
		{"local", "chat", "gpt-5.6", 0},
		{"google", "gemini", "gemini-3-pro", 0},
	} {
		if life := promptcache.Life(c.provider, c.format, c.model); life != c.life {
			t.Errorf("%s, %s, %s: %v, want %v", c.provider, c.format, c.model, life, c.life)
		}
	}
}
