package engine_test

import (
	"path/filepath"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// open makes an empty memory that has the suite's accounts.
func open(t *testing.T, index *search.Options) *engine.Engine {
	t.Helper()
	dir := t.TempDir()
	if index != nil {
		index.Dir = filepath.Join(dir, "index")
	}
	m, err := engine.Open(store.Options{Dir: dir, MinFreeDisk: -1, Digest: digest.Exchange, Summaries: true}, index)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, account := range storetest.Accounts() {
		if _, err := m.Accounts().Create(account); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// memory is an engine as the suites use it.
type memory struct {
	*engine.Engine
	engine.Archive
}

func asMemory(e *engine.Engine) storetest.Memory { return memory{e, e.Archive()} }

func TestTheEngineRecordsAndReads(t *testing.T) {
	storetest.RunWhole(t, func(t *testing.T) storetest.Memory { return asMemory(open(t, nil)) })
}

func TestTheEngineFinds(t *testing.T) {
	storetest.RunRanking(t, func(t *testing.T) (storetest.Memory, storetest.Searcher) {
		m := open(t, &search.Options{})
		return asMemory(m), m.Index()
	})
}

// summaries are those of an engine, which are read from its archive.
type summaries struct {
	engine.Summaries
	archive engine.Archive
}

func (s summaries) SessionSummary(account, session string) (*record.SessionSummary, error) {
	return s.archive.SessionSummary(account, session)
}

func TestTheEngineKeepsSummaries(t *testing.T) {
	storetest.RunSummaries(t, func(t *testing.T) (storetest.Memory, storetest.Summaries) {
		m := open(t, nil)
		return asMemory(m), summaries{m.Summaries(), m.Archive()}
	})
}

func TestTheEngineKeepsWhatWasRecalled(t *testing.T) {
	storetest.RunRecollections(t, func(t *testing.T) (storetest.Memory, storetest.Recollections) {
		m := open(t, nil)
		return asMemory(m), m.Notes()
	})
}

func TestWithoutAnIndexASearchSaysSo(t *testing.T) {
	m := open(t, nil)
	_, err := m.Index().Search(t.Context(), "acme", &search.Request{Query: "mutex"})
	if err == nil || codec.AsError(err, "").Kind != codec.KindNotFound {
		t.Errorf("the search ends with %v", err)
	}
	if status, err := m.Index().Status(t.Context(), "acme"); status != nil || err != nil {
		t.Errorf("the status is %+v, %v", status, err)
	}
	if err := m.Index().Wait(t.Context(), "acme"); err != nil {
		t.Errorf("the wait ends with %v", err)
	}
}
