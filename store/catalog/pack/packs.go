package pack

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// ID identifies a pack among those of its account: the time at which it was begun, in milliseconds since 1970, and 21
// random bits. Ids ascend with time.
type ID int64

const randomBits = 21

// NewID returns an unused id.
func NewID() ID {
	var random [4]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the program instead
	return ID(time.Now().UnixMilli()<<randomBits | int64(binary.BigEndian.Uint32(random[:]))&(1<<randomBits-1))
}

// String returns the id in hexadecimal.
func (id ID) String() string { return fmt.Sprintf("%016x", int64(id)) }

// Entry is the place of a value.
type Entry struct {
	Name     []byte // of the value
	Pack     ID
	At, Size int // of its record, in bytes
}

// Value is the result of reading a value. It must not be changed.
type Value struct {
	Bytes []byte
	Err   error // why it cannot be read: wraps ErrDamaged or ErrMissing
}

// ErrMissing is the error of a value whose pack does not exist.
var ErrMissing = errors.New("its pack is not in the bucket")

// Packs are the packs of one centre. All methods may be called concurrently.
type Packs struct {
	bucket *bucket
	cache  values
}

// Limits for reading packs.
const (
	mostGap    = 32 << 10 // bytes between two records that are read along, instead of in a separate request
	mostAtOnce = 4 << 20  // bytes of a request; a single record may be larger
	atATime    = 16       // concurrent requests
	timeout    = time.Minute
)

// Open opens the packs below a folder of the bucket at a URL: s3://BUCKET, or s3://BUCKET/PREFIX. Credentials come from
// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, otherwise from AWS's credentials file, otherwise from the machine's
// role. The service's address comes from AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, otherwise it is Amazon's; the region
// comes from AWS_REGION. remembered limits the bytes of recently written and read values that are cached. Open fails if
// the bucket cannot be written and read.
func Open(ctx context.Context, address, folder string, remembered int) (*Packs, error) {
	b, err := openBucket(address, folder)
	if err != nil {
		return nil, err
	}
	p := &Packs{bucket: b, cache: newValues(remembered / 2)}
	if err := p.Check(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// Check writes, reads and deletes an object in the bucket. The error says which of them failed.
func (p *Packs) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	key, content := "check-"+NewID().String(), []byte(magic)
	if err := p.bucket.put(ctx, key, content); err != nil {
		return fmt.Errorf("bucket %s cannot be written: %w", p.bucket.name, err)
	}
	again := p.bucket.put(ctx, key, content)
	read, err := p.bucket.read(ctx, key, 0, len(content))
	removed := p.bucket.remove(ctx, key)
	switch {
	case again == nil:
		return fmt.Errorf("bucket %s overwrites objects: its service must support If-None-Match", p.bucket.name)
	case !errors.Is(again, errExists):
		return fmt.Errorf("bucket %s cannot be written: %w", p.bucket.name, again)
	case err == nil && string(read) != magic:
		err = ErrDamaged
		fallthrough
	case err != nil:
		return fmt.Errorf("bucket %s cannot be read: %w", p.bucket.name, err)
	case removed != nil:
		return fmt.Errorf("bucket %s does not allow deletion: %w", p.bucket.name, removed)
	}
	return nil
}

// KeepsVersions reports whether the bucket is versioned, or ever was: then it keeps deleted objects as versions.
func (p *Packs) KeepsVersions(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	kept, err := p.bucket.client.GetBucketVersioning(ctx, p.bucket.name)
	if err != nil {
		return false, fmt.Errorf("read the versioning of bucket %s: %w", p.bucket.name, err)
	}
	return kept.Status != "", nil
}

// owned is the name of an object that marks the packs as a centre's.
const owned = "centre"

// Own marks the bucket as used by this centre.
func (p *Packs) Own(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := p.bucket.put(ctx, owned, []byte(p.bucket.folder))
	if errors.Is(err, errExists) {
		return nil
	}
	return err
}

// CheckOwned fails if this centre has not marked the bucket as its own.
func (p *Packs) CheckOwned(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err := p.bucket.read(ctx, owned, 0, 1)
	if errors.Is(err, errMissing) {
		err = fmt.Errorf("it has no packs of this memory, so it may be the wrong one; if they are lost, create an object %s there to continue without them", p.bucket.path(owned))
	}
	if err != nil {
		return fmt.Errorf("bucket %s: %w", p.bucket.name, err)
	}
	return nil
}

func (p *Packs) key(account kv.AccountNumber, pack ID) string {
	return strconv.FormatUint(uint64(account), 10) + "/" + pack.String() + ".pack"
}

// Put writes a pack. After an error the pack may exist all the same; it is not written again under that id.
func (p *Packs) Put(ctx context.Context, account kv.AccountNumber, pack ID, content []byte) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if err := p.bucket.put(ctx, p.key(account, pack), content); err != nil {
		return fmt.Errorf("write pack %s into bucket %s: %w", pack, p.bucket.name, err)
	}
	return nil
}

// Remember caches the value of a record that is being written. The value must not be changed.
func (p *Packs) Remember(account kv.AccountNumber, pack ID, at int, value []byte) {
	p.cache.put(spot{account, pack, at}, value)
}

// Delete deletes a pack, if it exists.
func (p *Packs) Delete(ctx context.Context, account kv.AccountNumber, pack ID) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	p.cache.forget(account, pack)
	if err := p.bucket.remove(ctx, p.key(account, pack)); err != nil {
		return fmt.Errorf("delete pack %s in bucket %s: %w", pack, p.bucket.name, err)
	}
	return nil
}

// Read returns the values of entries, in their order. err is an error of the service; errors of single values are in
// the values.
func (p *Packs) Read(ctx context.Context, account kv.AccountNumber, entries []Entry) ([]Value, error) {
	values := make([]Value, len(entries))
	var missing []int
	for i, e := range entries {
		value, remembered := p.cache.Get(spot{account, e.Pack, e.At})
		if values[i].Bytes = value; !remembered {
			missing = append(missing, i)
		}
	}
	err := p.records(ctx, account, entries, missing, func(i int, record []byte, err error) {
		e := &entries[i]
		if err == nil {
			record, err = readRecord(account, e.Name, record)
		}
		if err != nil {
			values[i].Err = fmt.Errorf("byte %d of pack %s: %w", e.At, p.key(account, e.Pack), err)
			return
		}
		values[i].Bytes = slices.Clone(record) // does not keep the range that it was read with
		p.cache.put(spot{account, e.Pack, e.At}, values[i].Bytes)
	})
	return values, err
}

// Records returns the undecoded records of entries, for [Builder.AddRecord]; nil for those whose pack does not exist.
func (p *Packs) Records(ctx context.Context, account kv.AccountNumber, entries []Entry) ([][]byte, error) {
	records := make([][]byte, len(entries))
	all := make([]int, len(entries))
	for i := range all {
		all[i] = i
	}
	err := p.records(ctx, account, entries, all, func(i int, record []byte, err error) {
		if err == nil {
			records[i] = append([]byte{}, record...)
		}
	})
	return records, err
}

// records reads some of the entries, range by range, and calls found for each, possibly concurrently.
func (p *Packs) records(ctx context.Context, account kv.AccountNumber, entries []Entry, some []int, found func(i int, record []byte, err error)) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	slices.SortFunc(some, func(a, b int) int {
		return cmp.Or(cmp.Compare(entries[a].Pack, entries[b].Pack), cmp.Compare(entries[a].At, entries[b].At))
	})
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(atATime)
	for len(some) > 0 {
		first := &entries[some[0]]
		count, end := 1, first.At+first.Size
		for ; count < len(some); count++ {
			next := &entries[some[count]]
			if next.Pack != first.Pack || next.At-end > mostGap || next.At+next.Size-first.At > mostAtOnce {
				break
			}
			end = max(end, next.At+next.Size)
		}
		stretch := some[:count]
		some = some[count:]
		reads.Go(func() error {
			var content []byte
			var err error
			if end > first.At {
				content, err = p.bucket.read(ctx, p.key(account, first.Pack), first.At, end-first.At)
			}
			if err != nil && !errors.Is(err, errMissing) {
				return fmt.Errorf("read pack %s in bucket %s: %w", first.Pack, p.bucket.name, err)
			}
			for _, i := range stretch {
				if err != nil {
					found(i, nil, ErrMissing)
					continue
				}
				from := min(entries[i].At-first.At, len(content))
				found(i, content[from:min(from+entries[i].Size, len(content))], nil)
			}
			return nil
		})
	}
	return reads.Wait()
}
