package catalog_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

const (
	account = "acme"
	bounded = time.Minute // how long something may take that is to happen soon
)

// centre keeps in Postgres and a bucket what an edge ships.
type centre struct {
	*catalog.Catalog
	edge             *engine.Engine
	service          *s3test.Server
	database, bucket string
	wrong            []ship.Entry // that the next frame has beside its own
}

// TestACentreWithABucket holds a centre to what it promises of the bucket that has its bodies; the rest of its promises are those
// of every memory.
func TestACentreWithABucket(t *testing.T) {
	server, service := postgrestest.Shared(t), s3test.Start(t)
	for name, promise := range map[string]func(*testing.T, *centre){
		"what is erased leaves the bucket":                               erasedLeavesTheBucket,
		"a damaged pack hits its own exchanges alone":                    damageHitsItsOwn,
		"without the bucket nothing is acknowledged":                     nothingWithoutTheBucket,
		"a pack without rows is deleted before an erasure is done":       noPackWithoutRows,
		"a stopped centre holds up no erasure":                           stoppedHoldsUpNothing,
		"small packs are joined":                                         smallPacksAreJoined,
		"a deleted account leaves nothing in the bucket":                 deletedAccount,
		"another bucket is refused":                                      anotherBucket,
		"what was in the database before is read beside the bucket":      readBesideTheBucket,
		"what is derived is made again from the database and the bucket": derivedIsMadeAgain,
	} {
		t.Run(name, func(t *testing.T) { promise(t, openCentre(t, server, service)) })
	}
}

func openCentre(t *testing.T, server *postgrestest.Server, service *s3test.Server) *centre {
	t.Helper()
	c := &centre{service: service, database: server.Memory(t), bucket: service.Bucket(t)}
	t.Cleanup(func() {
		if c.Catalog != nil {
			c.Close()
		}
	})
	var err error
	c.edge, err = engine.Open(store.Options{Dir: t.TempDir(), MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{1}, 32), Digest: digest.Exchange}, nil)
	check(t, err)
	t.Cleanup(func() { check(t, c.edge.Close()) })
	_, err = c.edge.Accounts().Create(account)
	check(t, err)
	check(t, c.edge.Shipping().Begin(t.Context()))
	check(t, c.open(t, c.bucket))
	return c
}

// open opens the centre, again if it was open: nothing is remembered.
func (c *centre) open(t *testing.T, bucket string) error {
	t.Helper()
	if c.Catalog != nil {
		c.Close()
		c.Catalog = nil
	}
	var packs *pack.Packs
	var err error
	if bucket != "" {
		packs, err = pack.Open(t.Context(), bucket, postgrestest.Centre, 1<<20)
		check(t, err)
	}
	opened, err := catalog.Open(t.Context(), catalog.Options{
		URL: c.database, Centre: postgrestest.Centre, Packs: packs, Cache: c.edge.Shared(),
		Retention: func(string) identity.Retention { return identity.Retention{} }, Digest: digest.Exchange,
	})
	if err == nil {
		c.Catalog = opened
	}
	return err
}

// record puts an exchange on record at the edge, and gives its id. What is said repeats nothing.
func (c *centre) record(t *testing.T, seed uint64) (id string, request []byte) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	said := make([]byte, 6000)
	for i := range said {
		said[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[random.IntN(36)]
	}
	request = fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, said)
	r, err := c.edge.Begin(t.Context(), &record.Opening{
		Account: account, Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ContentType: "application/json", Body: request,
	})
	check(t, err)
	_, err = r.Write([]byte(`{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Yes."},"finish_reason":"stop"}]}`))
	check(t, err)
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200, ContentType: "application/json", LastByte: time.Now()}))
	return r.ID(), request
}

// ship hands over what the edge has recorded since, in one frame.
func (c *centre) ship(t *testing.T) error {
	t.Helper()
	own := c.edge.Shipping()
	mark, err := c.Mark(own.Log())
	check(t, err)
	f, err := own.Next(t.Context(), mark.Mark)
	check(t, err)
	f.Entries = append(f.Entries, c.wrong...)
	taken, err := c.Take(t.Context(), &f, func([]shipped.Refused) error { return errAside })
	if err == nil && !taken {
		t.Fatal("the frame was not taken")
	}
	if err != nil {
		own.Forget()
	}
	return err
}

var errAside = errors.New("nothing can be put aside")

// packs are the files of packs in the bucket.
func (c *centre) packs(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(c.service.Files(t, c.bucket), func(name string) bool { return !strings.HasSuffix(name, ".pack") })
}

func (c *centre) eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(bounded); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func (c *centre) readable(t *testing.T, id string, request []byte) {
	t.Helper()
	x, err := c.Exchange(account, id)
	check(t, err)
	if !bytes.Equal(x.RawRequest, request) {
		t.Errorf("%s has other bytes than were recorded", id)
	}
}

// erase erases an exchange, and gives the receipt once that is done.
func (c *centre) erase(t *testing.T, id string) (receipt *record.Erasure) {
	t.Helper()
	e, err := c.Erase(t.Context(), account, record.Selection{Exchanges: []string{id}}, false)
	check(t, err)
	c.eventually(t, "the erasure is done", func() bool {
		receipt, err = c.Erasure(account, e.ID)
		check(t, err)
		return receipt.State == record.ErasureDone
	})
	return receipt
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func erasedLeavesTheBucket(t *testing.T, c *centre) {
	kept, request := c.record(t, 1)
	erased, _ := c.record(t, 2)
	check(t, c.ship(t))
	before := c.packs(t)
	if len(before) != 1 {
		t.Fatalf("the bucket has %q, want one pack", before)
	}
	old, err := os.ReadFile(before[0])
	check(t, err)

	receipt := c.erase(t, erased)
	if receipt.Packs != 1 || receipt.Exchanges != 1 || receipt.Bytes < 3000 {
		t.Errorf("the receipt has %d packs, %d exchanges and %d bytes", receipt.Packs, receipt.Exchanges, receipt.Bytes)
	}
	after := c.packs(t)
	if len(after) != 1 || after[0] == before[0] {
		t.Fatalf("the bucket has %q after %q, want another pack", after, before)
	}
	left, err := os.ReadFile(after[0])
	check(t, err)
	if len(left) > len(old)*6/10 {
		t.Errorf("%d of %d bytes are left of two exchanges of like size", len(left), len(old))
	}
	check(t, c.open(t, c.bucket))
	c.readable(t, kept, request)

	c.erase(t, kept)
	if last := c.packs(t); len(last) != 0 {
		t.Errorf("nothing is on record, and the bucket has %q", last)
	}
}

func damageHitsItsOwn(t *testing.T, c *centre) {
	harms := map[string]func(t *testing.T, file string){
		"cut":     func(t *testing.T, file string) { check(t, os.Truncate(file, 100)) },
		"missing": func(t *testing.T, file string) { check(t, os.Remove(file)) },
		"flipped": func(t *testing.T, file string) {
			content, err := os.ReadFile(file)
			check(t, err)
			for i := 8; i < len(content); i += 100 {
				content[i] ^= 1
			}
			check(t, os.WriteFile(file, content, 0o600))
		},
	}
	seed := uint64(1)
	for name, harm := range harms {
		t.Run(name, func(t *testing.T) {
			sound, request := c.record(t, seed)
			check(t, c.ship(t))
			before := c.packs(t)
			hit, _ := c.record(t, seed+1)
			check(t, c.ship(t))
			seed += 2
			check(t, c.Wait(t.Context(), account))
			for _, file := range c.packs(t) {
				if !slices.Contains(before, file) {
					harm(t, file)
				}
			}
			check(t, c.open(t, c.bucket))
			_, err := c.Exchange(account, hit)
			if codec.AsError(err, "").Kind != codec.KindStorage || !strings.Contains(fmt.Sprint(err), hit) {
				t.Errorf("error %v, want one that names the exchange", err)
			}
			c.readable(t, sound, request)
			page, err := c.Exchanges(account, record.ExchangeQuery{})
			check(t, err)
			for _, id := range []string{sound, hit} {
				if !slices.ContainsFunc(page.Data, func(x record.ExchangeInfo) bool { return x.ID == id }) {
					t.Errorf("%s is not listed", id)
				}
			}
			c.erase(t, hit) // also what cannot be read any more
		})
	}
}

func nothingWithoutTheBucket(t *testing.T, c *centre) {
	id, request := c.record(t, 1)
	c.service.Kill()
	if err := c.ship(t); err == nil {
		t.Fatal("a frame was taken without the bucket")
	}
	mark, err := c.Mark(c.edge.Shipping().Log())
	check(t, err)
	if mark.Mark != 0 {
		t.Errorf("the mark is %d, though nothing was kept", mark.Mark)
	}
	c.service.Run(t)
	check(t, c.ship(t))
	check(t, c.open(t, c.bucket))
	c.readable(t, id, request)
}

func noPackWithoutRows(t *testing.T, c *centre) {
	id, _ := c.record(t, 1)
	c.wrong = []ship.Entry{{Account: "elsewhere", Exchange: "exch_none"}}
	if err := c.ship(t); !errors.Is(err, errAside) {
		t.Fatalf("error %v, want the one of putting aside", err)
	}
	c.eventually(t, "the pack of what was given up is deleted", func() bool { return len(c.packs(t)) == 0 })
	killed, err := pack.Open(t.Context(), c.bucket, postgrestest.Centre, 1<<20) // has written a pack, and not committed
	check(t, err)
	name := pack.NewID()
	content := pack.NewBuilder(1)
	content.Add([]byte("name"), []byte("value"))
	c.exec(t, fmt.Sprintf("insert into mneme.packs (account, pack) values (1, %d)", int64(name)))
	check(t, killed.Put(t.Context(), 1, name, content.Content()))
	c.wrong = nil
	check(t, c.ship(t))
	e, err := c.Erase(t.Context(), account, record.Selection{Exchanges: []string{id}}, false)
	check(t, err)
	c.eventually(t, "what has rows is deleted", func() bool { return len(c.packs(t)) == 1 })
	receipt, err := c.Erasure(account, e.ID)
	check(t, err)
	if receipt.State == record.ErasureDone {
		t.Error("the receipt says done, and the bucket still has a pack with what was erased")
	}
	c.exec(t, "update mneme.packs set began = began - interval '1 hour' where state = 'begun'")
	c.eventually(t, "the pack without rows is deleted", func() bool { return len(c.packs(t)) == 0 })
	c.eventually(t, "the erasure is done", func() bool {
		receipt, err := c.Erasure(account, e.ID)
		check(t, err)
		return receipt.State == record.ErasureDone
	})
}

func stoppedHoldsUpNothing(t *testing.T, c *centre) {
	id, _ := c.record(t, 1)
	check(t, c.ship(t))
	c.record(t, 2)
	own := c.edge.Shipping()
	mark, err := c.Mark(own.Log())
	check(t, err)
	f, err := own.Next(t.Context(), mark.Mark)
	check(t, err)

	other, err := pgx.Connect(t.Context(), c.database)
	check(t, err)
	defer func() { _ = other.Close(context.Background()) }()
	_, err = other.Exec(t.Context(), "begin; lock table mneme.logs in exclusive mode") // a frame waits for it before its pack is written, and nothing else does
	check(t, err)
	begun := func() (some bool) {
		check(t, other.QueryRow(t.Context(), "select exists (select from mneme.packs where state = 'begun')").Scan(&some))
		return some
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	taken := make(chan error)
	go func() {
		_, err := c.Take(ctx, &f, func([]shipped.Refused) error { return errAside })
		taken <- err
	}()
	c.eventually(t, "a pack is begun", begun)
	stop()
	if err := <-taken; !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was stopped", err)
	}
	if begun() {
		t.Error("the pack stays begun, and erasures wait for it")
	}
	_, err = other.Exec(t.Context(), "rollback")
	check(t, err)
	c.erase(t, id)
}

// exec changes the database behind the centre's back.
func (c *centre) exec(t *testing.T, sql string) {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), c.database)
	check(t, err)
	defer func() { _ = connection.Close(context.Background()) }()
	_, err = connection.Exec(t.Context(), sql)
	check(t, err)
}

func smallPacksAreJoined(t *testing.T, c *centre) {
	requests := make(map[string][]byte)
	for seed := range uint64(40) {
		id, request := c.record(t, seed)
		requests[id] = request
		check(t, c.ship(t))
	}
	c.eventually(t, "packs are joined", func() bool { return len(c.packs(t)) < 32 })
	check(t, c.open(t, c.bucket))
	for id, request := range requests {
		c.readable(t, id, request)
	}
}

func deletedAccount(t *testing.T, c *centre) {
	c.record(t, 1)
	check(t, c.ship(t))
	check(t, c.DeleteAccount(t.Context(), account))
	if left := c.packs(t); len(left) != 0 {
		t.Errorf("the bucket has %q", left)
	}
}

func anotherBucket(t *testing.T, c *centre) {
	c.record(t, 1)
	check(t, c.ship(t))
	if err := c.open(t, c.service.Bucket(t)); err == nil || !strings.Contains(err.Error(), "no packs of this memory") {
		t.Errorf("error %v, want that it is another bucket", err)
	}
	if err := c.open(t, ""); err == nil || !strings.Contains(err.Error(), "set centre.bodies") {
		t.Errorf("error %v, want that the bodies are in a bucket", err)
	}
	check(t, c.open(t, c.bucket))
}

func readBesideTheBucket(t *testing.T, c *centre) {
	check(t, c.open(t, ""))
	id, request := c.record(t, 1)
	check(t, c.ship(t))
	check(t, c.open(t, c.bucket))
	c.readable(t, id, request)
	if left := c.packs(t); len(left) != 0 {
		t.Errorf("the bucket has %q", left)
	}
	c.erase(t, id)
}

// seen is what people see of the account: searches, sessions with their turns, and usage.
func (c *centre) seen(t *testing.T) string {
	t.Helper()
	check(t, c.Wait(t.Context(), account))
	c.eventually(t, "nothing is made again", func() bool {
		status, err := c.Status(t.Context(), account)
		return err == nil && status.Lag == 0
	})
	found, err := c.Search(t.Context(), account, &search.Request{Query: "question"})
	check(t, err)
	sessions, err := c.Sessions(account, record.SessionQuery{})
	check(t, err)
	all := []any{found.Data, sessions.Data}
	for _, s := range sessions.Data {
		page, err := c.Timeline(account, s.ID, record.TimelineQuery{})
		check(t, err)
		all = append(all, page.Data)
	}
	check(t, c.Rollups(t.Context(), record.RollupQuery{}, func(of record.RollupOf, r *record.Rollup) { all = append(all, of, *r, r.FirstByte) }))
	text, err := json.Marshal(all)
	check(t, err)
	return string(text)
}

func derivedIsMadeAgain(t *testing.T, c *centre) {
	id, _ := c.record(t, 1)
	var last string
	for _, chat := range []string{"a", "b", "a", "", "b"} {
		last = askIn(t, c.edge, account, chat, "a question in "+chat)
	}
	check(t, c.ship(t))
	before := c.seen(t)
	for _, part := range []string{id, last, `"chat_key":"a"`, `"requests":`} {
		if !strings.Contains(before, part) {
			t.Fatalf("there is no %s in %s", part, before)
		}
	}
	c.exec(t, "truncate mneme.sessions, mneme.named, mneme.links, mneme.turns, mneme.histories, mneme.rollups")
	check(t, c.Rebuild(t.Context()))
	check(t, c.open(t, c.bucket)) // it continues
	if after := c.seen(t); after != before {
		t.Errorf("there is %s, and was %s", after, before)
	}

	sessions, err := c.Sessions(account, record.SessionQuery{ChatKey: "b"})
	check(t, err)
	title := "what a person has written"
	_, err = c.DescribeSession(account, sessions.Data[0].ID, record.Description{Title: &title})
	check(t, err)
	c.erase(t, last)
	before = c.seen(t)
	check(t, c.Rebuild(t.Context()))
	if after := c.seen(t); after != before || !strings.Contains(after, title) {
		t.Errorf("after an erasure there is %s, and was %s", after, before)
	}
	askIn(t, c.edge, account, "b", "a question that continues")
	check(t, c.ship(t))
	if sessions, err := c.Sessions(account, record.SessionQuery{ChatKey: "b"}); err != nil || len(sessions.Data) != 1 || sessions.Data[0].Exchanges != 2 {
		t.Errorf("the next turn is in %+v (%v)", sessions.Data, err)
	}
}
