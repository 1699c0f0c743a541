package server_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"sync"
	"testing"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// Killed at any moment, the program counts in its reports what its records say, to the last billionth of a dollar, and no
// answer that a client has received whole is missing there.
func TestKilledAnywhereTheProgramReportsWhatItsRecordsCost(t *testing.T) {
	if testing.Short() {
		t.Skip("rounds of a killed process, one after the other")
	}
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv(envKillRounds)); err == nil {
		rounds = n
	}
	up, err := provider.Start(provider.Options{Keep: -1, FreshIDs: true})
	ok(t, err)
	defer func() { ok(t, up.Close()) }()
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(16, 0)) // a seed of its own, so that a finding can be repeated
	received := 0
	for range rounds {
		p := startProgram(t, dir, up, "")
		received += p.spendAndKill(20 + random.IntN(150))
	}
	p := startProgram(t, dir, up, "")
	defer p.kill()
	var recorded record.USD
	requests := 0
	for after := ""; ; {
		var page struct {
			Data    []record.ExchangeInfo
			LastID  string `json:"last_id"`
			HasMore bool   `json:"has_more"`
		}
		p.recall(t, http.MethodGet, "/v1/memory/exchanges?limit=100&after="+after, "", &page)
		for _, x := range page.Data {
			requests++
			if x.Cost != nil {
				recorded += x.Cost.USD
			}
		}
		if after = page.LastID; !page.HasMore {
			break
		}
	}
	var report api.Usage
	p.recall(t, http.MethodGet, "/v1/memory/usage?by=model", "", &report)
	if report.Total.Cost.USD != recorded || recorded == 0 || requests < received {
		t.Errorf("after %d kills the report says %v USD, and %d records %v; %d answers were received", rounds, report.Total.Cost.USD, requests, recorded, received)
	}
	t.Logf("%d kills, %d records, %v USD", rounds, requests, recorded)
}

// spendAndKill has clients spend until so many answers were received, and gives how many were when the program was killed.
func (p *program) spendAndKill(until int) (received int) {
	transport := &http.Transport{MaxIdleConnsPerHost: 8}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var mu sync.Mutex
	var running sync.WaitGroup
	for c := range 8 {
		running.Go(func() {
			for i := 0; ; i++ {
				a := p.ask(client, chat, chat.body(fmt.Sprintf(`text "hi"; usage input=%d cached=%d output=%d`, 1000+i, 10*c, 1+c), i%2 == 0))
				if !a.complete {
					return
				}
				mu.Lock()
				if received++; received == until {
					_ = p.process.Process.Kill()
				}
				mu.Unlock()
			}
		})
	}
	running.Wait()
	p.kill()
	return received
}
