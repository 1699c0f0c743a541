package lexical

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
	"golang.org/x/sync/errgroup"
)

// Version is raised when an index that was written before cannot be read, or would rank otherwise than one written now.
const Version = 4

// shardCount is how many indexes the accounts are spread over, so that a large account does not slow all others.
const shardCount = 8

// Fields of the index.
const (
	fieldText   = "t" // words, see prose
	fieldName   = "n" // names of things, see identifiers
	fieldOutput = "r" // words of what tools were given and gave back, see outputWords
	fieldFacet  = "f" // name, zero byte, value
	fieldLength = "l" // stored only: how many terms the first three have, and the group
	fieldID     = "_id"
)

// Document is what is found.
type Document struct {
	Account uint32
	ID      string // unique in the account
	Text    string // found by its words and names
	Names   string // found by the names in it alone
	Output  string // found by its words, which count for less than those of Text
	Group   string // documents of a group are neighbours in the order of their ids; "": it has none
	Facets  []Facet
}

// Facet is a property that searches can be narrowed by.
type Facet struct{ Name, Value string }

// Key names a document.
type Key struct {
	Account uint32
	ID      string
}

func (k Key) internal() string { return string(termKey(k.Account, k.ID)) }

// accountSize is how many bytes of each term and id are the account.
const accountSize = 4

// termKey is the form in which terms and ids of an account stand in the index.
func termKey(account uint32, term string) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, accountSize+len(term)), account), term...)
}

// Index holds the documents of all accounts. It may be used from any goroutine.
type Index struct {
	dir      string
	failed   func(error) // what goes wrong in goroutines of scorch's
	merging  gate        // of segments
	closing  atomic.Bool
	shards   [shardCount]*scorch.Scorch
	inMemory [shardCount]atomic.Int32 // batches that are not on disk
	forcing  [shardCount]sync.Mutex   // held while a shard's merger is asked for something: one may ask at a time
	waking   sync.WaitGroup           // those who ask
	queue    *index.AnalysisQueue
	lists    *lists
	table    *columnTable

	changing sync.Mutex         // held while a batch is put together and committed
	removals [shardCount]uint64 // documents that were taken out since the index was opened
}

func shardOf(account uint32) int { return int(account % shardCount) }

// Apply puts documents into the index, in place of those with the same keys, and takes others out of it. Each account's
// part is applied whole or not at all. Searches go by it when Apply returns; when all of it is on disk written is called,
// from another goroutine, which it must not hold up. It is not called after an error, or when the index is closed before.
func (ix *Index) Apply(ctx context.Context, documents []Document, gone []Key, written func()) error {
	analysed, err := analyseAll(ctx, documents)
	if err != nil {
		return err
	}
	var batches [shardCount]shardBatch
	for i, a := range analysed {
		b := &batches[shardOf(documents[i].Account)]
		b.puts = append(b.puts, put{documents[i].Account, a})
	}
	for _, key := range gone {
		b := &batches[shardOf(key.Account)]
		b.gone = append(b.gone, key)
	}
	var parts atomic.Int32 // that are not on disk
	for i := range batches {
		if !batches[i].isEmpty() {
			parts.Add(1)
		}
	}
	ix.changing.Lock()
	defer ix.changing.Unlock()
	for i := range batches {
		b := &batches[i]
		if b.isEmpty() {
			continue
		}
		ix.inMemory[i].Add(1)
		err := Contain(func() error {
			return b.commit(ix.shards[i], func(error) {
				ix.inMemory[i].Add(-1)
				if parts.Add(-1) == 0 {
					written()
				}
			})
		})
		ix.removals[i] += b.removed
		if err != nil {
			ix.inMemory[i].Add(-1)
			return fmt.Errorf("write to the lexical index: %w", err)
		}
	}
	return nil
}

// analyseTogether is how many documents one goroutine analyses before another one helps.
const analyseTogether = 16

// analyseAll analyses documents, on every core when there are many.
func analyseAll(ctx context.Context, documents []Document) ([]*indexedDocument, error) {
	analysed := make([]*indexedDocument, len(documents))
	workers, ctx := errgroup.WithContext(ctx)
	step := max(1, min(runtime.GOMAXPROCS(0), len(documents)/analyseTogether))
	for first := range step {
		workers.Go(func() error {
			for i := first; i < len(documents) && ctx.Err() == nil; i += step {
				analysed[i] = analyse(&documents[i])
			}
			return ctx.Err()
		})
	}
	return analysed, workers.Wait()
}

// lengths counts a document's terms.
type lengths struct{ text, names, output uint64 }

// encodeStored puts what is stored of a document into one value: its lengths, and its group where it has one.
func encodeStored(l lengths, group uint64) []byte {
	b := binary.AppendUvarint(binary.AppendUvarint(binary.AppendUvarint(nil, l.text), l.names), l.output)
	if group != 0 {
		b = binary.BigEndian.AppendUint64(b, group)
	}
	return b
}

func decodeStored(b []byte) (l lengths, group uint64) {
	for _, n := range [...]*uint64{&l.text, &l.names, &l.output} {
		var size int
		if *n, size = binary.Uvarint(b); size <= 0 {
			return l, 0
		}
		b = b[size:]
	}
	if len(b) == 8 {
		group = binary.BigEndian.Uint64(b)
	}
	return l, group
}

// Totals are what scoring has to know of an account: how many documents it has and how many terms these have.
type Totals struct{ Documents, TextTerms, NameTerms, OutputTerms uint64 }

func totalsKey(account uint32) []byte { return append([]byte("totals "), termKey(account, "")...) }

func readTotals(reader index.IndexReader, account uint32) (t Totals, err error) {
	value, err := reader.GetInternal(totalsKey(account))
	for _, n := range [...]*uint64{&t.Documents, &t.TextTerms, &t.NameTerms, &t.OutputTerms} {
		var size int
		if *n, size = binary.Uvarint(value); size <= 0 {
			break
		}
		value = value[size:]
	}
	return t, err
}

func (t *Totals) encode() []byte {
	b := binary.AppendUvarint(binary.AppendUvarint(nil, t.Documents), t.TextTerms)
	return binary.AppendUvarint(binary.AppendUvarint(b, t.NameTerms), t.OutputTerms)
}

// shardBatch is a change of one shard. The totals of the accounts change together with the documents.
type shardBatch struct {
	puts []put
	gone []Key

	batch   *index.Batch
	totals  map[uint32]*Totals
	counted map[string]lengths // of the batch's documents, those that the totals count, by internal id
	removed uint64             // documents that the batch takes out
}

type put struct {
	account  uint32
	document *indexedDocument
}

func (b *shardBatch) isEmpty() bool { return len(b.puts)+len(b.gone) == 0 }

// commit applies the batch; written is called when it is on disk.
func (b *shardBatch) commit(shard *scorch.Scorch, written index.BatchCallback) (err error) {
	b.batch = index.NewBatch()
	b.batch.SetPersistedCallback(written)
	if err := b.read(shard); err != nil {
		return err
	}
	for _, p := range b.puts {
		b.leave(p.account, p.document.id)
		totals := b.totals[p.account]
		totals.Documents++
		totals.TextTerms += p.document.lengths.text
		totals.NameTerms += p.document.lengths.names
		totals.OutputTerms += p.document.lengths.output
		b.counted[p.document.id] = p.document.lengths
		b.batch.Update(p.document)
	}
	for _, key := range b.gone {
		id := key.internal()
		if b.leave(key.Account, id) {
			b.removed++
			b.batch.SetInternal(removedKey, present)
		}
		b.batch.Delete(id)
	}
	for account, totals := range b.totals {
		b.batch.SetInternal(totalsKey(account), totals.encode())
	}
	return shard.Batch(b.batch)
}

// read looks up what the shard has of the batch's documents and accounts.
func (b *shardBatch) read(shard *scorch.Scorch) (err error) {
	reader, err := shard.Reader()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	ids := make([]string, 0, len(b.puts)+len(b.gone))
	b.totals = make(map[uint32]*Totals)
	count := func(account uint32) error {
		if b.totals[account] != nil {
			return nil
		}
		totals, err := readTotals(reader, account)
		b.totals[account] = &totals
		return err
	}
	for _, p := range b.puts {
		ids = append(ids, p.document.id)
		err = errors.Join(err, count(p.account))
	}
	for _, key := range b.gone {
		ids = append(ids, key.internal())
		err = errors.Join(err, count(key.Account))
	}
	if err != nil {
		return err
	}
	b.counted, err = storedLengths(reader, ids)
	return err
}

// leave takes a document out of the totals of its account; there reports whether they counted it.
func (b *shardBatch) leave(account uint32, id string) (there bool) {
	former, there := b.counted[id]
	if there {
		delete(b.counted, id)
		totals := b.totals[account]
		totals.Documents--
		totals.TextTerms -= former.text
		totals.NameTerms -= former.names
		totals.OutputTerms -= former.output
	}
	return there
}

// storedLengths gives the lengths of those documents that the index has. It asks each segment for all of them at once,
// and reads documents only where there are any: mostly there are none, for most documents are new.
func storedLengths(reader index.IndexReader, ids []string) (map[string]lengths, error) {
	stored := make(map[string]lengths)
	snapshot, ok := reader.(*scorch.IndexSnapshot)
	if !ok {
		return nil, fmt.Errorf("a reader of type %T", reader)
	}
	for _, segment := range snapshot.Segments() {
		numbers, err := segment.DocNumbers(ids)
		if err != nil {
			return nil, err
		}
		for it := numbers.Iterator(); it.HasNext(); {
			var id string
			var l lengths
			err := segment.VisitDocument(uint64(it.Next()), func(field string, _ byte, value []byte, _ []uint64) bool {
				switch field {
				case fieldID:
					id = string(value)
				case fieldLength:
					l, _ = decodeStored(value)
				}
				return true
			})
			if err != nil {
				return nil, err
			}
			stored[id] = l
		}
	}
	return stored, nil
}

// Totals gives the numbers of an account.
func (ix *Index) Totals(account uint32) (Totals, error) {
	reader, err := ix.shards[shardOf(account)].Reader()
	if err != nil {
		return Totals{}, err
	}
	totals, err := readTotals(reader, account)
	return totals, errors.Join(err, reader.Close())
}

// Bytes is what the index takes on disk.
func Bytes(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			if info, gone := entry.Info(); gone == nil { // files come and go while segments are merged
				size += info.Size()
			}
		}
		return nil
	})
	return size
}
