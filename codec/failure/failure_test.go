package failure_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/failure"
)

func TestAProvidersTextBecomesOneBoundedLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.Byte()).Draw(t, "words")
		if rapid.Bool().Draw(t, "long") {
			words = append([]byte(strings.Repeat("日本語 \n", 1000)), words...)
		}
		text := failure.Text(words)
		if len(text) > failure.MaxText || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
	})
}

func TestLongTextIsCutBetweenCharacters(t *testing.T) {
	long := strings.Repeat("日", failure.MaxText)
	if text := failure.Text([]byte(long)); !strings.HasPrefix(long, strings.TrimSuffix(text, "…")) || len(text) < failure.MaxText-5 {
		t.Errorf("%d bytes, ending in %q", len(text), text[len(text)-9:])
	}
	if text := failure.Unreadable(500, []byte(long)); len(text) > failure.MaxText || !strings.HasPrefix(text, "the provider answered with status 500: 日") {
		t.Errorf("%d bytes: %.60q", len(text), text)
	}
}

func TestTheErrorIsFoundWhereverItIs(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"m"}}`:               `{"message":"m"}`,
		`[{"error":{"message":"m"}},{"error":1}]`: `{"message":"m"}`,
		`{"error":"m","code":7}`:                  `"m"`,
		`{"message":"m"}`:                         `{"message":"m"}`,
		`{"error":null,"message":"m"}`:            `{"error":null,"message":"m"}`,
		`{"error":7}`:                             `{"error":7}`,
		`[]`:                                      `[]`,
		`7`:                                       `7`,
		``:                                        ``,
	} {
		if got := string(failure.Find([]byte(body))); got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// Providers quote parts of a key in the message, and some in the code.
func TestAProvidersWordsAboutACredentialAreNotRepeated(t *testing.T) {
	e := failure.Finish(&codec.Error{Kind: codec.KindUpstreamAuth, Message: "wrong key sk-SECRET", Code: "sk-SECRET", Status: 401})
	if strings.Contains(e.Message+e.Code, "SECRET") || e.Message == "" {
		t.Errorf("got %q, code %q", e.Message, e.Code)
	}
}

func TestAnErrorWithoutAReasonSaysSo(t *testing.T) {
	for status, want := range map[int]string{
		0:   "the provider reported an error and gave no reason",
		503: "the provider answered with status 503 and gave no reason",
	} {
		if got := failure.Finish(&codec.Error{Status: status}).Message; got != want {
			t.Errorf("%d: got %q", status, got)
		}
	}
	if got := failure.Finish(&codec.Error{Message: "m", Status: 503}).Message; got != "m" {
		t.Errorf("got %q", got)
	}
}

func TestAnAnswerThatIsNotJSONIsQuoted(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{502, "bad\r\n gateway\x00\n", "the provider answered with status 502: bad   gateway"},
		{0, "busy", "the provider answered: busy"},
		{502, " \n", ""},
	} {
		if got := failure.Unreadable(c.status, []byte(c.body)); got != c.want {
			t.Errorf("%d %q: got %q", c.status, c.body, got)
		}
	}
}

func TestStatusesAndWordsOfAllFormatsAreKnown(t *testing.T) {
	for status, want := range map[int]codec.Kind{
		400: codec.KindInvalidRequest, 401: codec.KindUpstreamAuth, 402: codec.KindQuota, 403: codec.KindPermission,
		404: codec.KindNotFound, 405: codec.KindInvalidRequest, 408: codec.KindTimeout, 409: codec.KindConflict,
		413: codec.KindTooLarge, 415: codec.KindUnsupportedMedia, 422: codec.KindInvalidRequest, 429: codec.KindRateLimited,
		500: codec.KindUpstream, 502: codec.KindUpstream, 503: codec.KindOverloaded, 504: codec.KindTimeout, 529: codec.KindOverloaded,
	} {
		if kind, known := failure.KindOfStatus(status); kind != want || !known {
			t.Errorf("%d: got %s, known %v", status, kind, known)
		}
	}
	for _, status := range []int{0, 200, 301, 418} {
		if kind, known := failure.KindOfStatus(status); kind != codec.KindUpstream || known {
			t.Errorf("%d: got %s, known %v", status, kind, known)
		}
	}
	for word, want := range map[string]codec.Kind{
		"RESOURCE_EXHAUSTED": codec.KindRateLimited, "overloaded_error": codec.KindOverloaded, "insufficient_quota": codec.KindQuota,
		"UNAUTHENTICATED": codec.KindUpstreamAuth, "conflict_error": codec.KindConflict, "DEADLINE_EXCEEDED": codec.KindTimeout,
	} {
		if kind, known := failure.KindOfWord(word); kind != want || !known {
			t.Errorf("%s: got %s, known %v", word, kind, known)
		}
	}
	if kind, known := failure.KindOfWord("unheard_of"); kind != codec.KindUpstream || known {
		t.Errorf("got %s, known %v", kind, known)
	}
}

func TestARefusalsMessageTellsItsCause(t *testing.T) {
	for message, want := range map[string]codec.Kind{
		"This model's maximum context length is 8192 tokens":                     codec.KindContextTooLong,
		"Your input exceeds the context window of this model.":                   codec.KindContextTooLong,
		"prompt is too long: 300000 tokens > 200000 maximum":                     codec.KindContextTooLong,
		"input length and `max_tokens` exceed context limit: 190000 + 20000":     codec.KindContextTooLong,
		"Incorrect API key provided: xa***. You can obtain one from the console": codec.KindUpstreamAuth,
		"Unknown parameter: 'x'":                                                 codec.KindInvalidRequest,
	} {
		if got := failure.KindOfRefusal(message); got != want {
			t.Errorf("%q: got %s, want %s", message, got, want)
		}
	}
}
