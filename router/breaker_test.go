package router

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// breakerUnderTest reports calls to a breaker as they would be made.
type breakerUnderTest struct {
	breaker
	clock *handClock
}

func newBreaker(failures int) *breakerUnderTest {
	b := &breakerUnderTest{clock: newHandClock()}
	b.settings = Breaker{Failures: failures, Pause: time.Second}.withDefaults()
	return b
}

// call makes a call that ends as r, and tells whether it was admitted.
func (b *breakerUnderTest) call(r callResult) bool {
	trial, admitted := b.admit(b.clock.Now())
	if admitted {
		b.report(b.clock.Now(), trial, r)
	}
	return admitted
}

func (b *breakerUnderTest) is(t *testing.T, want BreakerState) {
	t.Helper()
	if got, _ := b.look(b.clock.Now()); got != want {
		t.Errorf("the breaker is %v, want %v", got, want)
	}
}

func TestABreakerOpensAfterFailuresInARow(t *testing.T) {
	b := newBreaker(3)
	for _, r := range []callResult{resultFailed, resultFailed, resultWell, resultFailed, resultFailed} {
		b.call(r)
	}
	b.is(t, BreakerClosed)
	b.call(resultFailed)
	b.is(t, BreakerOpen)
	if b.call(resultWell) {
		t.Error("an open breaker admits a call")
	}
}

func TestABreakerOpensWhenHalfOfManyCallsFail(t *testing.T) {
	b := newBreaker(3)
	for range 2 {
		b.call(resultFailed)
		b.call(resultWell)
	}
	b.call(resultWell)
	b.is(t, BreakerClosed)
	b.call(resultFailed)
	b.is(t, BreakerOpen)
}

func TestFailuresLongAgoDoNotCount(t *testing.T) {
	b := newBreaker(3)
	b.call(resultFailed)
	b.call(resultWell)
	b.call(resultFailed)
	b.call(resultFailed)
	b.clock.pass(breakerWindow)
	b.call(resultWell)
	if b.troubled.Load() {
		t.Error("a success after the window does not end it")
	}
	b.call(resultFailed)
	b.call(resultFailed)
	b.is(t, BreakerClosed)
}

func TestAnOpenBreakerLetsOneCallTryAfterItsPause(t *testing.T) {
	b := newBreaker(1)
	b.call(resultFailed)
	b.clock.pass(time.Second)
	trial, admitted := b.admit(b.clock.Now())
	if !trial || !admitted {
		t.Fatal("nothing is tried after the pause")
	}
	b.is(t, BreakerHalfOpen)
	if b.call(resultWell) {
		t.Error("a second call is admitted beside the trial")
	}
	b.report(b.clock.Now(), trial, resultNone) // the client left
	if trial, admitted = b.admit(b.clock.Now()); !trial || !admitted {
		t.Fatal("a trial that says nothing is not followed by another")
	}
	b.report(b.clock.Now(), trial, resultWell)
	b.is(t, BreakerClosed)
	if !b.call(resultWell) {
		t.Error("it stays shut")
	}
}

func TestEachTrialThatFailsDoublesThePauseUpToAMinute(t *testing.T) {
	b := newBreaker(1)
	b.call(resultFailed)
	for _, seconds := range []int{2, 4, 8, 16, 32, 60, 60} {
		b.clock.pass(b.pause)
		if !b.call(resultFailed) {
			t.Fatal("no trial")
		}
		if b.pause.Seconds() != float64(seconds) {
			t.Errorf("the pause is %v, want %ds", b.pause, seconds)
		}
	}
	b.clock.pass(time.Minute)
	b.call(resultWell)
	b.call(resultFailed)
	if b.pause != time.Second {
		t.Errorf("after it was well the pause is %v", b.pause)
	}
}

// Calls take minutes: those that began before a breaker opened end when it has long been open.
func TestCallsFromBeforeSayNothingOfAnOpenBreaker(t *testing.T) {
	b := newBreaker(1)
	early, _ := b.admit(b.clock.Now())
	b.call(resultFailed)
	b.report(b.clock.Now(), early, resultWell)
	b.is(t, BreakerOpen)
}

func TestABreakerThatIsOffNeverOpens(t *testing.T) {
	b := newBreaker(-1)
	for range 100 {
		if !b.call(resultFailed) {
			t.Fatal("it opened")
		}
	}
}

func TestWhateverHappensABreakerTriesAgainAndHealsByOneSuccess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := newBreaker(rapid.IntRange(1, 4).Draw(t, "failures"))
		type call struct{ trial bool }
		var open []call
		trials := func() (n int) {
			for _, c := range open {
				if c.trial {
					n++
				}
			}
			return n
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				state, rest := b.look(b.clock.Now())
				trial, admitted := b.admit(b.clock.Now())
				if state == BreakerOpen && rest > 0 && admitted {
					t.Fatal("an open breaker admits a call")
				}
				if admitted {
					open = append(open, call{trial})
				}
				if trials() > 1 {
					t.Fatal("two trials at once")
				}
			},
			"end": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "which")
				r := rapid.SampledFrom([]callResult{resultNone, resultWell, resultFailed}).Draw(t, "result")
				b.report(b.clock.Now(), open[i].trial, r)
				open = append(open[:i], open[i+1:]...)
			},
			"wait": func(t *rapid.T) {
				b.clock.pass(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			},
		})
		for _, c := range open {
			b.report(b.clock.Now(), c.trial, resultNone)
		}
		b.clock.pass(maxBreakerPause)
		if !b.call(resultWell) {
			t.Fatal("nothing is tried after the longest pause")
		}
		if state, _ := b.look(b.clock.Now()); state != BreakerClosed {
			t.Fatalf("one success leaves it %v", state)
		}
	})
}
