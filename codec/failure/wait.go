package failure

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// maxWait bounds the wait that the body of an error may request: daily quotas are renewed within a day.
const maxWait = 24 * time.Hour

// Wait returns how long the body of an error answer, or of an error frame, asks to wait before the next request, at
// most a day: the delay of google.rpc.RetryInfo in its details, else of its message; 0 if it names no time. The body
// may have any shape, be wrapped as text in that of a relay, be truncated or not be JSON at all.
func Wait(body []byte) time.Duration {
	object := Find(body)
	if !scan.IsObject(object) {
		return Delay(words(object))
	}
	message := String(scan.Get(object, "message"))
	if inner, ok := Wrapped(message); ok {
		return Wait(inner)
	}
	for e := scan.Array(scan.Get(object, "details")); e.Next(); {
		if wait := retryInfo(e.Value); wait > 0 {
			return wait
		}
	}
	return Delay(message)
}

// words returns the text of a JSON string, or of a body that is not JSON.
func words(body []byte) string {
	if scan.IsString(body) {
		return String(body)
	}
	return Text(body)
}

// retryInfo decodes one of the details of a google.rpc.Status, whose delay is a decimal number of seconds with the unit
// (docs/wire/generate-content.md#5).
func retryInfo(detail []byte) time.Duration {
	if !strings.HasSuffix(scan.String(scan.Get(detail, "@type")), "google.rpc.RetryInfo") {
		return 0
	}
	return parseWait(scan.String(scan.Get(detail, "retryDelay")))
}

// Wrapped finds the error that a relay embedded as text in the message of its own error. [Text] bounds how deep that
// can go.
func Wrapped(message string) (object []byte, ok bool) {
	inner := []byte(message)
	if len(inner) == 0 || inner[0] != '{' || !scan.Valid(inner) {
		return nil, false
	}
	object = scan.Get(inner, "error")
	return object, scan.IsObject(object)
}

// Delay returns the wait that a message asks for, as in "try again in 1.2s" or "retry in 350ms.": at most a day, and 0
// if it names no time. A number without a unit is in seconds.
func Delay(message string) time.Duration {
	_, rest, found := strings.Cut(message, "try again in ")
	if !found {
		_, rest, _ = strings.Cut(message, "retry in ")
	}
	word, _, _ := strings.Cut(rest, " ")
	word = strings.TrimRight(word, ".,;")
	if word != "" && word[len(word)-1]-'0' <= 9 {
		word += "s"
	}
	return parseWait(word)
}

// parseWait parses a duration; it returns 0 if text is none.
func parseWait(text string) time.Duration {
	wait, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return min(max(wait, 0), maxWait)
}
