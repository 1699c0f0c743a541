package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// The program of these tests is also each node of a cluster: a process that can be killed. A node takes requests as lines of
// JSON, answers each with a line, and ends when its input does.

// role is what such a process is, from the environment.
type role struct {
	Kind string   // broker, centre, worker or edge
	Dir  string   // where it keeps its data
	NATS []string // URLs of the brokers

	Node     uint16 // of an edge
	Postgres string // URL of a centre's database
	Bodies   string // bucket of a centre, "" for none; the environment says where it is

	Name        string // of a broker
	Port        int    // where it listens
	ClusterPort int    // where it listens to other brokers
	Routes      []int  // where those listen
}

const roleVariable = "MNEME_TEST_CLUSTER_ROLE"

func TestMain(m *testing.M) {
	text := os.Getenv(roleVariable)
	if text == "" {
		os.Exit(postgrestest.Main(m))
	}
	var r role
	err := json.Unmarshal([]byte(text), &r)
	if err == nil {
		err = r.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func (r *role) run() error {
	switch r.Kind {
	case "broker":
		return r.broker()
	case "centre":
		return r.centre()
	case "worker":
		return r.worker()
	}
	return r.edge()
}

// ready says that the node has started.
func ready() { fmt.Println(`{"ID":"ready"}`) }

func (r *role) broker() error {
	var routes []*url.URL
	for _, port := range r.Routes {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	s, err := server.NewServer(&server.Options{
		ServerName: r.Name, Host: "127.0.0.1", Port: r.Port, Routes: routes,
		Cluster:   server.ClusterOpts{Name: "mneme", Host: "127.0.0.1", Port: r.ClusterPort},
		JetStream: true, StoreDir: r.Dir, SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(timeout) {
		return errors.New("the broker does not start")
	}
	ready()
	_, _ = io.Copy(io.Discard, os.Stdin)
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

func (r *role) options() (Options, error) {
	key, err := ship.NewKey(bytes.Repeat([]byte{1}, ship.KeySize))
	return Options{NATS: r.NATS, Replicas: 3, Key: key, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}, err
}

func (r *role) open() (*store.Store, Options, error) {
	o, err := r.options()
	if err != nil {
		return nil, o, err
	}
	s, err := store.Open(store.Options{
		Dir: r.Dir, Node: r.Node, MasterKey: bytes.Repeat([]byte{1}, 32), Digest: digest.Exchange, Stream: digest.Stream, Log: o.Log,
	})
	if err == nil && r.Postgres == "" {
		err = r.account(s)
	}
	return s, o, err
}

// account creates the account of the tests; of centres, in their database.
func (r *role) account(s *store.Store) error {
	if len(s.Accounts().List()) > 0 {
		return nil
	}
	_, err := s.Accounts().Create("acme")
	if codec.AsError(err, "").Kind == codec.KindConflict {
		return nil // another centre has
	}
	return err
}

func (r *role) centre() error {
	s, o, err := r.open()
	if err != nil {
		return err
	}
	kept, err := openCatalog(s, r.Postgres, r.Bodies, catalog.Seat{Node: r.Node, Name: filepath.Base(r.Dir), Store: r.Dir})
	if err != nil {
		return err
	}
	defer kept.Close()
	if err := r.account(s); err != nil {
		return err
	}
	o.Leading, o.Lender, o.Name = catalog.LeadOf(kept), quota.NewLender(), filepath.Base(r.Dir)
	o.Erasures, o.Aside = kept.Erased(), catalog.AsideOf(kept)
	c, err := Gather(context.Background(), kept, kept, catalog.RosterOf(kept), o)
	if err != nil {
		return err
	}
	err = serve(func(asked order) (report, error) {
		switch {
		case asked.Act != "":
			answer, err := administer(s, asked)
			answer.Leads = c.leads()
			return answer, err
		case asked.Receipt != "":
			return c.receipt(kept, asked.Receipt)
		}
		return erase(kept, asked.Erase)
	})
	c.Close()
	return errors.Join(err, s.Close())
}

// administer carries out an act of administration, or says whether a key is valid.
func administer(s *store.Store, asked order) (answer report, err error) {
	switch asked.Act {
	case "create key":
		err = s.AuditLog().Audited(store.AuditEntry{Actor: store.Operator, Action: "key.create", Account: "acme"}, func(*store.AuditEntry) error {
			secret, key, err := s.Keys().Create("acme", store.AllScopes, "")
			answer.ID, answer.Secret = key.ID, secret
			return err
		})
	case "revoke key":
		err = s.Keys().Revoke(asked.Subject)
	case "authenticate":
		who, failed := s.Keys().Authenticate(asked.Subject)
		if failed == nil {
			answer.ID = who.KeyID
		}
	case "audit":
		page, failed := s.AuditLog().Audit(store.AuditQuery{Account: "acme"})
		err, answer.Waiting = failed, uint64(len(page.Data))
	}
	return answer, err
}

// erase erases a conversation, and gives its receipt; none where it is not there, or not at present.
func erase(memory *catalog.Catalog, conversation string) (report, error) {
	page, err := memory.Sessions("acme", record.SessionQuery{ChatKey: conversation})
	if err != nil || len(page.Data) == 0 {
		return report{}, nil //nolint:nilerr // its database may be away
	}
	e, err := memory.Erase(context.Background(), "acme", record.Selection{Sessions: []string{page.Data[0].ID}}, false)
	if err != nil {
		return report{}, nil //nolint:nilerr // likewise
	}
	return report{ID: e.ID}, nil
}

// receipt returns a receipt with its places.
func (c *Centre) receipt(memory *catalog.Catalog, id string) (r report, err error) {
	e, err := memory.Erasure("acme", id)
	if err != nil {
		return r, err
	}
	places, err := c.Places(context.Background(), e)
	return report{ID: e.ID, State: e.State, Places: places}, err
}

// worker shares in the work of a centre with memory in Postgres.
func (r *role) worker() error {
	o, err := r.options()
	if err != nil {
		return err
	}
	ctx := context.Background()
	id, err := catalog.CentreOf(ctx, r.Postgres)
	if err != nil {
		return err
	}
	kept, err := openShared(r.Postgres, r.Bodies, id, nil, nil, catalog.Seat{})
	if err != nil {
		return err
	}
	defer kept.Close()
	o.Name, o.Aside, o.Erasures = filepath.Base(r.Dir), catalog.AsideOf(kept), kept.Erased()
	c, err := Work(ctx, kept, kept, o)
	if err != nil {
		return err
	}
	ready()
	_, _ = io.Copy(io.Discard, os.Stdin)
	c.Close()
	return nil
}

// serve carries out what comes in until that ends.
func serve(do func(order) (report, error)) error {
	ready()
	out := json.NewEncoder(os.Stdout)
	for lines := json.NewDecoder(os.Stdin); ; {
		var asked order
		if lines.Decode(&asked) != nil {
			return nil //nolint:nilerr // the caller has ended
		}
		answer, err := do(asked)
		if err == nil {
			err = out.Encode(answer)
		}
		if err != nil {
			return err
		}
	}
}

// openCatalog opens the memory in Postgres of a centre whose accounts are in s, with its bodies in a bucket if one is named.
func openCatalog(s *store.Store, url, bodies string, seat catalog.Seat) (*catalog.Catalog, error) {
	own, err := s.Shared().Centre()
	if err != nil {
		return nil, err
	}
	id, err := catalog.MakeCentre(context.Background(), url, cmp.Or(own, store.NewCentreID()))
	if err == nil {
		err = s.Shared().Join(context.Background(), id)
	}
	if err != nil {
		return nil, err
	}
	return openShared(url, bodies, id, s.Shared(), s.Archive().RetentionOf, seat)
}

// openShared is openCatalog; without accounts for a worker.
func openShared(url, bodies, id string, cache catalog.Cache, retention func(string) store.Retention, seat catalog.Seat) (kept *catalog.Catalog, err error) {
	var packs *pack.Packs
	if bodies != "" {
		if packs, err = pack.Open(context.Background(), bodies, id, 1<<20); err != nil {
			return nil, err
		}
	}
	return catalog.Open(context.Background(), catalog.Options{
		URL: url, Centre: id, Packs: packs, Abandoned: 10 * time.Second, Cache: cache, Seat: seat, Retention: retention, Digest: digest.Exchange,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
}

// order is a request to an edge: to record a turn of a conversation, or without one, to say what waits for the centre. It is one
// to a centre where it says what to erase, or which receipt to give.
type order struct {
	Conversation string
	Turn         int
	Answer       string // what the turn is answered

	Erase   string // a conversation
	Receipt string // its id

	Act     string // "create key", "revoke key", "authenticate", "audit", "look"
	Subject string // id of a key, or its secret
}

// report answers an order: the exchange is on record, or so many wait; the erasure is, or what has become of it.
type report struct {
	ID      string
	Local   bool // the brokers do not have it
	Waiting uint64

	Secret string
	Leads  bool // the centre that answers

	State  record.ErasureState
	Places []record.ErasurePlace
}

func (r *role) edge() error {
	s, o, err := r.open()
	if err != nil {
		return err
	}
	o.Quorum, o.Carrier = true, s.Erased()
	joined, err := Join(context.Background(), s.Shipping(), s.Archive(), s.Roster(), r.Node, 0, o)
	if err != nil {
		return err
	}
	err = serve(func(asked order) (answer report, err error) {
		if asked.Act != "" {
			return administer(s, asked)
		}
		if asked.Conversation == "" {
			answer.Waiting = joined.Shipper.Status().Waiting
			return answer, nil
		}
		answer.ID, err = stored(context.Background(), s, "acme", asked.Conversation, asked.Turn, asked.Answer)
		answer.Local = err == nil && joined.Brokered() != nil
		return answer, err
	})
	joined.Close()
	return errors.Join(err, s.Close())
}

// record puts one turn of a conversation on record.
func stored(ctx context.Context, s *store.Store, account, chatKey string, turn int, answer string) (id string, err error) {
	c, err := begin(ctx, s, account, chatKey, turn, answer)
	if err != nil {
		return "", err
	}
	return c.ID(), finish(c)
}

// begin is record for a turn whose answer goes on.
func begin(ctx context.Context, s *store.Store, account, chatKey string, turn int, answer string) (*store.Capture, error) {
	c, err := s.Begin(ctx, opening(account, chatKey, turn))
	if err == nil {
		_, err = c.Write([]byte(answer))
	}
	return c, err
}

// opening is how a turn of a conversation begins.
func opening(account, chatKey string, turn int) *record.Opening {
	var messages []string
	for n := range turn {
		messages = append(messages, fmt.Sprintf(`{"role":"user","content":"question %d"},{"role":"assistant","content":"answer %d"}`, n, n))
	}
	messages = append(messages, fmt.Sprintf(`{"role":"user","content":"question %d"}`, turn))
	return &record.Opening{
		Account: account, Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: chatKey,
		ContentType: "application/json", Body: []byte(`{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`),
	}
}

func finish(c store.Recording) error {
	return c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200})
}

// process is a node of a cluster. Its methods may be called by any goroutine.
type process struct {
	t    *testing.T
	role role

	mu    sync.Mutex // held while an order is under way, and while the process is replaced
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

// start starts a node, or one that was killed.
func (p *process) start() {
	p.t.Helper()
	if err := p.tryStart(); err != nil {
		p.t.Fatalf("%s %d does not start: %v", p.role.Kind, p.role.Node, err)
	}
}

func (p *process) tryStart() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, err := json.Marshal(p.role)
	if err != nil {
		return err
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), roleVariable+"="+string(text))
	log, err := os.OpenFile(p.role.Dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	p.lines = bufio.NewScanner(out)
	if !p.lines.Scan() {
		return fmt.Errorf("it ends: %w", p.cmd.Wait())
	}
	return nil
}

// kill ends a node with no warning, as a loss of power does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // before the lock: an order that is under way ends by it
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Wait()
}

// end ends a node in order.
func (p *process) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.stdin.Close(), p.cmd.Wait())
}

// do has an edge carry out an order; ok is false where it was killed before it said so.
func (p *process) do(asked order) (answer report, ok bool) {
	text, err := json.Marshal(asked)
	if err != nil {
		p.t.Error(err)
		return answer, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.stdin.Write(append(text, '\n')); err != nil || !p.lines.Scan() {
		return answer, false
	}
	return answer, json.Unmarshal(p.lines.Bytes(), &answer) == nil
}

// freePorts returns ports of this machine that nothing listened on a moment ago.
func freePorts(t *testing.T, n int) (ports []int) {
	t.Helper()
	var held []net.Listener // so that no port comes twice
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, l)
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range held {
		_ = l.Close()
	}
	return ports
}

// startBrokers starts three brokers that work together, each a process with a folder below dir.
func startBrokers(t *testing.T, dir string) (brokers []*process, urls []string) {
	t.Helper()
	ports := freePorts(t, 6)
	for n := range 3 {
		urls = append(urls, fmt.Sprintf("nats://127.0.0.1:%d", ports[n]))
		brokers = append(brokers, startNode(t, role{
			Kind: "broker", Name: fmt.Sprintf("broker-%d", n), Dir: filepath.Join(dir, fmt.Sprintf("broker-%d", n)),
			Port: ports[n], ClusterPort: ports[3+n], Routes: ports[3:],
		}))
	}
	return brokers, urls
}

func startNode(t *testing.T, r role) *process {
	t.Helper()
	p := &process{t: t, role: r}
	p.start()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait() // once more where it was ended
		if t.Failed() {
			log, _ := os.ReadFile(r.Dir + ".log")
			t.Logf("%s %d:\n%s", r.Kind, r.Node, log[max(0, len(log)-4000):])
		}
	})
	return p
}
