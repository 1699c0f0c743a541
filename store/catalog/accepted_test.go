package catalog_test

import (
	"errors"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
)

// announced marks all erasures as a centre does once they are announced. Workers carry on from there.
func announced(t *testing.T, url string) {
	_, err := connect(t, url).Exec(t.Context(), "update mneme.erasures set receipt = replace(receipt, 'queued', 'running')")
	check(t, err)
}

// An erasure is announced before anything is erased, once, by one of the centres; also if the one that took it ended before
// that, and whatever workers there are.
func TestAnAcceptedErasureIsAnnouncedBeforeItIsCarriedOut(t *testing.T) {
	url, edge := postgrestest.Shared(t).Memory(t), openEngine(t, 0)
	check(t, edge.Shipping().Begin(t.Context()))
	open := func(node uint16, accepted func(account string, e *record.Erasure) error) *catalog.Catalog {
		own := openEngine(t, node)
		c, err := catalog.Open(t.Context(), catalog.Options{
			URL: url, Centre: postgrestest.Centre, Seat: catalog.Seat{Node: node}, Cache: own.Shared(), Retention: own.Archive().RetentionOf,
			Digest: digest.Exchange, Accepted: accepted,
		})
		check(t, err)
		t.Cleanup(c.Close)
		return c
	}
	tried := make(chan struct{}, 1)
	ended := open(1, func(string, *record.Erasure) error {
		select {
		case tried <- struct{}{}:
		default:
		}
		return errors.New("it ends before it can")
	})
	said := stored(t, edge, 1)
	frame, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	_, err = ended.Take(t.Context(), &frame, noneAside)
	check(t, err)
	check(t, ended.Wait(t.Context(), "acme"))
	openWorker(t, url)
	asked, err := ended.Erase(t.Context(), "acme", record.Selection{All: true}, false)
	check(t, err)
	<-tried
	<-tried // and again
	if e, err := ended.Erasure("acme", asked.ID); err != nil || e.State != record.ErasureQueued || !knows(ended, "acme", said) {
		t.Errorf("it is carried out all the same: %+v (%v)", e, err)
	}
	ended.Close()

	var times atomic.Int32
	var centre atomic.Pointer[catalog.Catalog]
	announce := func(account string, e *record.Erasure) error {
		if times.Add(1); account != "acme" || e.ID != asked.ID || !knows(centre.Load(), "acme", said) {
			t.Errorf("announced is %s of %s", e.ID, account)
		}
		return nil
	}
	reading := openWorker(t, url)
	centre.Store(reading)
	open(2, announce)
	open(3, announce)
	eventually(t, "it is done", func() bool {
		e, err := reading.Erasure("acme", asked.ID)
		return err == nil && e.State == record.ErasureDone && !knows(reading, "acme", said)
	})
	if n := times.Load(); n != 1 {
		t.Errorf("it is announced %d times", n)
	}
}
