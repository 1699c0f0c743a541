package router

import (
	"strconv"
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

// call makes a call that ends as r, and reports whether it was admitted.
func (b *breakerUnderTest) call(r callResult) bool { return b.callOf("acme", r) }

func (b *breakerUnderTest) callOf(account string, r callResult) bool {
	trial, admitted := b.admit(b.clock.Now(), account)
	if admitted {
		b.report(b.clock.Now(), account, trial, r)
	}
	return admitted
}

func (b *breakerUnderTest) is(t *testing.T, want BreakerState) {
	t.Helper()
	b.isFor(t, "acme", want)
}

func (b *breakerUnderTest) isFor(t *testing.T, account string, want BreakerState) {
	t.Helper()
	if got, _ := b.look(b.clock.Now(), account); got != want {
		t.Errorf("the breaker is %v for %s, want %v", got, account, want)
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
	trial, admitted := b.admit(b.clock.Now(), "acme")
	if !trial.own || !admitted {
		t.Fatal("nothing is tried after the pause")
	}
	b.is(t, BreakerHalfOpen)
	if b.call(resultWell) {
		t.Error("a second call is admitted beside the trial")
	}
	b.report(b.clock.Now(), "acme", trial, resultNone) // the client left
	if trial, admitted = b.admit(b.clock.Now(), "acme"); !trial.own || !admitted {
		t.Fatal("a trial that says nothing is not followed by another")
	}
	b.report(b.clock.Now(), "acme", trial, resultWell)
	b.is(t, BreakerClosed)
	if !b.call(resultWell) {
		t.Error("it stays shut")
	}
}

func TestEachTrialThatFailsDoublesThePauseUpToAMinute(t *testing.T) {
	b := newBreaker(1)
	b.call(resultFailed)
	for _, seconds := range []int{2, 4, 8, 16, 32, 60, 60} {
		b.clock.pass(b.own["acme"].pause)
		if !b.call(resultFailed) {
			t.Fatal("no trial")
		}
		if pause := b.own["acme"].pause; pause.Seconds() != float64(seconds) {
			t.Errorf("the pause is %v, want %ds", pause, seconds)
		}
	}
	b.clock.pass(time.Minute)
	b.call(resultWell)
	b.call(resultFailed)
	if pause := b.own["acme"].pause; pause != time.Second {
		t.Errorf("after it was well the pause is %v", pause)
	}
}

// Calls take minutes: those that began before a breaker opened end when it has long been open.
func TestCallsFromBeforeSayNothingOfAnOpenBreaker(t *testing.T) {
	b := newBreaker(1)
	early, _ := b.admit(b.clock.Now(), "acme")
	b.call(resultFailed)
	b.report(b.clock.Now(), "acme", early, resultWell)
	b.is(t, BreakerOpen)
}

// An account's requests may be what the endpoint fails at.
func TestOneAccountNeverKeepsAnotherFromAnEndpoint(t *testing.T) {
	for name, others := range map[string]callResult{"idle": resultNone, "well": resultWell} {
		b := newBreaker(10)
		for range 500 {
			b.callOf("acme", resultFailed)
			if others != resultNone && !b.callOf("other", others) {
				t.Fatalf("%s: another account is kept out", name)
			}
			b.isFor(t, "other", BreakerClosed)
			b.clock.pass(time.Second)
		}
		if b.worst() == BreakerClosed {
			t.Errorf("%s: the account is let on, whatever happens", name)
		}
		if !b.callOf("other", resultWell) {
			t.Errorf("%s: another account is kept out", name)
		}
	}
}

// A failure of its own that another account has now and then is not enough either.
func TestAFailureOfAnotherAccountBesideDoesNotShutAllOut(t *testing.T) {
	b := newBreaker(10)
	for i := range 200 {
		b.callOf("acme", resultFailed)
		if i%50 == 0 {
			b.callOf("other", resultFailed)
			b.callOf("other", resultWell)
		}
		b.isFor(t, "third", BreakerClosed)
	}
}

func TestFailuresOfTwoAccountsShutAllOut(t *testing.T) {
	b := newBreaker(4)
	for range 2 {
		b.callOf("acme", resultFailed)
		b.isFor(t, "third", BreakerClosed)
		b.callOf("other", resultFailed)
	}
	for _, account := range []string{"acme", "other", "third"} {
		b.isFor(t, account, BreakerOpen)
		if b.callOf(account, resultWell) {
			t.Errorf("%s is let through", account)
		}
	}
}

// Where it alone fails, the next one that tries is another.
func TestOneAccountDoesNotHoldABreakerOpen(t *testing.T) {
	b := newBreaker(2)
	b.callOf("acme", resultFailed)
	b.callOf("other", resultFailed)
	b.isFor(t, "third", BreakerOpen)
	for range 3 {
		b.clock.pass(2 * time.Second)
		b.callOf("acme", resultFailed)
	}
	if b.callOf("acme", resultFailed) {
		t.Error("it goes on")
	}
	if !b.callOf("third", resultWell) {
		t.Error("another is not let try")
	}
	b.isFor(t, "third", BreakerClosed)
	b.isFor(t, "other", BreakerClosed)
}

func TestCircuitsOfAccountsAreBounded(t *testing.T) {
	b := newBreaker(10)
	for i := range 3 * maxOwnCircuits {
		for _, r := range []callResult{resultFailed, resultWell, resultWell} {
			b.callOf(strconv.Itoa(i), r)
		}
	}
	if n := len(b.own); n > maxOwnCircuits {
		t.Errorf("there are %d", n)
	}
	b.clock.pass(breakerWindow)
	b.callOf("new", resultFailed)
	if n := len(b.own); n != 1 {
		t.Errorf("%d are left", n)
	}
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
		type call struct {
			account string
			trial   trial
		}
		var open []call
		accounts := rapid.SampledFrom([]string{"a", "b", "c"})
		trials := func() (most int) {
			n := map[string]int{}
			for _, c := range open {
				if c.trial.all {
					n["all"]++
				}
				if c.trial.own {
					n[c.account]++
				}
			}
			for _, m := range n {
				most = max(most, m)
			}
			return most
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				account := accounts.Draw(t, "account")
				state, rest := b.look(b.clock.Now(), account)
				trial, admitted := b.admit(b.clock.Now(), account)
				if state == BreakerOpen && rest > 0 && admitted {
					t.Fatal("an open breaker admits a call")
				}
				if admitted {
					open = append(open, call{account, trial})
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
				b.report(b.clock.Now(), open[i].account, open[i].trial, r)
				open = append(open[:i], open[i+1:]...)
			},
			"wait": func(t *rapid.T) {
				b.clock.pass(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
			},
		})
		for _, c := range open {
			b.report(b.clock.Now(), c.account, c.trial, resultNone)
		}
		b.clock.pass(maxBreakerPause)
		for _, account := range []string{"a", "b", "c"} {
			if !b.callOf(account, resultWell) {
				t.Fatal("nothing is tried after the longest pause")
			}
			if state, _ := b.look(b.clock.Now(), account); state != BreakerClosed {
				t.Fatalf("one success leaves it %v", state)
			}
		}
		b.clock.pass(breakerWindow)
		b.callOf("a", resultWell)
		if b.worst() != BreakerClosed {
			t.Fatal("a circuit is left open")
		}
	})
}
