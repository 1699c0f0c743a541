package files

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// examineValues reads the untrusted value logs: the newest, which Badger would truncate, then others from the newest on
// up to budget bytes, those that have changed since the store was closed, and the heads of all.
func (s *Survey) examineValues(names []string, budget int64) error {
	for _, name := range slices.Backward(names) { // the names have equal lengths, up to a million files
		number, _ := fileNumber(name)
		info, err := os.Stat(s.path(name))
		if err != nil {
			return err
		}
		if _, trusted := s.trusted[name]; trusted {
			s.values[number] = valueLogFile{size: info.Size()}
			continue
		}
		was, changed := s.changed[name]
		newest := number == s.maxValue
		if budget -= info.Size(); !newest && !changed && budget < 0 {
			if err := s.examineHead(name, number, info.Size()); err != nil {
				return err
			}
			continue
		}
		if newest { // its file is larger than its data until it is full
			budget += info.Size()
		}
		l, err := salvage.ReadLog(s.path(name), func(*salvage.Record) error { return nil })
		if err != nil {
			return err
		}
		s.values[number] = valueLogFile{l.End, l.Bad}
		switch {
		case !l.Whole(), l.Size < salvage.HeaderSize:
			s.distrusted = true
			s.replace(name, salvage.MendValues, "%s", logProblem(&l))
		case changed:
			if same, err := s.onlyExtended(was, &l); same || err != nil {
				if err != nil {
					return err
				}
				continue
			}
			s.distrusted = true
			s.replace(name, salvage.MendValues, "it has %d bytes, and had %d when the store was closed; %d records can be read", l.Size, was.Size, l.Records)
		}
	}
	return nil
}

func (s *Survey) examineHead(name string, number uint32, size int64) error {
	file, err := os.Open(s.path(name))
	if err != nil {
		return err
	}
	defer file.Close()
	s.values[number] = valueLogFile{size: size}
	head := make([]byte, 8)
	if n, _ := file.ReadAt(head, 0); n < len(head) || binary.BigEndian.Uint64(head) != 0 {
		s.distrusted = true
		s.replace(name, salvage.MendValues, "its head is damaged")
	}
	return nil
}

// emptyLog is the fault of a log without bytes, left by a process that was killed while creating it.
const emptyLog = "it is empty"

func logProblem(l *salvage.Log) string {
	switch {
	case len(l.Bad) > 1:
		return fmt.Sprintf("it is damaged at %d places, from byte %d on; %d records can be read", len(l.Bad), l.Bad[0].From, l.Records)
	case len(l.Bad) == 1:
		return fmt.Sprintf("bytes %d to %d are damaged; %d other records can be read", l.Bad[0].From, l.Bad[0].To, l.Records)
	case l.Header:
		return "its head is damaged; nothing is lost by it"
	case l.Size == 0:
		return emptyLog
	}
	return fmt.Sprintf("the bytes after its last record, from byte %d on, are not what was written; %d records can be read", l.End, l.Records)
}
