package router

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// hedging makes a cluster whose calls are hedged after a time.
func hedging(t *testing.T, endpoints, keys int, after time.Duration, change ...func(*Config)) *cluster {
	return newCluster(t, endpoints, keys, append(change, func(c *Config) { c.HedgeAfter = after })...)
}

const (
	atOnce = time.Nanosecond // before any answer can be there, where the answer waits for the test
	never  = time.Hour
)

// behind lets one place keep whoever calls waiting until they give up, which it tells, and another one answer once the
// first has been asked.
func (u *cluster) behind(first, second string) (left <-chan struct{}) {
	asked, gone := make(chan struct{}), make(chan struct{})
	u.answerRequest(first, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
		close(gone)
	})
	u.answer(second, func(w http.ResponseWriter) { <-asked; _, _ = w.Write([]byte("{}")) })
	return gone
}

// mustAskBoth wants a call to be made at two places, in whichever order it gets there, and to be answered.
func (u *cluster) mustAskBoth(places ...string) {
	u.t.Helper()
	asked, status, fault := u.call()
	slices.Sort(asked)
	slices.Sort(places)
	if !slices.Equal(asked, places) || status != 200 {
		u.t.Errorf("asked %q and ended with %d, %v; want %q and 200", asked, status, fault, places)
	}
}

func TestACallThatIsKeptWaitingIsMadeAtAnotherPlace(t *testing.T) {
	u := hedging(t, 2, 1, never)
	first, second := u.favourite("e1", "e2")
	u.provider.hedgeAfter = atOnce
	left := u.behind(first, second)
	u.mustAskBoth(first+" k1", second+" k1")
	<-left // whoever answers too late is told to stop
	if a := u.attempts; len(a) != 2 || a[0].Failure != FailureOutrun || a[1].Failure != FailureNone || u.addresses[a[1].Address] != second ||
		a[0].Resends != 0 || a[1].Resends != 1 {
		t.Errorf("told of %+v", a)
	}
}

func TestAnotherKeyIsTheOtherPlaceOfAnOnlyEndpoint(t *testing.T) {
	u := hedging(t, 1, 2, never)
	first, second := u.favourite("k1", "k2")
	u.provider.hedgeAfter = atOnce
	u.behind(first, second)
	u.mustAskBoth("e1 "+first, "e1 "+second)
}

func TestAnAnswerInTimeIsNotHedged(t *testing.T) {
	u := hedging(t, 2, 2, never)
	if asked, status, fault := u.call(); len(asked) != 1 || status != 200 {
		t.Errorf("asked %q and ended with %d, %v", asked, status, fault)
	}
}

func TestTheFirstAttemptMayStillWin(t *testing.T) {
	u := hedging(t, 2, 1, never)
	first, second := u.favourite("e1", "e2")
	u.provider.hedgeAfter = atOnce
	hedged := make(chan struct{})
	u.answer(first, func(w http.ResponseWriter) { <-hedged; _, _ = w.Write([]byte("{}")) })
	u.answerRequest(second, func(_ http.ResponseWriter, r *http.Request) { close(hedged); <-r.Context().Done() })
	u.mustAskBoth(first+" k1", second+" k1")
	if a := u.attempts; len(a) != 2 || u.addresses[a[0].Address] != second || a[0].Failure != FailureOutrun || u.addresses[a[1].Address] != first {
		t.Errorf("told of %+v", a)
	}
}

// A hedge that fails leaves the first attempt to go on; when both fail a third place is tried.
func TestAHedgeThatFailsDecidesNothing(t *testing.T) {
	u := hedging(t, 3, 1, never)
	asked, _, _ := u.call()
	first := strings.Fields(asked[0])[0]
	u.provider.hedgeAfter = atOnce
	failed := make(chan struct{})
	u.answer(first, func(w http.ResponseWriter) { <-failed; status(500)(w) })
	others := slices.DeleteFunc([]string{"e1", "e2", "e3"}, func(e string) bool { return e == first })
	var tried int
	for _, e := range others {
		u.answer(e, func(w http.ResponseWriter) {
			u.mu.Lock()
			tried++
			n := tried
			u.mu.Unlock()
			if n == 1 {
				defer close(failed)
				status(502)(w)
				return
			}
			_, _ = w.Write([]byte("{}"))
		})
	}
	asked, status, fault := u.call()
	if len(asked) != 3 || status != 200 {
		t.Fatalf("asked %q and ended with %d, %v", asked, status, fault)
	}
	if a := u.attempts; len(a) != 3 || a[0].Status+a[1].Status != 500+502 || a[2].Failure != FailureNone {
		t.Errorf("told of %+v", a)
	}
}

func TestWithOnePlaceOnlyACallWaits(t *testing.T) {
	u := hedging(t, 1, 1, atOnce)
	slow := make(chan struct{})
	u.answer("e1", func(w http.ResponseWriter) { <-slow; _, _ = w.Write([]byte("{}")) })
	time.AfterFunc(20*time.Millisecond, func() { close(slow) })
	u.mustAsk([]string{"e1 k1"}, 200)
	u.mustAsk([]string{"e1 mine"}, 200, func(c *Call) { c.Credential = Credential{Header: "Authorization", Value: "Bearer mine"} })
}

// Where everything is slow, hedges would double the load: they are paid for as retries are.
func TestHedgesStayAFractionOfTheCalls(t *testing.T) {
	u := hedging(t, 2, 1, atOnce)
	const calls = 200
	asked := 0
	for range calls {
		u.answer("k1", func(w http.ResponseWriter) { time.Sleep(time.Millisecond); _, _ = w.Write([]byte("{}")) })
		places, _, _ := u.call()
		asked += len(places)
	}
	if most := calls + fullBudget/oneRetry + calls*earnedPerCall/oneRetry; asked <= calls || asked > most {
		t.Errorf("%d calls made %d requests, want more, and at most %d", calls, asked, most)
	}
}

// Two attempts share the bytes of one request, which belong to the caller again behind the call.
func TestAHedgedCallGivesItsBytesBack(t *testing.T) {
	u := hedging(t, 2, 1, never)
	first, second := u.favourite("e1", "e2")
	u.provider.hedgeAfter = atOnce
	u.behind(first, second)
	body := []byte(`{"model":"m","messages":[]}`)
	_, status, fault := u.call(func(c *Call) { c.Body = body })
	for i := range body { // the race detector sees whoever still reads
		body[i] = 'x'
	}
	if status != 200 {
		t.Errorf("ended with %d, %v", status, fault)
	}
}

func TestACallerWhoLeavesEndsBothAttempts(t *testing.T) {
	u := hedging(t, 2, 1, atOnce)
	reached := make(chan struct{}, 2)
	var gone sync.WaitGroup
	gone.Add(2)
	u.answerRequest("k1", func(_ http.ResponseWriter, r *http.Request) {
		reached <- struct{}{}
		<-r.Context().Done()
		gone.Done()
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() {
		<-reached
		<-reached
		leave()
	}()
	if _, fault := u.provider.Do(ctx, chatCall()); fault == nil || !errors.Is(fault, context.Canceled) {
		t.Errorf("ended with %v", fault)
	}
	gone.Wait()
}
