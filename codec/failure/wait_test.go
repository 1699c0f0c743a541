package failure_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec/failure"
)

func TestTheWaitIsFoundWhereverAProviderPutsIt(t *testing.T) {
	const retryInfo = `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31.4s"}`
	google := func(message, details string) string {
		return `{"error":{"code":429,"message":"` + message + `","status":"RESOURCE_EXHAUSTED","details":[` + details + `]}}`
	}
	for body, want := range map[string]time.Duration{
		google("Quota.", retryInfo): 31400 * time.Millisecond,
		google("Quota.", `{"@type":"type.googleapis.com/google.rpc.Help"},7,`+retryInfo):              31400 * time.Millisecond,
		google("Please retry in 9s.", retryInfo):                                                      31400 * time.Millisecond,
		google("Please retry in 9s.", strings.Replace(retryInfo, "31.4s", "soon", 1)):                 9 * time.Second,
		google("Please retry in 9s.", strings.Replace(retryInfo, "31.4s", "-3s", 1)):                  9 * time.Second,
		google("Quota.", strings.Replace(retryInfo, "31.4s", "999999h", 1)):                           24 * time.Hour,
		google("Quota.", strings.Replace(retryInfo, `"31.4s"`, "31", 1)):                              0,
		"[" + google("Quota.", retryInfo) + "]":                                                       31400 * time.Millisecond,
		`{"error":{"message":"` + strings.ReplaceAll(google("Quota.", retryInfo), `"`, `\"`) + `"}}`:  31400 * time.Millisecond,
		google("Please retry in 9s.", "")[:60]:                                                        9 * time.Second, // cut after its message
		`{"type":"error","error":{"type":"rate_limit_error","message":"Please try again in 300ms."}}`: 300 * time.Millisecond,
		`{"error":"try again in 5s"}`:                                                                 5 * time.Second,
		`Too many requests, try again in 5 seconds`:                                                   5 * time.Second,
		`<html>Please try again in a few minutes</html>`:                                              0,
		`{"error":{"message":"slow down"}}`:                                                           0,
		``:                                                                                            0,
	} {
		if got := failure.Wait([]byte(body)); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// Any body is read without a panic, and no wait is longer than a day.
func TestTheWaitIsBounded(t *testing.T) {
	words := rapid.SampledFrom([]string{
		`{"error":`, `[`, `{`, `}`, `]`, `"message":"`, `retry in `, `9`, `h`, `s"`, `,`, `"details":[`,
		`"@type":"google.rpc.RetryInfo",`, `"retryDelay":"`, `\"`, "\x00", "\xff",
	})
	rapid.Check(t, func(t *rapid.T) {
		body := strings.Join(rapid.SliceOf(words).Draw(t, "words"), "")
		if wait := failure.Wait([]byte(body)); wait < 0 || wait > 24*time.Hour {
			t.Fatalf("%q: %s", body, wait)
		}
	})
}

func TestTheDelayOfAMessage(t *testing.T) {
	for message, want := range map[string]time.Duration{
		"Please try again in 1.5s. Visit us.":           1500 * time.Millisecond,
		"try again in 350ms":                            350 * time.Millisecond,
		"Please try again in 6m0s.":                     6 * time.Minute,
		"try again in 20 seconds":                       20 * time.Second,
		"Please retry in 31.4s.":                        31400 * time.Millisecond,
		"retry in 9000h":                                24 * time.Hour,
		"try again in a moment":                         0,
		"try again in 5":                                5 * time.Second,
		"retry in -5s":                                  0,
		"try again in " + strings.Repeat("9", 99) + "s": 0,
		"slow down":                                     0,
	} {
		if got := failure.Delay(message); got != want {
			t.Errorf("%q: got %s, want %s", message, got, want)
		}
	}
}
