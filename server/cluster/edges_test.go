package cluster

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// failingNotes fails to note as often as it says, and has what was noted afterwards.
type failingNotes struct {
	Erasures
	failures int
	noted    []record.EdgeErased
}

func (f *failingNotes) Edges() ([]record.EdgeErased, error) { return nil, nil }

func (f *failingNotes) NoteEdge(_ context.Context, edge record.EdgeErased) error {
	if f.failures--; f.failures >= 0 {
		return errors.New("the database is away")
	}
	f.noted = append(f.noted, edge)
	return nil
}

func TestWhatCouldNotBeNotedOfAnEdgeIsNotedWhenItIsHeardAgain(t *testing.T) {
	notes := &failingNotes{failures: 1}
	known, err := openEdges(notes)
	if err != nil {
		t.Fatal(err)
	}
	clean := time.Now().UTC()
	if err := known.heard(t.Context(), 1, clean); err == nil {
		t.Error("it does not say that nothing was noted")
	}
	for range 2 { // the second time there is nothing to be noted
		if err := known.heard(t.Context(), 1, clean); err != nil {
			t.Error(err)
		}
	}
	if len(notes.noted) != 1 || !notes.noted[0].Clean.Equal(clean) {
		t.Errorf("%+v was noted, want once that the edge is clean", notes.noted)
	}
}
