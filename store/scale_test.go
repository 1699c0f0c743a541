package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// scaleExchanges sets how many exchanges [TestListsStayQuickInALargeStore] captures; without it the test is left out.
const scaleExchanges = "MNEME_TEST_SCALE"

// TestListsStayQuickInALargeStore fills a store and reports what it took, the memory of the process, and how long lists
// and single exchanges take. It asserts nothing about time: machines differ.
func TestListsStayQuickInALargeStore(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv(scaleExchanges))
	if err != nil {
		t.Skipf("set %s to a number of exchanges", scaleExchanges)
	}
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	const workers = 32
	text := newAgent(1).words(1 << 20)
	started := time.Now()
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range n / workers {
				at := rng.IntN(len(text) - 2000)
				body := fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":"%s"}]}`, text[at:at+300])
				c, err := s.Begin(context.Background(), &Opening{
					Account: "acme", Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "m",
					ChatKey: fmt.Sprintf("chat %d/%d", worker, i/10), Body: body, Spans: blocksOf(t, body),
				})
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = c.Write([]byte(text[at+300 : at+1000]))
				if err := c.Finish(context.Background(), &Closing{Outcome: OutcomeComplete, Status: 200, ResponseID: c.ID()}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	took := time.Since(started)
	t.Logf("%d exchanges in %v, %.0f/s; %s", n, took.Round(time.Millisecond), float64(n)/took.Seconds(), memory(t))

	var lists, shows, sessions []time.Duration
	cursor := ""
	rng := rand.New(rand.NewPCG(2, 2))
	for range 500 {
		began := time.Now()
		page, err := s.Exchanges("acme", ExchangeQuery{After: cursor, Limit: 100})
		lists = append(lists, time.Since(began))
		if err != nil || len(page.Data) == 0 {
			t.Fatal(len(page.Data), err)
		}
		if cursor = page.Data[len(page.Data)-1].ID; !page.HasMore {
			cursor = ""
		}
		began = time.Now()
		if _, err := s.Exchange("acme", page.Data[rng.IntN(len(page.Data))].ID); err != nil {
			t.Fatal(err)
		}
		shows = append(shows, time.Since(began))
		began = time.Now()
		if _, err := s.Sessions("acme", SessionQuery{Limit: 100}); err != nil {
			t.Fatal(err)
		}
		sessions = append(sessions, time.Since(began))
	}
	t.Logf("list of 100: %s; show: %s; list of 100 sessions: %s", quantiles(lists), quantiles(shows), quantiles(sessions))
	began := time.Now()
	erase(t, s, "acme", Selection{ChatKey: "chat 0/0"})
	t.Logf("erasing one session, with the sweep: %v; %s", time.Since(began).Round(time.Millisecond), memory(t))
}

func quantiles(d []time.Duration) string {
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[int(q*float64(len(d)-1))].Round(time.Microsecond) }
	return fmt.Sprintf("p50 %v, p99 %v", at(0.5), at(0.99))
}

// memory gives the process's resident memory and its share that is no file's.
func memory(t *testing.T) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Log(err)
		return ""
	}
	var lines []string
	for line := range strings.Lines(string(status)) {
		if strings.HasPrefix(line, "VmRSS") || strings.HasPrefix(line, "RssAnon") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	return strings.Join(lines, ", ")
}
