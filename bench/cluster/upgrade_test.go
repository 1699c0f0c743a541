//go:build unix

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// upgrade is a cluster whose programs are replaced while clients converse.
type upgrade struct {
	*testing.T
	installation
	old, next string // programs
	key       string // of the clients
	guild     string // key of another account
	withdrawn string // key that was revoked before the upgrade

	words atomic.Int64 // that were said; each request has one that no other one has

	mu            sync.Mutex
	urls          map[string]string // of the centre and the edges
	programs      map[string]string // that nodes run; none while a node is away
	conversations []*conversation
	leaving       sync.RWMutex // a node begins to end while no request read-locks it, see say
}

// conversation goes on at any edge, each time from the id of the answer before.
type conversation struct {
	session  string
	previous string
	edge     string // that gave the answer before
	turns    []turn // that were acknowledged
	erasure  string // id of its receipt
}

type turn struct{ word, exchange string }

// TestNothingIsLostWhileTwoVersionsRunTogether replaces the programs of a cluster one by one, in the order of docs/cluster.md
// and edges first. See make upgrade.
func TestNothingIsLostWhileTwoVersionsRunTogether(t *testing.T) {
	old := os.Getenv("MNEME_TEST_UPGRADE_FROM")
	if old == "" {
		t.Skip("set MNEME_TEST_UPGRADE_FROM to a program of an earlier version")
	}
	next := filepath.Join(t.TempDir(), "mneme")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", next, "../..").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv(commandVariable, "1") // for the brokers
	for _, order := range [][]string{{"centre", "worker", "edge-1", "edge-2"}, {"edge-2", "edge-1", "worker", "centre"}} {
		t.Run(strings.Join(order, ", "), func(t *testing.T) {
			u := &upgrade{T: t, old: old, next: next, urls: map[string]string{}, programs: map[string]string{}}
			u.dir = filepath.Join(t.TempDir(), "cluster")
			u.run(order)
		})
	}
}

func (u *upgrade) run(order []string) {
	defer func() {
		if err := u.stop(); err != nil {
			u.Error(err)
		}
		for _, n := range u.Nodes {
			if log, _ := os.ReadFile(filepath.Join(u.dir, n.Name+".log")); u.Failed() {
				u.Logf("%s:\n%s", n.Name, log[max(0, len(log)-4000):])
			}
		}
	}()
	check(u, u.startEngines(u.Context()))
	for _, name := range nodes {
		u.begin(name, u.old)
	}
	tables := u.row("select value from mneme.meta where name = 'version'")
	if n, _ := strconv.Atoi(tables); n >= tablesOfSeveral {
		u.begin("centre-2", u.old)
		order = slices.Insert(slices.Clone(order), slices.Index(order, "centre")+1, "centre-2")
	}
	u.key = u.newKey(u.old)
	before := u.accounts()
	stop := make(chan struct{})
	var speaking sync.WaitGroup
	for range 2 {
		speaking.Go(func() { u.converse(stop) })
	}
	end := sync.OnceFunc(func() { close(stop); speaking.Wait() })
	defer end()

	u.found("before the upgrade")
	for n, name := range order {
		u.replace(name, order[:n], order[n+1:], tables)
		if n == 0 {
			program := map[bool]string{true: u.next, false: u.old}[name == "centre"]
			revoke(u.T, program, filepath.Dir(u.dir), u.edges(), u.newKey(program, "--name", "brief"), "brief")
		}
	}
	u.replaceCentre(order)
	end()
	if after := u.listed(u.next); !strings.HasPrefix(after, before) {
		u.Errorf("accounts and keys were\n%s\nand are\n%s", before, after)
	}
	u.compare()
}

// replace replaces a node by one of the later version, after some and before others.
func (u *upgrade) replace(name string, after, before []string, tables string) {
	takes := func(node string) bool { return !strings.HasPrefix(node, "edge") } // what edges ship
	u.erase()
	u.end(name)
	if takes(name) && slices.ContainsFunc(after, takes) {
		u.refused(name, tables)
	}
	u.begin(name, u.next)
	u.found("after the upgrade of " + name)
	u.keysHold("after the upgrade of " + name)
	if !takes(name) || !slices.ContainsFunc(before, takes) {
		return
	}
	var later []string
	for _, node := range append(slices.Clone(after), name) {
		if takes(node) {
			u.end(node)
			later = append(later, node)
		}
	}
	u.taken("by the earlier version alone")
	for _, node := range later {
		u.begin(node, u.next)
	}
}

// replaceCentre has a second centre lead in the place of the first one, which returns.
func (u *upgrade) replaceCentre(order []string) {
	if !slices.Contains(order, "centre-2") {
		u.begin("centre-2", u.next)
	}
	u.end("centre")
	u.mu.Lock()
	u.urls["centre"] = u.urls["centre-2"]
	u.mu.Unlock()
	u.found("with the second centre alone")
	u.keysHold("with the second centre alone")
	u.begin("centre", u.next)
}

// tablesOfSeveral is the first version of the tables with which there can be several centres.
const tablesOfSeveral = 10

// accounts creates an account with a key and a credential at the centre, and a key that is revoked there. It returns what the centre
// lists then.
func (u *upgrade) accounts() string {
	u.Helper()
	atCentre := []string{"--data", filepath.Join(u.dir, "centre")}
	made := exec.CommandContext(u.Context(), u.old, append([]string{"account", "create", "guild"}, atCentre...)...)
	if out, err := made.CombinedOutput(); err != nil {
		u.Fatalf("%v\n%s", err, out)
	}
	set := exec.CommandContext(u.Context(), u.old, append([]string{"account", "credential", "set", "guild", "openai"}, atCentre...)...)
	set.Stdin = strings.NewReader("sk-of-the-guild-0123456789abcdef\n")
	if out, err := set.CombinedOutput(); err != nil {
		u.Fatalf("%v\n%s", err, out)
	}
	u.guild = u.newKey(u.old, "--account", "guild", "--name", "of the guild")
	u.withdrawn = u.newKey(u.old, "--name", "withdrawn")
	revoke(u.T, u.old, filepath.Dir(u.dir), u.edges(), u.withdrawn, "withdrawn")
	return u.listed(u.old)
}

// listed returns the accounts and the keys of the centre, without the use of the keys, which is that of one process.
func (u *upgrade) listed(program string) string {
	u.Helper()
	var accounts []struct {
		Name, Created string
		Credentials   []any
	}
	var keys []struct{ ID, Account, Label, Scopes, Created, Revoked string }
	for what, into := range map[string]any{"account": &accounts, "key": &keys} {
		list := exec.CommandContext(u.Context(), program, what, "list", "--json", "--data", filepath.Join(u.dir, "centre"))
		out, err := list.Output()
		check(u, err)
		check(u, json.Unmarshal(out, into))
	}
	var all strings.Builder
	for _, a := range accounts {
		fmt.Fprintf(&all, "%+v\n", a)
	}
	for _, k := range keys {
		fmt.Fprintf(&all, "%+v\n", k)
	}
	return all.String()
}

// keysHold checks that each node accepts the keys that were there before, but for the one that was revoked.
func (u *upgrade) keysHold(when string) {
	u.Helper()
	for name, url := range u.urls {
		for key, want := range map[string]int{u.key: http.StatusOK, u.guild: http.StatusOK, u.withdrawn: http.StatusUnauthorized} {
			if status, text := call(u.T, http.MethodGet, url+"/v1/models", key, ""); status != want {
				u.Errorf("%s %s answers a key with %d, want %d: %s", when, name, status, want, text)
			}
		}
	}
}

// nodes are those that every version can have.
var nodes = []string{"centre", "edge-1", "edge-2", "worker"}

// launch starts a node.
func (u *upgrade) launch(name, program string) (*node, error) {
	return u.start(u.Context(), program, name)
}

// begin starts a node, which has to succeed.
func (u *upgrade) begin(name, program string) {
	u.Helper()
	n, err := u.launch(name, program)
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(u.dir, name+".log"))
		u.Fatalf("%v\n%s", err, log)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.programs[name] = program
	if name != "worker" {
		u.urls[name] = n.URL
	}
}

// end ends a node in an orderly way.
func (u *upgrade) end(name string) {
	u.Helper()
	u.leaving.Lock()
	u.mu.Lock()
	delete(u.programs, name)
	u.mu.Unlock()
	u.leaving.Unlock()
	n := u.Nodes[slices.IndexFunc(u.Nodes, func(n *node) bool { return n.Name == name })]
	check(u, n.stop())
	if state := n.process.ProcessState; !state.Success() {
		u.Errorf("%s ends with %v", name, state)
	}
}

// refused checks that the earlier version does not start with later tables.
func (u *upgrade) refused(name, tables string) {
	u.Helper()
	if later := u.row("select value from mneme.meta where name = 'version'"); later == tables {
		u.Logf("NOT TESTED: both versions have tables of version %s", tables)
		return
	}
	n, err := u.launch(name, u.old)
	if err == nil {
		u.Fatalf("a %s of the earlier version starts with later tables: %v", name, n.stop())
	}
	if log, _ := os.ReadFile(filepath.Join(u.dir, name+".log")); !strings.Contains(string(log), "use a later one") {
		u.Errorf("a %s of the earlier version does not say why it does not start: %s", name, log)
	}
}

// edgeNames are the nodes that clients use.
var edgeNames = []string{"edge-1", "edge-2"}

func (u *upgrade) edges() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return []string{u.urls[edgeNames[0]], u.urls[edgeNames[1]]}
}

// newKey creates a key at the centre, and waits until both edges accept it.
func (u *upgrade) newKey(program string, args ...string) string {
	u.Helper()
	secret := createKey(u.T, program, filepath.Dir(u.dir), args...)
	for _, edge := range u.edges() {
		eventually(u.T, "a key of the centre opens "+edge, func() bool {
			status, _ := call(u.T, http.MethodGet, edge+"/v1/models", secret, "")
			return status == http.StatusOK
		})
	}
	return secret
}

// row returns the only value that the database has for a query.
func (u *upgrade) row(query string, values ...any) (value string) {
	u.Helper()
	connection, err := pgx.Connect(u.Context(), u.database)
	check(u, err)
	defer func() { _ = connection.Close(context.Background()) }()
	check(u, connection.QueryRow(u.Context(), query, values...).Scan(&value))
	return value
}

// centre reads JSON from the centre, if it has what is asked for.
func (u *upgrade) centre(path string, into any) (found bool) {
	u.Helper()
	status, text := call(u.T, http.MethodGet, u.urls["centre"]+"/v1/memory/"+path, u.Key, "")
	if status != http.StatusOK && status != http.StatusNotFound {
		u.Fatalf("the centre answers %s with %d: %s", path, status, text)
	}
	check(u, json.Unmarshal([]byte(text), into))
	return status == http.StatusOK
}

// turnsEach is how many turns clients have in a conversation.
const turnsEach = 5

// converse has one conversation after the other.
func (u *upgrade) converse(stop <-chan struct{}) {
	for c := u.conversation(); ; {
		select {
		case <-stop:
			return
		case <-time.After(50 * time.Millisecond): // a client takes time between its turns
		}
		u.say(c, edgeNames[rand.IntN(2)])
		if len(c.turns) == turnsEach {
			c = u.conversation()
		}
	}
}

func (u *upgrade) conversation() *conversation {
	u.mu.Lock()
	defer u.mu.Unlock()
	c := new(conversation)
	u.conversations = append(u.conversations, c)
	return c
}

// runs returns the program of a node; "" while it is away.
func (u *upgrade) runs(name string) string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.programs[name]
}

// say adds a turn to a conversation, unless the edge is away, or does not have the answer before at present.
func (u *upgrade) say(c *conversation, edge string) (said bool) {
	if c.edge != "" && c.edge != edge && u.runs(edge) == u.old {
		// It may begin a session of its own while the edge that gave the answer before is away: earlier versions did.
		u.leaving.RLock()
		defer u.leaving.RUnlock()
		if u.runs(c.edge) == "" {
			return false
		}
	}
	word := fmt.Sprintf("lantern%dz", u.words.Add(1))
	body := fmt.Sprintf(`{"model":"claude-sonnet-4-5","input":%q}`, word)
	if c.previous != "" {
		body = fmt.Sprintf(`{"model":"claude-sonnet-4-5","input":%q,"previous_response_id":%q}`, word, c.previous)
	}
	status, header, text, err := send(u.Context(), http.MethodPost, u.edges()[slices.Index(edgeNames, edge)]+"/v1/responses", u.key, body)
	var answer struct{ ID string }
	switch {
	case err != nil, status == http.StatusServiceUnavailable, status == http.StatusNotFound && header.Get("Retry-After") != "":
		return false
	case status != http.StatusOK || json.Unmarshal([]byte(text), &answer) != nil:
		u.Errorf("after %d turns %s answers %d: %s", len(c.turns), edge, status, text)
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c.session, c.previous, c.edge = cmp.Or(c.session, header.Get("X-Service-Session-Id")), answer.ID, edge
	c.turns = append(c.turns, turn{word, header.Get("X-Service-Exchange-Id")})
	return true
}

// taken has one exchange recorded at each edge, and waits until they are digested in the database.
func (u *upgrade) taken(how string) (turns []turn) {
	u.Helper()
	for _, edge := range edgeNames {
		c := u.conversation()
		eventually(u.T, edge+" answers", func() bool { return u.say(c, edge) })
		eventually(u.T, "what "+edge+" records is taken "+how, func() bool {
			return u.row("select count(*) filter (where digested)::text from mneme.exchanges where id = $1", c.turns[0].exchange) == "1"
		})
		turns = append(turns, c.turns[0])
	}
	return turns
}

// found checks that a search at the centre finds what each edge records.
func (u *upgrade) found(when string) {
	u.Helper()
	until := u.words.Load() + 100
	eventually(u.T, "clients converse "+when, func() bool { return u.words.Load() >= until })
	for _, turn := range u.taken(when) {
		eventually(u.T, "a search "+when+" finds "+turn.word, func() bool {
			_, text := call(u.T, http.MethodPost, u.urls["centre"]+"/v1/memory/search", u.Key, fmt.Sprintf(`{"query":%q}`, turn.word))
			return strings.Contains(text, turn.exchange)
		})
	}
}

// erase has the centre erase a conversation that has ended, and that it has.
func (u *upgrade) erase() {
	u.Helper()
	eventually(u.T, "a conversation can be erased", func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		for _, c := range u.conversations {
			var session struct {
				ID        string
				Exchanges int
			}
			if len(c.turns) < turnsEach || c.erasure != "" || !u.centre("sessions/"+c.session, &session) || session.Exchanges < turnsEach {
				continue
			}
			_, text := call(u.T, http.MethodPost, u.urls["centre"]+"/v1/memory/erasures", u.Key, fmt.Sprintf(`{"sessions":[%q]}`, session.ID))
			var receipt struct{ ID string }
			check(u, json.Unmarshal([]byte(text), &receipt))
			c.erasure = receipt.ID
			return true
		}
		return false
	})
}

var word = regexp.MustCompile(`lantern\d+z`)

// compare compares what was acknowledged with what the centre has, once all is shipped.
func (u *upgrade) compare() {
	u.taken("at the end")                                // and with it all that was recorded before, since an edge ships in that order
	said, times := map[string]string{}, map[string]int{} // by exchange, by word
	var page struct {
		Data   []struct{ ID string }
		LastID string `json:"last_id"`
		More   bool   `json:"has_more"`
	}
	for page.More = true; page.More; {
		page.Data = nil
		u.centre("exchanges?limit=100&order=asc&after="+page.LastID, &page)
		for _, x := range page.Data {
			_, text := call(u.T, http.MethodGet, u.urls["centre"]+"/v1/memory/exchanges/"+x.ID+"?include=raw_request", u.Key, "")
			said[x.ID] = word.FindString(text)
			if times[said[x.ID]]++; times[said[x.ID]] > 1 {
				u.Errorf("%q is there %d times", said[x.ID], times[said[x.ID]])
			}
		}
	}
	turns, erased := 0, 0
	for _, c := range u.conversations {
		turns += len(c.turns)
		switch {
		case c.erasure != "":
			u.erasedEverywhere(c)
			erased++
		case len(c.turns) > 0:
			u.complete(c, said)
		}
	}
	u.Logf("%d acknowledged turns of %d conversations, of which %d were erased", turns, len(u.conversations), erased)
}

// complete checks that the centre has a conversation as it was acknowledged: in one session, in its order.
func (u *upgrade) complete(c *conversation, said map[string]string) {
	var timeline struct {
		Data []struct{ Exchange struct{ ID string } }
	}
	u.centre("sessions/"+c.session+"/timeline?limit=100&order=asc", &timeline)
	var there []turn
	for _, x := range timeline.Data {
		t := turn{said[x.Exchange.ID], x.Exchange.ID}
		if slices.Contains(c.turns, t) { // others were not acknowledged
			there = append(there, t)
		}
	}
	if !slices.Equal(there, c.turns) {
		u.Errorf("session %s has %v, and acknowledged were %v", c.session, there, c.turns)
	}
}

// erasedEverywhere checks that nothing is left of a conversation at any node, and that its receipt says so.
func (u *upgrade) erasedEverywhere(c *conversation) {
	eventually(u.T, "erasure "+c.erasure+" has reached every node", func() bool {
		var receipt struct {
			State  string
			Places []struct{ Place, State string }
		}
		u.centre("erasures/"+c.erasure, &receipt)
		done := 0
		for _, p := range receipt.Places {
			if slices.Contains([]string{"centre", "centre 65002", "edge 2", "edge 3"}, p.Place) && p.State == "erased" {
				done++
			}
		}
		return receipt.State == "done" && done == 4
	})
	for _, t := range c.turns {
		for name, url := range u.urls {
			if status, text := call(u.T, http.MethodGet, url+"/v1/memory/exchanges/"+t.exchange, u.Key, ""); status != http.StatusNotFound {
				u.Errorf("%s was erased, and %s answers %d: %s", t.exchange, name, status, text)
			}
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
