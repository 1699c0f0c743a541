package quota

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func TestAKeyWithoutLimitsNeedsNoState(t *testing.T) {
	var table Table
	pass, refusal := table.Enter(noon, "key_a", store.Limits{}, nil, 1<<40)
	if pass != nil || refusal != nil || len(table.keys) != 0 {
		t.Errorf("%+v, %+v, %d states", pass, refusal, len(table.keys))
	}
	pass.Leave(noon, 1)
	if n := testing.AllocsPerRun(100, func() { _, _ = table.Enter(noon, "key_a", store.Limits{}, nil, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestRequestsOfAMinuteComeBackEvenly(t *testing.T) {
	var table Table
	limits := store.Limits{RequestsPerMinute: 3}
	for i := range int64(3) {
		pass, refusal := table.Enter(noon, "key_a", limits, nil, 10)
		if refusal != nil || pass.Standing.Requests.Remaining != 2-i {
			t.Fatalf("request %d: %+v %+v", i, pass, refusal)
		}
		if want := time.Duration(i+1) * 20 * time.Second; pass.Standing.Requests.Reset != want {
			t.Errorf("reset in %v, want %v", pass.Standing.Requests.Reset, want)
		}
	}
	_, refusal := table.Enter(noon.Add(5*time.Second), "key_a", limits, nil, 10)
	if refusal == nil || refusal.Limit != RequestsPerMinute || refusal.Error.Kind != codec.KindRateLimited || refusal.Error.RetryAfter.Round(time.Millisecond) != 15*time.Second {
		t.Fatalf("the fourth: %+v", refusal)
	}
	if _, other := table.Enter(noon, "key_b", limits, nil, 10); other != nil {
		t.Errorf("another key is kept out by it: %+v", other)
	}
	if _, again := table.Enter(noon.Add(5*time.Second+refusal.Error.RetryAfter), "key_a", limits, nil, 10); again != nil {
		t.Errorf("after the wait: %+v", again)
	}
}

func TestAnEstimateGivesWayToWhatWasUsed(t *testing.T) {
	var table Table
	limits := store.Limits{TokensPerMinute: 600} // ten a second
	enter := func(at time.Time, estimate int64) (*Pass, *Refusal) {
		return table.Enter(at, "key_a", limits, nil, estimate)
	}
	first, refusal := enter(noon, 400)
	if refusal != nil || first.Standing.Tokens.Remaining != 200 {
		t.Fatalf("%+v %+v", first, refusal)
	}
	if _, refusal = enter(noon, 201); refusal == nil || refusal.Limit != TokensPerMinute {
		t.Fatal("what is estimated is not set aside")
	}
	first.Leave(noon, 900) // 300 below zero
	_, refusal = enter(noon, 1)
	if refusal == nil || refusal.Error.RetryAfter.Round(time.Millisecond) != 30*time.Second+100*time.Millisecond {
		t.Fatalf("below zero: %+v", refusal)
	}
	second, refusal := enter(noon.Add(2*time.Minute), 5000) // larger than the bucket, which is full
	if refusal != nil {
		t.Fatalf("a prompt over the limit never gets in: %+v", refusal)
	}
	second.Leave(noon, 0) // it failed
	if _, refusal = enter(noon.Add(2*time.Minute), 600); refusal != nil {
		t.Errorf("what a failed request set aside is not given back: %+v", refusal)
	}
}

func TestWhatWasUsedWithoutALimitIsNotHeldAgainstOneThatComesLater(t *testing.T) {
	var table Table
	before := store.Limits{Concurrent: 10}
	for range 100 {
		pass, refusal := table.Enter(noon, "key_a", before, nil, 1000)
		if refusal != nil {
			t.Fatal(refusal.Error)
		}
		pass.Leave(noon, 1_000_000)
	}
	open, refusal := table.Enter(noon, "key_a", before, nil, 1000)
	if refusal != nil {
		t.Fatal(refusal.Error)
	}
	after := store.Limits{Concurrent: 10, RequestsPerMinute: 10, TokensPerMinute: 10_000}
	pass, refusal := table.Enter(noon.Add(time.Second), "key_a", after, nil, 1000)
	if refusal != nil {
		t.Fatalf("the first request under the new limits: %v", refusal.Error)
	}
	if s := pass.Standing; s.Requests.Remaining != 9 || s.Tokens.Remaining != 9000 {
		t.Errorf("the new limits begin with %+v", s)
	}
	open.Leave(noon, 1000)
}

func TestADebtOfAnyDepthIsAWait(t *testing.T) {
	var table Table
	limits := store.Limits{TokensPerMinute: 1}
	pass, refusal := table.Enter(noon, "key_a", limits, nil, 1)
	if refusal != nil {
		t.Fatal(refusal.Error)
	}
	pass.Leave(noon, 1<<40)
	if _, refusal = table.Enter(noon, "key_a", limits, nil, 1); refusal == nil || refusal.Error.RetryAfter <= 0 {
		t.Errorf("a key that is %d tokens below its limit gets %+v", int64(1)<<40, refusal)
	}
}

func TestExchangesAtATimeAreFreedWhenTheyEnd(t *testing.T) {
	var table Table
	limits := store.Limits{Concurrent: 2}
	var passes []*Pass
	for range 2 {
		pass, refusal := table.Enter(noon, "key_a", limits, nil, 0)
		if refusal != nil {
			t.Fatal(refusal.Error)
		}
		passes = append(passes, pass)
	}
	_, refusal := table.Enter(noon, "key_a", limits, nil, 0)
	if refusal == nil || refusal.Limit != Concurrent || refusal.Error.RetryAfter != time.Second {
		t.Fatalf("%+v", refusal)
	}
	passes[0].Leave(noon, 0)
	if _, refusal = table.Enter(noon, "key_a", limits, nil, 0); refusal != nil {
		t.Error(refusal.Error)
	}
}

func TestTheBudgetOfAMonthBeginsAgain(t *testing.T) {
	var table Table
	use, limits := new(store.KeyUse), store.Limits{TokensPerMonth: 100}
	use.AddTokens(noon, 99)
	if _, refusal := table.Enter(noon, "key_a", limits, use, 1000); refusal != nil {
		t.Fatal(refusal.Error)
	}
	use.AddTokens(noon, 1)
	_, refusal := table.Enter(noon, "key_a", limits, use, 1)
	if refusal == nil || refusal.Limit != TokensPerMonth || refusal.Error.Kind != codec.KindQuota {
		t.Fatalf("%+v", refusal)
	}
	if _, next := table.Enter(noon.Add(refusal.Error.RetryAfter), "key_a", limits, use, 1); next != nil {
		t.Errorf("in the next month: %+v", next)
	}
}

func TestTheBudgetOfAMonthIsReservedBeforeItIsUsed(t *testing.T) {
	var table Table
	use, limits := new(store.KeyUse), store.Limits{TokensPerMonth: 100, RequestsPerMinute: 60}
	enter := func(tokens int64) (*Pass, *Refusal) {
		t.Helper()
		pass, refusal := table.Enter(noon, "key_a", limits, use, 1)
		if refusal != nil {
			return nil, refusal
		}
		refusal = pass.Reserve(noon, tokens)
		return pass, refusal
	}
	first, refusal := enter(60)
	if refusal != nil {
		t.Fatal(refusal.Error)
	}
	second, refusal := enter(1 << 62) // the last one may exceed what is left
	if refusal != nil {
		t.Fatal(refusal.Error)
	}
	for range 60 {
		third, refusal := enter(1)
		if refusal == nil || refusal.Limit != TokensPerMonth || refusal.Error.Kind != codec.KindRateLimited || refusal.Error.RetryAfter != time.Second {
			t.Fatalf("with everything reserved: %+v", refusal)
		}
		third.Leave(noon, 0)
	}
	second.Leave(noon, 30)
	if fourth, refusal := enter(5); refusal != nil {
		t.Errorf("60 reserved and 30 used of 100: %v", refusal.Error)
	} else if got := fourth.Standing.Requests.Remaining; got != 57 {
		t.Errorf("of 60 requests a minute %d remain: those that were turned away count", got)
	}
	first.Leave(noon, 70)
	if got := use.Tokens(noon); got != 100 {
		t.Errorf("%d tokens are counted", got)
	}
	if _, refusal = enter(1); refusal == nil || refusal.Error.Kind != codec.KindQuota {
		t.Errorf("used up: %+v", refusal)
	}
}

// However requests come, and whatever they turn out to use: a wait that was served lets the same request in, and no minute
// starts more requests than two buckets hold.
func TestLimitsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := store.Limits{
			RequestsPerMinute: rapid.Int64Range(1, 50).Draw(t, "requests"), TokensPerMinute: rapid.Int64Range(1, 5000).Draw(t, "tokens"),
		}
		var table Table
		now := noon
		var let []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.Int64Range(0, int64(10*time.Second)).Draw(t, "pause")))
			estimate := rapid.Int64Range(0, 6000).Draw(t, "estimate")
			pass, refusal := table.Enter(now, "key_a", limits, nil, estimate)
			for range 2 { // each of the two limits may ask for a wait of its own
				if refusal == nil {
					break
				}
				if refusal.Error.RetryAfter <= 0 {
					t.Fatalf("refused without a wait: %+v", refusal.Error)
				}
				now = now.Add(refusal.Error.RetryAfter)
				pass, refusal = table.Enter(now, "key_a", limits, nil, estimate)
			}
			if refusal != nil {
				t.Fatalf("after both waits: %+v", refusal.Error)
			}
			let = append(let, now)
			pass.Leave(noon, rapid.Int64Range(0, 8000).Draw(t, "used"))
		}
		for i, from := range let {
			started := int64(0)
			for _, at := range let[i:] {
				if at.Sub(from) < time.Minute {
					started++
				}
			}
			if started > 2*limits.RequestsPerMinute {
				t.Fatalf("%d requests in a minute of at most %d", started, limits.RequestsPerMinute)
			}
		}
	})
}
