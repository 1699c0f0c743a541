package store

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/record"
)

// crashDir is set in the process that is going to be killed.
const crashDir = "MNEME_TEST_CRASH_DIR"

// crashRounds sets how often the process is killed; the default keeps the test quick.
const crashRounds = "MNEME_TEST_CRASH_ROUNDS"

// TestAcknowledgedExchangesSurviveKill starts a process that captures from many goroutines and says what was
// acknowledged, kills it at a random moment, and looks at what it left, round after round in one store. Turns are made, exchanges
// erased, backups written and value logs rewritten meanwhile.
func TestAcknowledgedExchangesSurviveKill(t *testing.T) {
	if testing.Short() {
		t.Skip("rounds of a killed process, one after the other")
	}
	rounds := 10
	if n, err := strconv.Atoi(os.Getenv(crashRounds)); err == nil {
		rounds = n
	}
	var (
		dir      = t.TempDir()
		begun    = make(map[string]uint64)
		ended    = make(map[string]uint64)
		erased   = make(map[string]bool)
		verified = make(map[string]bool)
		random   = rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))

		rewritten int // value logs
	)
	for round := range rounds {
		logs := valueLogs(t, dir)
		runUntilKilled(t, dir, 5+random.IntN(120), uint64(round), begun, ended, erased)
		left := valueLogs(t, dir)
		rewritten += len(slices.DeleteFunc(logs, func(name string) bool { return slices.Contains(left, name) }))
		s, err := Open(crashOptions(dir))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		(&talk{t, s}).settle()
		if found := Damages(dir); len(found) > 0 {
			t.Errorf("what a killed process leaves is taken for damage: %+v", found)
		}
		verifyCrashed(t, s, begun, ended, erased, verified)
		mustBeSound(t, s)
		if round == rounds-1 { // what was sound after one crash is so after the last
			verifyCrashed(t, s, begun, ended, erased, make(map[string]bool))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if t.Failed() {
			t.Fatalf("after round %d", round)
		}
	}
	if rewritten == 0 {
		t.Error("no value log was rewritten before a kill")
	}
	t.Logf("%d rounds: %d exchanges begun, %d of them finished; %d value logs were rewritten before a kill", rounds, len(begun), len(ended), rewritten)
}

// valueLogs returns the value logs of a store that hold values.
func valueLogs(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, files.DatabaseDir, "*.vlog"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if info, err := os.Stat(name); err != nil {
			t.Fatal(err)
		} else if info.Size() > 1<<10 {
			names = append(names, name)
		}
	}
	return names
}

// runUntilKilled runs the victim and kills it after it has acknowledged n exchanges or so; in odd rounds counted from the moment
// at which it has compacted the store.
func runUntilKilled(t *testing.T, dir string, n int, round uint64, begun, ended map[string]uint64, erased map[string]bool) {
	t.Helper()
	victim := exec.Command(os.Args[0], "-test.run=^TestCrashVictim$")
	victim.Env = append(os.Environ(), crashDir+"="+dir, fmt.Sprintf("MNEME_TEST_CRASH_SEED=%d", round))
	victim.Stderr = os.Stderr
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(2*time.Minute, func() {
		t.Error("the victim has stopped capturing")
		_ = victim.Process.Kill()
	})
	defer hung.Stop()
	lines := bufio.NewScanner(out)
	for counting := round%2 == 0; lines.Scan(); {
		var what, id string
		var seed uint64
		if _, err := fmt.Sscan(lines.Text(), &what, &id, &seed); err != nil {
			continue
		}
		switch what {
		case "begun":
			begun[id] = seed
		case "erasing":
			delete(begun, id)
			delete(ended, id)
			erased[id] = true
		case "ended":
			if !erased[id] {
				ended[id] = seed
			}
			if counting {
				n--
			}
			if n == 0 {
				_ = victim.Process.Kill()
			}
		case "compacted":
			counting = true
		}
	}
	if err := victim.Wait(); err == nil {
		t.Fatal("the victim ended by itself")
	}
}

// verifyCrashed looks at all that is not verified yet, and for all that was acknowledged.
func verifyCrashed(t *testing.T, s *Store, begun, ended map[string]uint64, erased, verified map[string]bool) {
	t.Helper()
	seen := make(map[string]bool)
	seeds := make(map[string]bool)
	for query := (record.ExchangeQuery{Limit: 1000, Ascending: true}); ; {
		page, err := s.Archive().Exchanges("acme", query)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range page.Data {
			seen[info.ID] = true
			if seeds[info.ChatKey] {
				t.Errorf("exchange %s is there twice", info.ChatKey)
			}
			seeds[info.ChatKey] = true
			if !verified[info.ID] {
				verifyOne(t, s, info, ended, erased)
				verified[info.ID] = true
			}
			query.After = info.ID
		}
		if !page.HasMore {
			break
		}
	}
	for id := range begun {
		if !seen[id] {
			t.Errorf("%s was acknowledged as begun and is missing", id)
		}
	}
}

func verifyOne(t *testing.T, s *Store, info record.ExchangeInfo, ended map[string]uint64, erased map[string]bool) {
	t.Helper()
	x, err := s.Archive().Exchange("acme", info.ID)
	if erased[info.ID] {
		return // an erasure that the kill cut short may go on while we look
	}
	if err != nil {
		t.Errorf("%s: %v", info.ID, err)
		return
	}
	seed, _ := strconv.ParseUint(info.ChatKey, 10, 64)
	request, _, answer := crashExchange(seed)
	if !bytes.Equal(x.RawRequest, request) {
		t.Errorf("%s: request differs", info.ID)
	}
	_, mustBeWhole := ended[info.ID]
	switch {
	case info.Outcome == record.OutcomeComplete && !bytes.Equal(x.RawResponse, answer):
		t.Errorf("%s: answer differs", info.ID)
	case info.Outcome == record.OutcomeInterrupted && !bytes.HasPrefix(answer, x.RawResponse):
		t.Errorf("%s: partial answer is no beginning of the answer", info.ID)
	case info.Outcome == record.OutcomeInterrupted && mustBeWhole:
		t.Errorf("%s was acknowledged as finished and is interrupted", info.ID)
	case info.Outcome == record.OutcomeOpen:
		t.Errorf("%s is open in a store that has just been opened", info.ID)
	}
	entry, err := s.Feed().TurnAt(1, info.ID)
	switch gone := codec.AsError(err, "").Kind == codec.KindNotFound; {
	case gone:
	case err != nil || entry.Turn == nil:
		t.Errorf("%s has no turn (%v)", info.ID, err)
	case info.Outcome == record.OutcomeComplete && answerText(entry.Turn) != string(answer):
		t.Errorf("the turn of %s has another answer (%s)", info.ID, entry.Turn.Error)
	}
}

func answerText(turn *record.Turn) string {
	var b strings.Builder
	for i := range turn.Answer {
		for j := range turn.Answer[i].Parts {
			b.WriteString(turn.Answer[i].Parts[j].Text)
		}
	}
	return b.String()
}

// crashExchange returns the bytes of the exchange with a seed: histories share their fronts, answers are of all sizes.
func crashExchange(seed uint64) (request []byte, spans []codec.Span, answer []byte) {
	session, turn := seed%3, seed/3%7
	request = crashSessions()[session][turn]
	var e codec.Envelope
	if err := e.Read(request); err != nil {
		panic(err)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	n := rng.IntN(3000)
	if rng.IntN(8) == 0 {
		n = rng.IntN(1 << 20)
	}
	return request, e.Blocks(nil), []byte(strings.Repeat(fmt.Sprintf("data: %d\n\n", seed), n/8+1))
}

// crashSessions are the requests of three sessions of seven turns.
var crashSessions = sync.OnceValue(func() (sessions [3][7][]byte) {
	for i := range sessions {
		a := newAgentOf(uint64(i), 20)
		for turn := range sessions[i] {
			sessions[i][turn] = a.request()
			a.turn()
		}
	}
	return sessions
})

// TestCrashVictim is no test of its own: it is the process that [TestAcknowledgedExchangesSurviveKill] kills.
func TestCrashVictim(t *testing.T) {
	dir := os.Getenv(crashDir)
	if dir == "" {
		t.Skip("runs in a process of its own")
	}
	s, err := Open(crashOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Keys().AddStatic(strings.Repeat("k", 40), "acme", AllScopes); err != nil {
		t.Fatal(err)
	}
	round, _ := strconv.ParseUint(os.Getenv("MNEME_TEST_CRASH_SEED"), 10, 64)
	var out sync.Mutex
	say := func(what, id string, seed uint64) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf("%s %s %d\n", what, id, seed)
	}
	ids := make(chan string, 1000)
	for worker := range uint64(8) {
		go func() {
			for n := uint64(0); ; n++ {
				id, err := crashCapture(s, round*1_000_000+worker*10_000+n, say)
				if err != nil {
					panic(err)
				}
				ids <- id
			}
		}()
	}
	go func() { // erases one in eight, while backups run and value logs are rewritten
		for n := 0; ; n++ {
			id := <-ids
			if n%8 != 0 {
				continue
			}
			say("erasing", id, 0)
			if _, err := s.Archive().Erase(context.Background(), "acme", record.Selection{Exchanges: []string{id}}, false); err != nil {
				panic(err)
			}
		}
	}()
	for {
		if _, err := s.Upkeep().Backup(context.Background(), io.Discard, 0); err != nil {
			t.Error(err)
		}
		if err := s.Upkeep().Compact(context.Background()); err != nil {
			t.Error(err)
		}
		say("compacted", "-", 0)
	}
}

// crashOptions make value logs so small that some are rewritten before the kill.
func crashOptions(dir string) Options {
	return Options{Dir: dir, Digest: digestTest, valueLogSize: 1 << 20}
}

func crashCapture(s *Store, seed uint64, say func(what, id string, seed uint64)) (id string, err error) {
	ctx := context.Background()
	request, spans, answer := crashExchange(seed)
	c, err := s.Begin(ctx, &record.Opening{
		Account: "acme", Surface: codec.Messages, Format: codec.Messages, Body: request, Spans: spans,
		ChatKey: strconv.FormatUint(seed, 10),
	})
	if err != nil {
		return "", err
	}
	if err := c.Recorded(ctx); err != nil {
		return "", err
	}
	say("begun", c.ID(), seed)
	for len(answer) > 0 {
		n := min(len(answer), 4096)
		if _, err := c.Write(answer[:n]); err != nil {
			return "", err
		}
		answer = answer[n:]
	}
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		return "", err
	}
	say("ended", c.ID(), seed)
	return c.ID(), nil
}
