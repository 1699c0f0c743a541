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

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/document"
	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
	"golang.org/x/sync/errgroup"
)

// Version is raised when an index that was written before cannot be read, or would rank otherwise than one written now.
const Version = 2

// shardCount is how many indexes the accounts are spread over, so that a large account does not slow all others.
const shardCount = 8

// Fields of the index.
const (
	fieldText   = "t" // words, see prose
	fieldName   = "n" // names of things, see identifiers
	fieldFacet  = "f" // name, zero byte, value
	fieldLength = "l" // stored only: how many terms the first two have
	fieldID     = "_id"
)

// Document is what is found.
type Document struct {
	Account uint32
	ID      string // unique in the account
	Text    string // found by its words and names
	Names   string // found by the names in it alone
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

// termKey is the form in which terms and ids of an account stand in the index.
func termKey(account uint32, term string) []byte {
	return append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(term)), account), term...)
}

// Index holds the documents of all accounts. It may be used from any goroutine.
type Index struct {
	shards [shardCount]index.Index
	queue  *index.AnalysisQueue
	lists  *lists

	changing sync.Mutex         // held while a batch is put together and committed
	removals [shardCount]uint64 // documents that were taken out since the index was opened
}

// merging lets segments of fewer documents stand beside each other than scorch does by itself: its floor of 2000 asks an
// index of up to so many documents to be one segment, so that each batch of a few turns has all of it written again.
var merging = map[string]any{"FloorSegmentSize": 200}

// Open opens the index in dir, creating it where it is not there.
func Open(dir string) (*Index, error) {
	ix := &Index{queue: index.NewAnalysisQueue(runtime.GOMAXPROCS(0)), lists: newLists()}
	for i := range ix.shards {
		shard, err := scorch.NewScorch(scorch.Name, map[string]any{
			"path":         shardDir(dir, i),
			"bolt_timeout": "2s", // the store's lock keeps other processes out; never wait for one for ever

			"scorchMergePlanOptions": merging,
		}, ix.queue)
		if err == nil {
			err = shard.Open()
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open the lexical index in %s: %w", dir, err), ix.Close())
		}
		ix.shards[i] = shard
	}
	return ix, nil
}

// Whole tells whether all parts of an index are in dir.
func Whole(dir string) bool {
	for i := range shardCount {
		if _, err := os.Stat(filepath.Join(shardDir(dir, i), "root.bolt")); err != nil {
			return false
		}
	}
	return true
}

func shardDir(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%02d", i)) }

// Close writes what is in memory to disk.
func (ix *Index) Close() (err error) {
	for _, shard := range ix.shards {
		if shard != nil {
			err = errors.Join(err, shard.Close())
		}
	}
	ix.queue.Close()
	return err
}

func shardOf(account uint32) int { return int(account % shardCount) }

// Apply puts documents into the index, in place of those with the same keys, and takes others out of it. Each account's
// part is applied whole or not at all, and is on disk when Apply returns.
func (ix *Index) Apply(ctx context.Context, documents []Document, gone []Key) error {
	analysed := make([]*analysedDocument, len(documents))
	workers, ctx := errgroup.WithContext(ctx)
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for i := range documents {
		workers.Go(func() error {
			analysed[i] = analyse(&documents[i])
			return ctx.Err()
		})
	}
	if err := workers.Wait(); err != nil {
		return err
	}
	var batches [shardCount]*shardBatch
	batch := func(account uint32) *shardBatch {
		i := shardOf(account)
		if batches[i] == nil {
			batches[i] = &shardBatch{shard: ix.shards[i], batch: index.NewBatch(), totals: make(map[uint32]*Totals), seen: make(map[string]bool)}
		}
		return batches[i]
	}
	ix.changing.Lock()
	defer ix.changing.Unlock()
	for _, a := range analysed {
		batch(a.key.Account).put(a)
	}
	for _, key := range gone {
		batch(key.Account).remove(key)
	}
	for i, b := range batches {
		if b == nil {
			continue
		}
		ix.removals[i] += b.removed
		if err := b.commit(); err != nil {
			return fmt.Errorf("write to the lexical index: %w", err)
		}
	}
	return nil
}

// analysedDocument is a document as the index takes it in.
type analysedDocument struct {
	key     Key
	lengths lengths
	doc     *document.Document
}

func analyse(d *Document) *analysedDocument {
	text := prose([]byte(d.Text))
	names := append(identifiers([]byte(d.Text)), identifiers([]byte(d.Names))...)
	a := &analysedDocument{key: Key{d.Account, d.ID}, lengths: lengths{uint64(len(text)), uint64(len(names))}}
	a.doc = document.NewDocument(a.key.internal())
	facets := make([]token, 1, 1+len(d.Facets)) // the empty one is what all documents of the account have
	for _, f := range d.Facets {
		facets = append(facets, token{term: facetTerm(f.Name, f.Value)})
	}
	a.doc.AddField(indexedField(fieldText, d.Account, text, index.IndexField))
	a.doc.AddField(indexedField(fieldName, d.Account, names, index.IndexField))
	a.doc.AddField(indexedField(fieldFacet, d.Account, facets, index.IndexField|index.SkipFreqNorm))
	a.doc.AddField(document.NewTextFieldCustom(fieldLength, nil, a.lengths.encode(), index.StoreField, nil))
	return a
}

func facetTerm(name, value string) string { return name + "\x00" + value }

func indexedField(name string, account uint32, tokens []token, options index.FieldIndexingOptions) *document.TextField {
	return document.NewTextFieldCustom(name, nil, nil, options, analysedText{account, tokens})
}

// analysedText gives bleve the terms that were found before.
type analysedText struct {
	account uint32
	tokens  []token
}

// Analyze implements analysis.Analyzer.
func (a analysedText) Analyze([]byte) analysis.TokenStream {
	stream := make(analysis.TokenStream, len(a.tokens))
	backing := make([]analysis.Token, len(a.tokens))
	size := 0
	for _, t := range a.tokens {
		size += 4 + len(t.term)
	}
	keys := make([]byte, 0, size)
	for i, t := range a.tokens {
		start := len(keys)
		keys = append(binary.BigEndian.AppendUint32(keys, a.account), t.term...)
		backing[i].Term = keys[start:len(keys):len(keys)]
		stream[i] = &backing[i]
	}
	return stream
}

// lengths counts a document's terms.
type lengths struct{ text, names uint64 }

func (l lengths) encode() []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, l.text), l.names)
}

func decodeLengths(b []byte) (l lengths) {
	var n int
	l.text, n = binary.Uvarint(b)
	if n > 0 {
		l.names, _ = binary.Uvarint(b[n:])
	}
	return l
}

// Totals are what scoring has to know of an account: how many documents it has and how many terms these have.
type Totals struct{ Documents, TextTerms, NameTerms uint64 }

func totalsKey(account uint32) []byte { return append([]byte("totals "), termKey(account, "")...) }

func readTotals(reader index.IndexReader, account uint32) (t Totals, err error) {
	value, err := reader.GetInternal(totalsKey(account))
	for _, n := range [...]*uint64{&t.Documents, &t.TextTerms, &t.NameTerms} {
		var size int
		if *n, size = binary.Uvarint(value); size <= 0 {
			break
		}
		value = value[size:]
	}
	return t, err
}

func (t *Totals) encode() []byte {
	b := binary.AppendUvarint(nil, t.Documents)
	return binary.AppendUvarint(binary.AppendUvarint(b, t.TextTerms), t.NameTerms)
}

// shardBatch is a change of one shard. The totals of the accounts change together with the documents.
type shardBatch struct {
	shard   index.Index
	reader  index.IndexReader
	batch   *index.Batch
	totals  map[uint32]*Totals
	seen    map[string]bool // documents whose former lengths are taken out of the totals
	removed uint64          // documents that the batch takes out
	err     error
}

// leave takes what the index has under the key out of the totals of its account; there tells whether it has anything.
func (b *shardBatch) leave(key Key) (of *Totals, there bool) {
	if b.reader == nil && b.err == nil {
		b.reader, b.err = b.shard.Reader()
	}
	if b.err != nil {
		return new(Totals), false
	}
	totals := b.totals[key.Account]
	if totals == nil {
		stored, err := readTotals(b.reader, key.Account)
		b.err = errors.Join(b.err, err)
		totals = &stored
		b.totals[key.Account] = totals
	}
	id := key.internal()
	former, there := b.pending(id)
	if !b.seen[id] {
		b.seen[id] = true
		var err error
		former, there, err = storedLengths(b.reader, id)
		b.err = errors.Join(b.err, err)
	}
	if there {
		totals.Documents--
		totals.TextTerms -= former.text
		totals.NameTerms -= former.names
	}
	return totals, there
}

// pending gives the lengths of a document that this very batch has put in.
func (b *shardBatch) pending(id string) (lengths, bool) {
	doc, _ := b.batch.IndexOps[id].(*document.Document)
	if doc == nil {
		return lengths{}, false
	}
	return lengthsOf(doc), true
}

func storedLengths(reader index.IndexReader, id string) (l lengths, there bool, err error) {
	doc, err := reader.Document(id)
	if err != nil || doc == nil {
		return lengths{}, false, err
	}
	return lengthsOf(doc), true, nil
}

func lengthsOf(doc index.Document) (l lengths) {
	doc.VisitFields(func(f index.Field) {
		if f.Name() == fieldLength {
			l = decodeLengths(f.Value())
		}
	})
	return l
}

func (b *shardBatch) put(a *analysedDocument) {
	totals, _ := b.leave(a.key)
	totals.Documents++
	totals.TextTerms += a.lengths.text
	totals.NameTerms += a.lengths.names
	b.batch.Update(a.doc)
}

func (b *shardBatch) remove(key Key) {
	if _, there := b.leave(key); there {
		b.removed++
		b.batch.SetInternal(removedKey, present)
	}
	b.batch.Delete(key.internal())
}

func (b *shardBatch) commit() error {
	if b.reader != nil {
		b.err = errors.Join(b.err, b.reader.Close())
	}
	if b.err != nil {
		return b.err
	}
	for account, totals := range b.totals {
		b.batch.SetInternal(totalsKey(account), totals.encode())
	}
	return b.shard.Batch(b.batch)
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
