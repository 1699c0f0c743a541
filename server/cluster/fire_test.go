package cluster

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/record"
)

// fireTimeout is how long a cluster that was killed may take to be one again.
const fireTimeout = 5 * time.Minute

// turns is how many turns each conversation of the fire test has.
const turns = 6

// fire is a cluster under fire, and what was acknowledged of it.
type fire struct {
	t       *testing.T
	dir     string
	brokers []*process
	centre  *process
	second  *process          // beside it
	engines map[string]engine // by name, what the centres keep their memory in
	workers []*process        // that share the centres' work
	edges   []*process

	mu           sync.Mutex
	acknowledged []acknowledged
	ended        []string          // conversations of which every turn was acknowledged, and which were not asked to be erased
	erased       map[string]string // those that were, and the receipt; "": it was not heard whether they are
}

// engine is a database or a service that can be killed, and runs again with all that it has acknowledged.
type engine interface {
	Kill()
	Run(t testing.TB)
}

// acknowledged is a turn that an edge has said to be on record.
type acknowledged struct {
	order
	id    string
	local bool // the brokers did not have it then
}

// TestNothingAcknowledgedIsLostUnderFire kills brokers, edges, the centre, its workers, its database and its bucket at random, all
// brokers and centres at once in between, and then empties the disks of one broker, of two, and of an edge while the centres are
// away. Conversations go on over all edges meanwhile, and some that have ended are erased.
// MNEME_TEST_FIRE says for how long nodes are killed; see make fire.
func TestNothingAcknowledgedIsLostUnderFire(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("MNEME_TEST_FIRE"))
	if err != nil {
		t.Skip("set MNEME_TEST_FIRE to how long nodes are to be killed, such as 30s")
	}
	t.Run("Postgres", func(t *testing.T) {
		if length < time.Minute && s3test.Program() != "" {
			t.Skip("left to the run with a bucket, which has a database as well; set MNEME_TEST_FIRE to a minute or more")
		}
		server := postgrestest.Start(t, false)
		f := &fire{t: t, dir: t.TempDir(), engines: map[string]engine{"postgres": server}}
		f.run(length, server.Database(t), "")
	})
	t.Run("Postgres and S3", func(t *testing.T) {
		server, service := postgrestest.Start(t, false), s3test.Start(t)
		f := &fire{t: t, dir: t.TempDir(), engines: map[string]engine{"postgres": server, "s3": service}}
		f.run(length, server.Database(t), service.Bucket(t))
	})
}

// run has a cluster under fire for some time. The URLs are of the centres' database and of the bucket of their bodies, "" for none.
func (f *fire) run(length time.Duration, database, bodies string) {
	t := f.t
	var urls []string
	f.brokers, urls = startBrokers(t, f.dir)
	f.centre = startNode(t, role{Kind: "centre", Dir: filepath.Join(f.dir, "centre"), NATS: urls, Postgres: database, Bodies: bodies})
	f.erased = make(map[string]string)
	f.second = startNode(t, role{Kind: "centre", Dir: filepath.Join(f.dir, "centre-2"), Node: 12, NATS: urls, Postgres: database, Bodies: bodies})
	for n := range 2 {
		dir := filepath.Join(f.dir, fmt.Sprintf("worker-%d", n+1)) // of its log alone
		f.workers = append(f.workers, startNode(t, role{Kind: "worker", Dir: dir, NATS: urls, Postgres: database, Bodies: bodies}))
	}
	for n := range 3 {
		f.edges = append(f.edges, startNode(t, role{Kind: "edge", Dir: filepath.Join(f.dir, fmt.Sprintf("edge-%d", n+1)), Node: uint16(n + 1), NATS: urls}))
	}
	f.converse("first", 4) // the stream is there
	f.confirmed()

	stop := make(chan struct{})
	var talking sync.WaitGroup
	for speaker := range 4 {
		talking.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				f.converse(fmt.Sprintf("%d-%d", speaker, n), uint64(speaker*1_000_000+n))
			}
		})
	}
	talking.Go(func() {
		for n := uint64(0); ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(eraseEach):
				f.erase(n)
			}
		}
	})
	kills := f.killFor(length)
	close(stop)
	talking.Wait()
	// Turns follow one another without a pause, and one that waits for nothing takes the least time: their share says little about how
	// long the brokers were away. After the loss of the stream's leader that is an election, which NATS begins after 4 to 9 seconds, and
	// up to reach for a message whose acknowledgement was lost with it.
	local := 0
	for _, a := range f.acknowledged {
		if a.local {
			local++
		}
	}
	t.Logf("killed in %v: %v; acknowledged so far: %d, %d of them without the brokers", length, kills, len(f.acknowledged), local)
	f.confirmed()

	for round, emptied := range [][]*process{f.brokers[:1], f.brokers[1:]} {
		f.converse(fmt.Sprintf("before-%d", round), 1)
		for _, broker := range emptied {
			broker.kill()
			if err := os.RemoveAll(broker.role.Dir); err != nil {
				t.Fatal(err)
			}
		}
		f.converse(fmt.Sprintf("while-%d", round), 2)
		for _, broker := range emptied {
			broker.start()
		}
		f.converse(fmt.Sprintf("after-%d", round), 3)
		f.confirmed()
	}
	f.loseAnEdge()
	f.compareReceipts()
	for _, node := range slices.Concat(f.edges, f.centres()) {
		if err := node.end(); err != nil {
			t.Errorf("%s %d ends with %v", node.role.Kind, node.role.Node, err)
		}
	}
	f.compare()
}

// loseAnEdge has the centre away while there are conversations, and then an edge lose its disk.
func (f *fire) loseAnEdge() {
	for attempt := uint64(0); ; attempt++ {
		f.converse(fmt.Sprintf("calm-%d", attempt), attempt)
		if last := f.acknowledged[len(f.acknowledged)-turns:]; !slices.ContainsFunc(last, func(a acknowledged) bool { return a.local }) {
			break // the brokers are there again
		}
		if attempt == 1000 {
			f.t.Fatal("the brokers do not take what the edges ship")
		}
	}
	f.confirmed()
	for _, node := range f.centres() {
		node.kill()
	}
	f.converse("without the centre", 1)
	for _, a := range f.acknowledged[len(f.acknowledged)-turns:] {
		if a.local {
			f.t.Logf("turn %d is on its edge alone, and may be lost with it", a.Turn)
		}
	}
	lost := f.edges[0]
	lost.kill()
	if err := os.RemoveAll(lost.role.Dir); err != nil {
		f.t.Fatal(err)
	}
	f.acknowledged = slices.DeleteFunc(f.acknowledged, func(a acknowledged) bool { return a.local && a.Conversation == "without the centre" })
	lost.start()
	for _, node := range f.centres() {
		node.start()
	}
	f.confirmed()
	f.drained()
}

// centres are the centre, the one beside it, and the workers.
func (f *fire) centres() []*process {
	return append([]*process{f.centre, f.second}, f.workers...)
}

// eraseEach is how often a conversation is erased.
const eraseEach = 500 * time.Millisecond

// erase has the centre erase a conversation that has ended.
func (f *fire) erase(n uint64) {
	f.mu.Lock()
	if len(f.ended) == 0 {
		f.mu.Unlock()
		return
	}
	at := int(n) % len(f.ended)
	name := f.ended[at]
	f.ended = slices.Delete(f.ended, at, at+1)
	f.erased[name] = ""
	f.mu.Unlock()
	centre := f.centre
	if n%2 == 1 {
		centre = f.second
	}
	answer, heard := centre.do(order{Erase: name})
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case answer.ID != "":
		f.erased[name] = answer.ID
	case heard: // the centre does not have it yet
		delete(f.erased, name)
		f.ended = append(f.ended, name)
	}
}

// compareReceipts sees that each erasure comes to its end, at every place that there is.
func (f *fire) compareReceipts() {
	f.t.Helper()
	want := map[string]record.PlaceState{
		"centre": record.PlaceErased, "edge 1": record.PlaceErased, "edge 2": record.PlaceErased, "edge 3": record.PlaceErased,
		"brokers": record.PlaceErased, "reasoning state": record.PlaceWaiting, "backups": record.PlaceNotReached,
	}
	receipts := 0
	for name, id := range f.erased {
		if id == "" {
			continue
		}
		receipts++
		var answer report
		deadline := time.Now().Add(fireTimeout)
		for {
			answer, _ = f.centre.do(order{Receipt: id})
			said := make(map[string]record.PlaceState)
			for _, p := range answer.Places {
				said[p.Place] = p.State
			}
			if answer.State == record.ErasureDone && maps.Equal(said, want) {
				break
			}
			if time.Now().After(deadline) {
				f.t.Fatalf("the receipt of %s says %+v, want at the places %v", name, answer, want)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	f.t.Logf("%d conversations were erased, and their receipts say so of every place; of %d more nobody knows", receipts, len(f.erased)-receipts)
}

// compareErased sees that nothing is left anywhere of what was erased.
func (f *fire) compareErased(archive answering) {
	stores := make([]answering, 0, 1+len(f.edges))
	stores = append(stores, archive)
	for _, edge := range f.edges {
		stores = append(stores, openStore(f.t, edge.role.Dir).Archive())
	}
	for _, a := range f.acknowledged {
		if f.erased[a.Conversation] == "" {
			continue
		}
		for n, s := range stores {
			if _, err := s.Exchange("acme", a.id); codec.AsError(err, "").Kind != codec.KindNotFound {
				f.t.Errorf("turn %d of %s, %s, was erased, and at %d (0: the centre) there is %v", a.Turn, a.Conversation, a.id, n, err)
			}
		}
	}
	for name, id := range f.erased {
		if id == "" {
			continue
		}
		for n, s := range stores {
			page, err := s.Sessions("acme", record.SessionQuery{ChatKey: name})
			if err != nil || len(page.Data) > 0 {
				f.t.Errorf("%s was erased, and at %d (0: the centre) there are %d sessions of it (%v)", name, n, len(page.Data), err)
			}
		}
	}
}

// drained waits until the centre has freed all that the brokers hold. The frames of an edge that has lost its disk are confirmed
// to nobody.
func (f *fire) drained() {
	f.t.Helper()
	conn, err := nats.Connect(strings.Join(f.centre.role.NATS, ","))
	if err != nil {
		f.t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		f.t.Fatal(err)
	}
	eventually(f.t, "the brokers hold nothing any more", func() bool {
		stream, err := js.Stream(f.t.Context(), streamName)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
}

// converse has a conversation whose turns go to edges at random. A turn of which nobody hears that it is on record is sent
// again, to the next edge, as a client would.
func (f *fire) converse(name string, seed uint64) {
	pick := rand.New(rand.NewPCG(seed, 1))
	for turn, attempt := 0, 0; turn < turns; attempt++ {
		asked := order{Conversation: name, Turn: turn, Answer: fmt.Sprintf("answer %d of %s, attempt %d", turn, name, attempt)}
		answer, ok := f.edges[pick.IntN(len(f.edges))].do(asked)
		if !ok {
			time.Sleep(10 * time.Millisecond) // until it is started again
			continue
		}
		f.mu.Lock()
		f.acknowledged = append(f.acknowledged, acknowledged{asked, answer.ID, answer.Local})
		f.mu.Unlock()
		turn++
		time.Sleep(20 * time.Millisecond) // a client thinks between its turns
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = append(f.ended, name)
}

// killFor kills nodes for some time, and starts each again.
func (f *fire) killFor(length time.Duration) map[string]int {
	kills := make(map[string]int)
	chance := rand.New(rand.NewPCG(1, 2))
	pause := func(least, most time.Duration) { time.Sleep(least + time.Duration(chance.Int64N(int64(most-least)))) }
	for end := time.Now().Add(length); time.Now().Before(end); {
		pause(200*time.Millisecond, 1500*time.Millisecond)
		for _, name := range slices.Sorted(maps.Keys(f.engines)) {
			if chance.IntN(5) > 0 {
				continue
			}
			f.engines[name].Kill()
			kills[name]++
			pause(0, 2*time.Second)
			f.engines[name].Run(f.t)
		}
		var struck []*process
		switch n := chance.IntN(20); {
		case n < 7:
			struck = []*process{f.brokers[chance.IntN(3)]}
		case n < 12:
			struck = []*process{f.edges[chance.IntN(len(f.edges))]}
		case n < 18:
			all := f.centres()
			struck = all[chance.IntN(len(all)):][:1]
		default:
			struck = slices.Concat(f.brokers, f.centres())
			kills["outage"]++
		}
		for _, node := range struck {
			node.kill()
			kills[node.role.Kind]++
		}
		pause(0, time.Second)
		if len(struck) > 1 {
			pause(time.Second, 3*time.Second)
		}
		for _, node := range struck {
			node.start()
		}
	}
	return kills
}

// confirmed waits until the centre has confirmed everything.
func (f *fire) confirmed() {
	f.t.Helper()
	deadline := time.Now().Add(fireTimeout)
	for _, edge := range f.edges {
		for {
			answer, ok := edge.do(order{})
			if ok && answer.Waiting == 0 {
				break
			}
			if time.Now().After(deadline) {
				f.t.Fatalf("edge %d waits with %d exchanges for the centre", edge.role.Node, answer.Waiting)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}

// archive is what the centre has, once that has ended.
func (f *fire) archive() answering {
	s := openStore(f.t, f.centre.role.Dir)
	kept, err := openCatalog(s, f.centre.role.Postgres, f.centre.role.Bodies, catalog.Seat{Name: "centre", Store: f.centre.role.Dir})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(kept.Close)
	return kept
}

// answering returns what a centre has.
type answering interface {
	Exchange(account, id string) (*record.Exchange, error)
	Exchanges(account string, q record.ExchangeQuery) (record.ExchangePage, error)
	Sessions(account string, q record.SessionQuery) (record.SessionPage, error)
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
}

// compare compares what was acknowledged with what the centre has.
func (f *fire) compare() {
	t := f.t
	archive := f.archive()
	f.compareErased(archive)
	answers, found := make(map[string]int), make(map[string]string) // by id
	for q := (record.ExchangeQuery{Limit: 1000, Ascending: true}); ; {
		page, err := archive.Exchanges("acme", q)
		if err != nil {
			t.Fatal(err)
		}
		exchanges, err := readAll(archive, page.Data)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range exchanges {
			found[x.ID] = string(x.RawResponse)
			if x.Outcome == record.OutcomeComplete {
				answers[string(x.RawResponse)]++
			}
		}
		if !page.HasMore {
			break
		}
		q.After = page.Data[len(page.Data)-1].ID
	}
	missing, kept := 0, 0
	for _, a := range f.acknowledged {
		if _, asked := f.erased[a.Conversation]; asked {
			continue
		}
		kept++
		if answer, ok := found[a.id]; !ok || answer != a.Answer {
			missing++
			t.Errorf("turn %d of %s, %s, was acknowledged, and the centre has %q", a.Turn, a.Conversation, a.id, answer)
		}
	}
	doubled := 0
	for answer, n := range answers {
		if n > 1 {
			doubled++
			t.Errorf("%q is there %d times", answer, n)
		}
	}
	t.Logf("acknowledged %d, %d of them in conversations that were not erased; found %d, missing %d, doubled %d", len(f.acknowledged), kept, len(found), missing, doubled)
	f.compareSessions(archive)
}

// readTogether is how many exchanges are read at once: each takes a way to the database, and one to the bucket.
const readTogether = 16

// readAll reads exchanges with what they were answered.
func readAll(archive answering, infos []record.ExchangeInfo) ([]*record.Exchange, error) {
	exchanges, errs := make([]*record.Exchange, len(infos)), make([]error, readTogether)
	var reading sync.WaitGroup
	for n := range readTogether {
		reading.Go(func() {
			for i := n; i < len(infos) && errs[n] == nil; i += readTogether {
				exchanges[i], errs[n] = archive.Exchange("acme", infos[i].ID)
			}
		})
	}
	reading.Wait()
	return exchanges, errors.Join(errs...)
}

// compareSessions sees that each conversation is one session, with its turns in order.
func (f *fire) compareSessions(archive answering) {
	conversations := make(map[string][]string)
	for _, a := range f.acknowledged {
		if _, asked := f.erased[a.Conversation]; asked {
			continue
		}
		conversations[a.Conversation] = append(conversations[a.Conversation], a.id)
	}
	sessions := make(map[string][]record.Session)
	for q := (record.SessionQuery{Limit: 1000, Ascending: true}); ; {
		page, err := archive.Sessions("acme", q)
		if err != nil {
			f.t.Fatal(err)
		}
		for i := range page.Data {
			sessions[page.Data[i].ChatKey] = append(sessions[page.Data[i].ChatKey], page.Data[i])
		}
		if !page.HasMore {
			break
		}
		q.After = page.Data[len(page.Data)-1].ID
	}
	for name, ids := range conversations {
		if len(sessions[name]) != 1 {
			f.t.Errorf("conversation %s is %d sessions", name, len(sessions[name]))
			continue
		}
		session := &sessions[name][0]
		timeline, err := archive.Timeline("acme", session.ID, record.TimelineQuery{Limit: 1000})
		if err != nil {
			f.t.Error(err)
			continue
		}
		var found []string
		for i := range timeline.Data {
			if id := timeline.Data[i].Exchange.ID; slices.Contains(ids, id) {
				found = append(found, id)
			}
		}
		if !slices.Equal(found, ids) {
			f.t.Errorf("the turns of %s are %v at the centre, and were %v", name, found, ids)
		}
		if session.Exchanges != int64(len(timeline.Data)) {
			f.t.Errorf("%s counts %d exchanges, and has %d", name, session.Exchanges, len(timeline.Data))
		}
	}
}
