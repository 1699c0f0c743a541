package grammar_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/fuzz/grammar"
)

// candidates is a frame with those parts, and further members of the candidate and of the frame.
func candidates(parts, more, counts string) string {
	return `data: {"candidates":[{"content":{"parts":[` + parts + `],"role":"model"}` + more + `,"index":0}]` + counts + `,"modelVersion":"m","responseId":"r"}` + "\n\n"
}

const (
	geminiCounts = `,"usageMetadata":{"promptTokenCount":3,"cachedContentTokenCount":1,"candidatesTokenCount":2,"thoughtsTokenCount":1,"totalTokenCount":6}`
	geminiError  = `data: {"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}` + "\n\n"
	signedCall   = `{"functionCall":{"id":"1","name":"f","args":{}},"thoughtSignature":"QQ=="}`
	unsignedCall = `{"functionCall":{"id":"2","name":"f","args":{"a":1}}}`
)

func TestGeminiStreams(t *testing.T) {
	text := candidates(`{"text":"a"}`, "", "")
	stop := candidates(`{"text":""}`, `,"finishReason":"STOP"`, geminiCounts)

	good := map[string]string{
		"text":            text + stop,
		"nothing":         stop,
		"everything":      candidates(`{"text":"t","thought":true}`, "", "") + candidates(signedCall, "", "") + candidates(unsignedCall, "", "") + candidates(`{"inlineData":{"mimeType":"image/png","data":"QQ=="}}`, "", "") + stop,
		"signs of life":   "\n\n" + text + "\n\n" + stop,
		"error":           text + geminiError,
		"error at once":   geminiError,
		"sources":         text + candidates(`{"text":""}`, `,"finishReason":"MAX_TOKENS","groundingMetadata":{"groundingChunks":[]}`, geminiCounts),
		"a proof at last": text + candidates(`{"text":"","thoughtSignature":"QQ=="}`, `,"finishReason":"SAFETY"`, geminiCounts),
	}
	for name, stream := range good {
		if err := grammar.Gemini([]byte(stream)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}

	bad := map[string]string{
		"nothing":                       "",
		"no end":                        text,
		"half a frame":                  text + strings.TrimSuffix(stop, "\n"),
		"something after the end":       text + stop + text,
		"an end after an error":         geminiError + stop,
		"a comment":                     ": ping\n\n" + text + stop,
		"an event line":                 "event: x\n" + text + stop,
		"done":                          text + stop + "data: [DONE]\n\n",
		"a member that is not known":    strings.Replace(text, `"modelVersion"`, `"model":"m","modelVersion"`, 1) + stop,
		"another model":                 text + strings.Replace(stop, `"m"`, `"n"`, 1),
		"another id":                    text + strings.Replace(stop, `"r"`, `"s"`, 1),
		"another candidate":             strings.Replace(text, `"index":0`, `"index":1`, 1) + stop,
		"another role":                  strings.Replace(text, `"role":"model"`, `"role":"user"`, 1) + stop,
		"no parts":                      candidates("", "", "") + stop,
		"two data in one part":          candidates(`{"text":"a","functionCall":{"id":"1","name":"f","args":{}},"thoughtSignature":"QQ=="}`, "", "") + stop,
		"an empty text":                 candidates(`{"text":""}`, "", "") + stop,
		"an empty signature":            candidates(`{"text":"a","thoughtSignature":""}`, "", "") + stop,
		"a signature that is no base64": candidates(`{"text":"a","thoughtSignature":"sv1.x"}`, "", "") + stop,
		"an unsigned call":              candidates(unsignedCall, "", "") + stop,
		"a call without an id":          candidates(strings.Replace(signedCall, `"id":"1",`, "", 1), "", "") + stop,
		"a call without arguments":      candidates(strings.Replace(signedCall, `,"args":{}`, "", 1), "", "") + stop,
		"arguments in a string":         candidates(strings.Replace(signedCall, `{}`, `"{}"`, 1), "", "") + stop,
		"a reason without counts":       text + candidates(`{"text":""}`, `,"finishReason":"STOP"`, ""),
		"counts without a reason":       candidates(`{"text":"a"}`, "", geminiCounts) + stop,
		"an unknown reason":             text + candidates(`{"text":""}`, `,"finishReason":"END"`, geminiCounts),
		"counts that do not add up":     text + strings.Replace(stop, `"totalTokenCount":6`, `"totalTokenCount":7`, 1),
		"an error without a status":     strings.Replace(geminiError, `,"status":"UNAVAILABLE"`, "", 1),
	}
	for name, stream := range bad {
		if err := grammar.Gemini([]byte(stream)); err == nil {
			t.Errorf("%s: taken for a stream", name)
		}
	}
}
