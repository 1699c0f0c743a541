package salvage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"strconv"
	"syscall"
)

// A log is a header of 20 bytes (the number of an encryption key, 0 here, and the base of an initialization vector) and
// records: meta byte, user meta byte, lengths of key and value and the expiry of the entry (varints), key, value, and
// the CRC-32C of all that. Logs of memory tables hold commits: entries of one version, and a record that ends them. A
// value log holds single entries, which tables and memory tables point to.
//
// Logs are written through memory maps into files of zeros. A killed process leaves at most one incomplete record,
// followed by zeros; anything else after the last record, or between two records, is damage.
const (
	HeaderSize      = 20 // of a log
	maxRecordHeader = 22
	minRecord       = 2 + 3 + versionBytes + crc32.Size
	maxKey          = 1 << 16

	windowBytes = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Log is the state of a log.
type Log struct {
	Size    int64
	Records int
	End     int64     // end of the last record
	Bad     []Stretch // unreadable ranges before End; none is shorter than a record, since it is mended by one
	Header  bool      // the header names an encryption key, which none of our logs has
	Tail    Tail
	Newest  uint64 // version
}

// Whole reports whether the log is intact, except for the last record of a killed process.
func (l *Log) Whole() bool { return len(l.Bad) == 0 && !l.Header && l.Tail != TailDamaged }

// Tail is what follows the last record of a log.
type Tail int

const (
	TailEmpty   Tail = iota // nothing, or zeros
	TailTorn                // a record that a killed process did not finish
	TailDamaged             // anything else: the file was truncated or overwritten
)

// Record is an entry of a log with its place.
type Record struct {
	Entry
	At  Stretch
	raw []byte // all bytes of the record
	end bool   // it ends a commit
}

// ReadLog visits the readable records of a log, including those after damage.
func ReadLog(path string, visit func(*Record) error) (Log, error) {
	file, err := os.Open(path)
	if err != nil {
		return Log{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return Log{}, err
	}
	w := &window{file: file, size: info.Size()}
	l := Log{Size: w.size, End: min(HeaderSize, w.size)}
	head, err := w.at(0, HeaderSize)
	if err != nil {
		return l, err
	}
	if len(head) < HeaderSize {
		if w.size > 0 {
			l.Tail = TailDamaged
		}
		return l, nil
	}
	l.Header = binary.BigEndian.Uint64(head) != 0
	for at := int64(HeaderSize); ; {
		r, err := w.record(at)
		if err != nil {
			return l, err
		}
		if r == nil {
			next, err := w.resume(at)
			if err != nil {
				return l, err
			}
			if next < 0 {
				l.Tail, err = w.tail(at)
				return l, err
			}
			l.Bad = append(l.Bad, Stretch{at, next})
			at = next
			continue
		}
		if n := len(l.Bad) - 1; n >= 0 && l.Bad[n].To == at && l.Bad[n].size() < minRecord {
			l.Bad[n].To = r.At.To
		}
		l.Records++
		l.Newest = max(l.Newest, r.Version)
		if err := visit(r); err != nil {
			return l, err
		}
		at = r.At.To
		l.End = at
	}
}

// ReadRecord reads the record that a value pointer refers to; nil: there is none.
func ReadRecord(file *os.File, p Pointer) (*Record, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	w := &window{file: file, size: min(info.Size(), int64(p.Offset)+int64(p.Size))}
	r, err := w.record(int64(p.Offset))
	if r == nil || r.At.To-r.At.From != int64(p.Size) {
		return nil, err
	}
	return r, nil
}

// window reads a file in pieces.
type window struct {
	file *os.File
	size int64
	from int64
	data []byte

	vain int64 // bytes that were summed of what is no record
	sums *sums // from then on
}

// maxVain is how much is summed of what is no record before the checksums of the file's beginnings are computed.
const maxVain = 16 << 20

// at returns n bytes, fewer at the end of the file. They are valid until the next call.
func (w *window) at(from int64, n int) ([]byte, error) {
	if n = int(min(int64(n), w.size-from)); n <= 0 {
		return nil, nil
	}
	if from < w.from || from+int64(n) > w.from+int64(len(w.data)) {
		length := int(min(max(int64(n), windowBytes), w.size-from))
		if cap(w.data) < length {
			w.data = make([]byte, length)
		}
		w.data = w.data[:length]
		w.from = from
		if _, err := w.file.ReadAt(w.data, from); err != nil && !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("read %s: %w", w.file.Name(), err)
		}
	}
	return w.data[from-w.from:][:n], nil
}

// header is the header of a record.
type header struct {
	meta, userMeta byte
	key, value     int64
	size           int64 // of the header itself
	life           uint64
}

func (h *header) total() int64 { return h.size + h.key + h.value + crc32.Size }

func readHeader(b []byte) (h header, ok bool) {
	if len(b) < 5 {
		return h, false
	}
	h.meta, h.userMeta = b[0], b[1]
	at := 2
	var fields [3]uint64
	for i := range fields {
		v, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return h, false
		}
		fields[i] = v
		at += n
	}
	if fields[0] < versionBytes || fields[0] > maxKey || fields[1] > 1<<32 {
		return h, false
	}
	h.key, h.value, h.life, h.size = int64(fields[0]), int64(fields[1]), fields[2], int64(at)
	return h, true
}

// record reads the record at an offset; nil: there is none.
func (w *window) record(from int64) (*Record, error) {
	b, err := w.at(from, maxRecordHeader)
	if err != nil {
		return nil, err
	}
	h, ok := readHeader(b)
	if !ok || from+h.total() > w.size {
		return nil, nil
	}
	if ok, err := w.sound(from, h.total()); !ok || err != nil { // the length may be damaged: verify before allocating
		return nil, err
	}
	raw, err := w.at(from, int(h.total()))
	if err != nil || int64(len(raw)) < h.total() {
		return nil, err
	}
	body := raw[:len(raw)-crc32.Size]
	key, version := splitKey(body[h.size : h.size+h.key])
	return &Record{
		Entry: Entry{Key: key, Version: version, Meta: h.meta, UserMeta: h.userMeta, Value: body[h.size+h.key:]},
		At:    Stretch{from, from + h.total()}, raw: raw, end: h.meta&metaEnd != 0,
	}, nil
}

// sound verifies the checksum of a record.
func (w *window) sound(from, total int64) (bool, error) {
	if w.vain > maxVain {
		if w.sums == nil {
			w.sums = &sums{file: w.file}
		}
		return w.sums.sound(from, total)
	}
	end, sum := from+total-crc32.Size, uint32(0)
	for at := from; at < end; {
		b, err := w.at(at, int(min(end+crc32.Size-at, windowBytes)))
		if err != nil || len(b) == 0 {
			return false, err
		}
		b = b[:min(int64(len(b)), end-at)]
		sum, at = crc32.Update(sum, castagnoli, b), at+int64(len(b))
	}
	b, err := w.at(end, crc32.Size)
	if err != nil || len(b) < crc32.Size {
		return false, err
	}
	if sum != binary.BigEndian.Uint32(b) {
		w.vain += total
		return false, nil
	}
	return true, nil
}

// resume finds the next record after damage; -1: there is none. The bytes of a value can look like a record, so a
// record only counts if another one follows it, or the end of what was written.
func (w *window) resume(from int64) (int64, error) {
	for at := w.written(from + 1); at < w.size; {
		b, err := w.at(at, windowBytes/2)
		if err != nil {
			return -1, err
		}
		last := len(b) - maxRecordHeader
		if at+int64(len(b)) == w.size {
			last = len(b) - minRecord
		}
		if last < 0 {
			break
		}
		for i := 0; i <= last; i++ {
			if b[i+2] == 0 || b[i+1] > 1 {
				continue
			}
			h, ok := readHeader(b[i:min(i+maxRecordHeader, len(b))])
			if !ok || h.life != 0 || h.meta&0x30 != 0 || at+int64(i)+h.total() > w.size {
				continue
			}
			found, err := w.begins(at + int64(i))
			if err != nil || found {
				return at + int64(i), err
			}
			if b, err = w.at(at, windowBytes/2); err != nil { // begins has moved the window
				return -1, err
			}
		}
		at = w.written(at + int64(last) + 1)
	}
	return -1, nil
}

// begins reports whether records continue at an offset.
func (w *window) begins(at int64) (bool, error) {
	r, err := w.record(at)
	if r == nil {
		return false, err
	}
	to := r.At.To
	if r, err = w.record(to); r != nil || err != nil {
		return r != nil, err
	}
	b, err := w.at(to, 3)
	return len(b) == 0 || len(b) > 2 && b[2] == 0, err
}

// seekData is Linux's whence for the next byte that was ever written.
const seekData = 3

// written skips a hole in the file: logs are extended to their full size long before they are full.
func (w *window) written(from int64) int64 {
	if runtime.GOOS != "linux" || from >= w.size {
		return from
	}
	at, err := w.file.Seek(from, seekData)
	if err == nil {
		return at
	}
	if errors.Is(err, syscall.ENXIO) {
		return w.size
	}
	return from // the file system does not tell
}

// tail classifies what follows the last record.
func (w *window) tail(from int64) (Tail, error) {
	clear, err := w.zeros(from)
	if err != nil || clear {
		return TailEmpty, err
	}
	b, err := w.at(from, maxRecordHeader)
	if err != nil {
		return TailDamaged, err
	}
	if len(b) > 2 && b[2] == 0 {
		return TailTorn, nil // the first bytes of a large record are copied last; no record has an empty key
	}
	h, ok := readHeader(b)
	if !ok || from+h.total() > w.size {
		return TailDamaged, nil
	}
	if clear, err = w.zeros(from + h.total()); err != nil || !clear {
		return TailDamaged, err
	}
	return TailTorn, nil
}

// zeros reports whether there are only zeros from an offset on.
func (w *window) zeros(from int64) (bool, error) {
	for at := w.written(from); at < w.size; {
		b, err := w.at(at, windowBytes)
		if err != nil {
			return false, err
		}
		if b[0] != 0 || !bytes.Equal(b[1:], b[:len(b)-1]) { // the first is zero, and each equals the next
			return false, nil
		}
		at = w.written(at + int64(len(b)))
	}
	return true, nil
}

// Commit is the entries of one version in a memory table's log.
type Commit struct {
	Entries []Entry
	Ended   bool // the record of its end follows; otherwise entries may be missing
}

// ReadCommits groups the readable records of a memory table's log into commits. A commit that a killed process did not
// finish is omitted; of a damaged commit, the readable entries are visited.
func ReadCommits(path string, visit func(Commit) error) (Log, error) {
	var open []Entry
	give := func(ended bool) error {
		if len(open) == 0 {
			return nil
		}
		entries := open
		open = nil
		return visit(Commit{entries, ended})
	}
	l, err := ReadLog(path, func(r *Record) error {
		if r.end {
			return give(true)
		}
		e := r.Entry
		alone := e.Meta&metaCommit == 0 // garbage collection of the value logs has moved its value
		if alone || len(open) > 0 && open[0].Version != e.Version {
			if err := give(false); err != nil {
				return err
			}
		}
		e.Key, e.Value = append([]byte(nil), e.Key...), append([]byte(nil), e.Value...)
		if open = append(open, e); alone {
			return give(true)
		}
		return nil
	})
	if err == nil && len(open) > 0 && (l.Tail == TailDamaged || l.End == l.Size) {
		l.Tail = TailDamaged // Badger extends these files beyond their content, or truncates them after a commit
		err = give(false)
	}
	return l, err
}

// MendCommits writes the readable commits of a memory table's log to another file.
func MendCommits(path, to string) error {
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	buf := make([]byte, HeaderSize)
	_, err = ReadCommits(path, func(c Commit) error {
		version := c.Entries[0].Version
		for i := range c.Entries {
			buf = appendRecord(buf, &c.Entries[i], c.Entries[i].Meta|metaCommit)
		}
		end := Entry{Key: []byte("!badger!txn"), Version: version, Value: strconv.AppendUint(nil, version, 10)}
		buf = appendRecord(buf, &end, metaEnd)
		_, err := out.Write(buf)
		buf = buf[:0]
		return err
	})
	if err == nil {
		_, err = out.Write(buf)
	}
	return errors.Join(err, out.Sync(), out.Close())
}

func appendRecord(to []byte, e *Entry, meta byte) []byte {
	from := len(to)
	key := joinKey(e.Key, e.Version)
	to = append(to, meta, e.UserMeta)
	to = binary.AppendUvarint(to, uint64(len(key)))
	to = binary.AppendUvarint(to, uint64(len(e.Value)))
	to = binary.AppendUvarint(to, 0)
	to = append(append(to, key...), e.Value...)
	return binary.BigEndian.AppendUint32(to, crc32.Checksum(to[from:], castagnoli))
}

// fillerKey is the key of the records that replace damage in a value log. Nothing refers to it.
const fillerKey = "!mneme!damaged"

// MendValues writes a copy of a value log in which filler records replace damage, so that Badger reads past them and
// all other records stay in place. A record after damage that is shorter than a filler moves to the end of the copy. The
// fillers' values are bytes that none of our records consists of.
func MendValues(path, to string) error {
	var moved []byte
	end := int64(HeaderSize)
	l, err := ReadLog(path, func(r *Record) error {
		if gap := r.At.From - end; gap > 0 && gap < minRecord {
			moved = append(moved, r.raw...)
		}
		end = r.At.To
		return nil
	})
	if err != nil {
		return err
	}
	in, err := os.Open(path)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(out, in, l.End)
	if err == nil && l.End < HeaderSize {
		err = out.Truncate(HeaderSize)
	}
	if err == nil && l.Header {
		_, err = out.WriteAt(make([]byte, 8), 0)
	}
	for _, bad := range l.Bad {
		if err == nil {
			_, err = out.WriteAt(filler(int(bad.size())), bad.From)
		}
	}
	if err == nil {
		_, err = out.WriteAt(moved, max(l.End, HeaderSize))
	}
	return errors.Join(err, out.Sync(), out.Close())
}

// IsFiller reports whether the value of a record is that of a filler.
func IsFiller(value []byte) bool {
	return len(value) > 0 && value[0] == 0xff && bytes.Equal(value[1:], value[:len(value)-1]) // each equals the next
}

// filler returns a record of exactly size bytes, which are at least those of the shortest record.
func filler(size int) []byte {
	e := Entry{Key: []byte(fillerKey)[:min(len(fillerKey), size-minRecord)]}
	for {
		b := appendRecord(nil, &e, 0)
		switch d := size - len(b); {
		case d == 0:
			return b
		case d < 0: // the length of the value takes one more byte
			e.Key = append(e.Key, make([]byte, 1)...)
			e.Value = e.Value[:max(0, len(e.Value)+d-1)]
		default:
			old := len(e.Value)
			e.Value = append(e.Value, make([]byte, d)...)
			for i := old; i < len(e.Value); i++ {
				e.Value[i] = 0xff
			}
		}
	}
}
