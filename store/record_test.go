package store

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Records are JSON for everybody: they say what the standard library's would say, whatever clients sent, and are read as
// that reads them.
func TestRecordsSayWhatTheStandardLibraryWouldSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		moment := time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "time")).UTC()
		for _, record := range []any{
			&ExchangeInfo{
				ID: "exch_1", Outcome: OutcomeClientClosed, Started: moment, ModelAsked: text.Draw(t, "model"), Status: rapid.Int().Draw(t, "status"),
				Header: []HeaderField{{"User-Agent", text.Draw(t, "header")}}, Error: &ErrorInfo{Message: text.Draw(t, "error")},
			},
			&sessionRecord{Session: Session{ID: "sess_1", Created: moment, Tags: []string{text.Draw(t, "tag")}}, Links: [][]byte{[]byte(text.Draw(t, "link"))}},
			&turnRecord{
				Turn:      Turn{Exchange: "exch_1", Messages: []Message{{Role: "user", Parts: []Part{{Kind: "text", Text: text.Draw(t, "text")}}}}},
				Histories: []historyHash{{1}},
			},
		} {
			fresh := func() any { return reflect.New(reflect.TypeOf(record).Elem()).Interface() }
			got, err := encodeRecord(record)
			if err != nil {
				t.Fatal(err)
			}
			standard, err := json.Marshal(record)
			if err != nil {
				t.Fatal(err)
			}
			want, read, ours := fresh(), fresh(), fresh()
			if err := json.Unmarshal(standard, want); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(got[1:], read); err != nil || !reflect.DeepEqual(read, want) {
				t.Fatalf("the standard library reads %+v of\n%s\nwant %+v (%v)", read, got[1:], want, err)
			}
			if err := decodeRecord(append([]byte{recordVersion}, standard...), ours); err != nil || !reflect.DeepEqual(ours, want) {
				t.Fatalf("read %+v of\n%s\nwant %+v (%v)", ours, standard, want, err)
			}
		}
	})
}

func TestWhatARecordSaysIsInNoError(t *testing.T) {
	err := decodeRecord([]byte("\x01{\"id\":\"secret\",,"), new(ExchangeInfo))
	if err == nil || err.Error() != errRecord.Error() {
		t.Errorf("got %v", err)
	}
}
