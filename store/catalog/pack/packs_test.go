package pack_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
)

const account = 7

// written is a pack in a bucket.
type written struct {
	*pack.Packs
	server  *s3test.Server
	bucket  string
	entries []pack.Entry
	values  [][]byte
}

// write puts one pack of so many values into a bucket of its own.
func write(t *testing.T, count int) *written {
	t.Helper()
	w := &written{server: s3test.Start(t)}
	w.bucket = w.server.Bucket(t)
	w.open(t)
	id, b := pack.NewID(), pack.NewBuilder(account)
	for i := range count {
		name, value := fmt.Appendf(nil, "value %d", i), bytes.Repeat([]byte{byte(i)}, 1000*(i+1))
		at, size := b.Add(name, value)
		w.entries, w.values = append(w.entries, pack.Entry{Name: name, Pack: id, At: at, Size: size}), append(w.values, value)
	}
	check(t, w.Put(t.Context(), account, id, b.Content()))
	return w
}

// open opens the bucket once more: nothing is remembered.
func (w *written) open(t *testing.T) {
	t.Helper()
	packs, err := pack.Open(t.Context(), w.bucket+"/prefix", "centre", 1<<20)
	check(t, err)
	w.Packs = packs
}

func (w *written) file(t *testing.T) string {
	t.Helper()
	files := w.server.Files(t, w.bucket)
	if len(files) != 1 {
		t.Fatalf("the bucket has %q, want one pack", files)
	}
	return files[0]
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestValuesAreReadFromTheBucketAsTheyWereWritten(t *testing.T) {
	w := write(t, 20)
	for range 2 { // from the bucket, and from memory
		values, err := w.Read(t.Context(), account, w.entries)
		check(t, err)
		for i, v := range values {
			if v.Err != nil || !bytes.Equal(v.Bytes, w.values[i]) {
				t.Errorf("value %d: %d bytes, error %v", i, len(v.Bytes), v.Err)
			}
		}
	}
	if want := filepath.Join("prefix", "centre", "7"); !strings.Contains(w.file(t), want) {
		t.Errorf("the pack is at %s, want it below %s", w.file(t), want)
	}
}

func TestAPackIsWrittenOnce(t *testing.T) {
	w := write(t, 1)
	id := pack.NewID()
	var succeeded atomic.Int32
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			if w.Put(t.Context(), account, id, []byte("content")) == nil {
				succeeded.Add(1)
			}
		})
	}
	writers.Wait()
	if n := succeeded.Load(); n != 1 {
		t.Errorf("%d of 8 wrote the same pack, want 1", n)
	}
}

func TestDamageIsAnErrorOfWhatItHitsAlone(t *testing.T) {
	const hit = 3
	harms := map[string]struct {
		harm func(t *testing.T, w *written, file string)
		lost func(i int) bool
		want error
	}{
		"a byte is flipped": {
			func(t *testing.T, w *written, file string) { flip(t, file, w.entries[hit].At+w.entries[hit].Size/2) },
			func(i int) bool { return i == hit }, pack.ErrDamaged,
		},
		"a length is flipped": {
			func(t *testing.T, w *written, file string) { flip(t, file, w.entries[hit].At) },
			func(i int) bool { return i == hit }, pack.ErrDamaged,
		},
		"the end is cut off": {
			func(t *testing.T, w *written, file string) { check(t, os.Truncate(file, int64(w.entries[hit].At+1))) },
			func(i int) bool { return i >= hit }, pack.ErrDamaged,
		},
		"nothing is left": {
			func(t *testing.T, _ *written, file string) { check(t, os.Truncate(file, 0)) },
			func(int) bool { return true }, pack.ErrDamaged,
		},
		"the pack is gone": {
			func(t *testing.T, _ *written, file string) { check(t, os.Remove(file)) },
			func(int) bool { return true }, pack.ErrMissing,
		},
	}
	for name, h := range harms {
		t.Run(name, func(t *testing.T) {
			w := write(t, 6)
			h.harm(t, w, w.file(t))
			w.open(t)
			values, err := w.Read(t.Context(), account, w.entries)
			check(t, err)
			for i, v := range values {
				switch {
				case h.lost(i) && !errors.Is(v.Err, h.want):
					t.Errorf("value %d: error %v, want %v", i, v.Err, h.want)
				case !h.lost(i) && !bytes.Equal(v.Bytes, w.values[i]):
					t.Errorf("value %d is lost with others: %v", i, v.Err)
				}
			}
		})
	}
}

func flip(t *testing.T, file string, at int) {
	t.Helper()
	content, err := os.ReadFile(file)
	check(t, err)
	content[at] ^= 0x40
	check(t, os.WriteFile(file, content, 0o600))
}

func TestAValueIsReadUnderItsOwnNameAndAccountAlone(t *testing.T) {
	w := write(t, 2)
	other := w.entries[0]
	other.Name = w.entries[1].Name
	values, err := w.Read(t.Context(), account, []pack.Entry{other})
	check(t, err)
	if !errors.Is(values[0].Err, pack.ErrDamaged) {
		t.Errorf("a value was read under another's name: %v", values[0].Err)
	}
	file := w.file(t)
	foreign := filepath.Join(filepath.Dir(filepath.Dir(file)), "8", filepath.Base(file))
	check(t, os.MkdirAll(filepath.Dir(foreign), 0o755))
	check(t, os.Rename(file, foreign))
	w.open(t)
	values, err = w.Read(t.Context(), account+1, w.entries)
	check(t, err)
	if !errors.Is(values[1].Err, pack.ErrDamaged) {
		t.Errorf("the value of another account was read: %v", values[1].Err)
	}
}

func TestRecordsMoveToAnotherPackAsTheyAre(t *testing.T) {
	w := write(t, 5)
	flip(t, w.file(t), w.entries[4].At+20)
	kept := w.entries[2:]
	records, err := w.Records(t.Context(), account, kept)
	check(t, err)
	id, b := pack.NewID(), pack.NewBuilder(account)
	for i, record := range records {
		kept[i].Pack = id
		kept[i].At, kept[i].Size = b.AddRecord(record)
	}
	check(t, w.Put(t.Context(), account, id, b.Content()))
	values, err := w.Read(t.Context(), account, kept)
	check(t, err)
	if !bytes.Equal(values[0].Bytes, w.values[2]) || !bytes.Equal(values[1].Bytes, w.values[3]) {
		t.Errorf("the values have changed on the way: %v, %v", values[0].Err, values[1].Err)
	}
	if !errors.Is(values[2].Err, pack.ErrDamaged) {
		t.Errorf("what was damaged passes for sound: %v", values[2].Err)
	}
}

func TestADeletedPackIsServedFromNowhere(t *testing.T) {
	w := write(t, 3)
	w.Remember(account, w.entries[0].Pack, w.entries[0].At, w.values[0])
	for range 2 { // what is not there is deleted already
		check(t, w.Delete(t.Context(), account, w.entries[0].Pack))
	}
	values, err := w.Read(t.Context(), account, w.entries[:1])
	check(t, err)
	if !errors.Is(values[0].Err, pack.ErrMissing) {
		t.Errorf("error %v, want that the pack is missing", values[0].Err)
	}
}

// Workers of one memory find the same packs to delete.
func TestAPackIsDeletedByManyAtOnce(t *testing.T) {
	w := write(t, 1)
	for range 50 {
		id := pack.NewID()
		check(t, w.Put(t.Context(), account, id, []byte("content")))
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				if err := w.Delete(t.Context(), account, id); err != nil {
					t.Error(err)
				}
			})
		}
		workers.Wait()
	}
	w.file(t) // the first one alone
}

func TestAServiceThatIsAwayLosesNoValue(t *testing.T) {
	w := write(t, 3)
	w.server.Kill()
	if _, err := w.Read(t.Context(), account, w.entries); err == nil {
		t.Error("there is no error, though the service is away")
	}
	w.server.Run(t)
	values, err := w.Read(t.Context(), account, w.entries)
	check(t, err)
	for i, v := range values {
		if !bytes.Equal(v.Bytes, w.values[i]) {
			t.Errorf("value %d: %v", i, v.Err)
		}
	}
}

func TestABucketThatCannotBeUsedIsRefusedAtTheStart(t *testing.T) {
	server := s3test.Start(t)
	sound := server.Bucket(t)
	for name, c := range map[string]struct{ bucket, env, value, want string }{
		"no such bucket":       {bucket: "s3://elsewhere", want: "bucket elsewhere cannot be written"},
		"another secret":       {bucket: sound, env: "AWS_SECRET_ACCESS_KEY", value: "not-the-secret", want: "cannot be written"},
		"no URL":               {bucket: "memory", want: "write s3://BUCKET"},
		"credentials in a URL": {bucket: "s3://me:hidden-word@memory", want: "write s3://BUCKET"},
		"no address":           {bucket: sound, env: "AWS_ENDPOINT_URL_S3", value: "hidden-word", want: "not the address of a service"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.env != "" {
				t.Setenv(c.env, c.value)
			}
			_, err := pack.Open(t.Context(), c.bucket, "centre", 0)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one with %q", err, c.want)
			}
			for _, secret := range []string{"hidden-word", "not-the-secret"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("the error names a secret: %v", err)
				}
			}
		})
	}
}
