package store

import (
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Two turns end at once, the later one first. The base of their text is in the same commit.
func TestTurnsThatEndTogetherShowEachMessageOnce(t *testing.T) {
	question, answer, next := numbered("question", 1<<10), numbered("answer", 1<<10), numbered("next question", 1<<10)
	c := newConversation(t)
	var ended []*Capture
	for _, o := range []*record.Opening{say(question), say(question, answer, next)} {
		o.ChatKey = "k"
		capture, err := c.s.Begin(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if err := capture.Recorded(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := capture.Write([]byte(answer)); err != nil {
			t.Fatal(err)
		}
		ended = append(ended, capture)
	}

	began, goOn, results := make(chan struct{}), make(chan struct{}), make(chan error, 3)
	go func() {
		results <- c.s.writer.Update(t.Context(), func(*writing.Group, *commit.Op) error { close(began); <-goOn; return nil })
	}()
	<-began
	for i, capture := range []*Capture{ended[1], ended[0]} {
		go func() { results <- capture.Finish(&record.Closing{Outcome: record.OutcomeComplete}) }()
		for deadline := time.Now().Add(timeout); c.s.Stats().Queued <= int64(i); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("the end of an exchange does not come to the writer")
			}
		}
	}
	close(goOn)
	for range cap(results) {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	c.settle()
	want := strings.Join([]string{"0 u:" + question + " a:" + answer, "1 after 0 u:" + next + " a:" + answer}, "\n")
	if got := c.timeline(ended[0].SessionID()); got != want {
		t.Errorf("the timeline is\n%s\nnot\n%s", got, want)
	}
	mustBeSound(t, c.s)
}
