package command

import (
	"runtime"
	"testing"
)

func TestAThreadIsAddedForTheOneThatWaitsForClients(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	end := addProcessor()
	if got := runtime.GOMAXPROCS(0); got != before+1 {
		t.Errorf("%d threads run goroutines, want %d", got, before+1)
	}
	end()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("afterwards %d do, want %d", got, before)
	}
	t.Setenv("GOMAXPROCS", "7")
	addProcessor()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("with a number of the operator's %d do, want %d", got, before)
	}
}
