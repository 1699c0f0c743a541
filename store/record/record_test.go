package record

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Records are seen as JSON: one that was kept as fields says what the same one says that was kept as JSON by the standard
// library, whatever clients sent.
func TestRecordsOfFieldsEqualRecordsOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
		texts := rapid.SliceOfN(text, 0, 3)
		number := rapid.Int64()
		moment := time.Unix(rapid.Int64Range(firstSecond, lastSecond).Draw(t, "seconds"), rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds")).UTC()
		usage := UsageInfo{InputUncached: number.Draw(t, "input"), Output: number.Draw(t, "output"), Estimated: rapid.Bool().Draw(t, "estimated")}
		part := rapid.Custom(func(t *rapid.T) Part {
			return Part{Kind: text.Draw(t, "kind"), Text: text.Draw(t, "text"), Arguments: text.Draw(t, "arguments"), Failed: rapid.Bool().Draw(t, "failed"), Bytes: number.Draw(t, "bytes")}
		})
		message := rapid.Custom(func(t *rapid.T) Message {
			return Message{Role: text.Draw(t, "role"), Parts: rapid.SliceOfN(part, 1, 3).Draw(t, "parts")}
		})
		for _, record := range []Fields{
			&ExchangeInfo{
				ID: "exch_1", Outcome: OutcomeClientClosed, Started: moment, ModelAsked: text.Draw(t, "model"), Status: rapid.Int().Draw(t, "status"), Usage: usage,
				Header: []HeaderField{{"User-Agent", text.Draw(t, "header")}, {}}, Error: &ErrorInfo{Message: text.Draw(t, "error")}, Translation: texts.Draw(t, "translation"),
			},
			&StoredSession{Session: Session{ID: "sess_1", Created: moment, Tags: texts.Draw(t, "tags"), Usage: usage}, Links: [][]byte{[]byte(text.Draw(t, "link"))}},
			&StoredTurn{Turn: Turn{Exchange: "exch_1", Messages: rapid.SliceOfN(message, 0, 3).Draw(t, "messages")}, Histories: []HistoryHash{{1}}},
		} {
			fresh := func() any { return reflect.New(reflect.TypeOf(record).Elem()).Interface() }
			standard, err := json.Marshal(record)
			if err != nil {
				t.Fatal(err)
			}
			want := fresh()
			if err := json.Unmarshal(standard, want); err != nil {
				t.Fatal(err)
			}
			for _, kept := range [][]byte{Encode(record)} {
				got := fresh()
				if err := Decode(kept, got); err != nil {
					t.Fatalf("%q of %s: %v", kept, standard, err)
				}
				if said, err := json.Marshal(got); err != nil || !bytes.Equal(said, canonical(t, want)) {
					t.Fatalf("read %s\nwant %s (%v)", said, canonical(t, want), err)
				}
			}
		}
	})
}

func canonical(t *rapid.T, v any) []byte {
	said, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// Every member has a field, which FORMAT.md names, and comes back from it.
func TestFormatPageNamesTheFieldsOfRecords(t *testing.T) {
	page, err := os.ReadFile("../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, example := range map[string]any{
		"exchange": ExchangeInfo{}, "session": StoredSession{}, "turn": StoredTurn{},
		"usage": UsageInfo{}, "error": ErrorInfo{}, "attempt": Attempt{}, "header field": HeaderField{}, "redaction": Redaction{},
		"message": Message{}, "part": Part{},
	} {
		table := "\n**Fields of "
		_, table, found := strings.Cut(string(page), table+article(name)+"**")
		if !found {
			t.Errorf("FORMAT.md has no fields of %s", name)
			continue
		}
		table, _, _ = strings.Cut(table, "\n\n")
		for _, member := range reflect.VisibleFields(reflect.TypeOf(example)) {
			tag, _, _ := strings.Cut(member.Tag.Get("json"), ",")
			if tag == "-" { // it is kept, and not shown
				tag = strings.ToLower(member.Name)
			}
			if member.Anonymous || tag == "" || name == "exchange" && tag == "session" || name == "session" && tag == "unheard" { // which are not in the record
				continue
			}
			v := reflect.New(reflect.TypeOf(example))
			give(v.Elem().FieldByIndex(member.Index))
			record := Encode(v.Interface().(Fields))[1:]
			number, _, _ := protowire.ConsumeTag(record)
			if len(record) == 0 {
				t.Errorf("%s: %s is not kept", name, tag)
				continue
			}
			if row := fmt.Sprintf(" %d `%s`", number, tag); !strings.Contains(strings.ReplaceAll(table, "\n", " ")+",", row+",") {
				t.Errorf("FORMAT.md does not say of %s that field %d is %s", name, number, tag)
			}
			got := reflect.New(reflect.TypeOf(example))
			if err := decodeFields(record, got.Interface().(Fields)); err != nil || !reflect.DeepEqual(got.Interface(), v.Interface()) {
				t.Errorf("%s: %s comes back as %+v, was %+v", name, tag, got.Elem(), v.Elem())
			}
		}
	}
}

func article(name string) string {
	if strings.ContainsAny(name[:1], "aeiou") && name != "usage" {
		return "an " + name
	}
	if name == "usage" {
		return name
	}
	return "a " + name
}

// give puts some value into a member.
func give(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(time.Unix(1, 2).UTC()))
		return
	case Outcome:
		v.Set(reflect.ValueOf(OutcomeComplete))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString("text")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		give(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		give(v.Index(0))
	case reflect.Array:
		give(v.Index(0))
	case reflect.Struct:
		give(v.Field(0))
	}
}

// A later mneme adds fields of any kind.
func TestUnknownFieldsAreSkipped(t *testing.T) {
	record := Encode(&ExchangeInfo{ID: "exch_1", Started: time.Unix(1, 0).UTC()})
	record = protowire.AppendTag(record, 500, protowire.BytesType)
	record = protowire.AppendString(record, "new")
	record = protowire.AppendTag(record, 501, protowire.Fixed64Type)
	record = protowire.AppendFixed64(record, 7)
	record = protowire.AppendTag(record, 9, protowire.VarintType)
	record = protowire.AppendVarint(record, 200)
	var got ExchangeInfo
	if err := Decode(record, &got); err != nil || got.ID != "exch_1" || got.Status != 200 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestMalformedFieldsAreAnError(t *testing.T) {
	whole := Encode(&StoredTurn{Turn: Turn{Exchange: "exch_1", Messages: []Message{{Role: "user", Parts: []Part{{Kind: "text", Text: "hi"}}}}}, Histories: []HistoryHash{{1}}})
	for n := range len(whole) - 1 {
		// A cut between two fields leaves a record; the checksums of the database are what finds that.
		if err := Decode(whole[:n], new(StoredTurn)); err == nil && !cutBetweenFields(whole[1:], n-1) {
			t.Errorf("%d of %d bytes are a record", n, len(whole))
		}
	}
	for name, record := range map[string][]byte{
		"a number for a text":           {kv.RecordFields, 1 << 3, 7},
		"a text for a number":           {kv.RecordFields, 9<<3 | 2, 1, 'x'},
		"no UTF-8":                      {kv.RecordFields, 1<<3 | 2, 1, 0xff},
		"an unknown outcome":            {kv.RecordFields, 4 << 3, 99},
		"more bytes than there are":     {kv.RecordFields, 1<<3 | 2, 0x7f, 'x'},
		"a time of the year 40 million": append([]byte{kv.RecordFields, 5<<3 | 2, 10, 1 << 3}, protowire.AppendVarint(nil, 1<<50)...),
	} {
		if err := Decode(record, new(ExchangeInfo)); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

func cutBetweenFields(fields []byte, at int) bool {
	for n := 0; n <= at; {
		if n == at {
			return true
		}
		_, _, length := protowire.ConsumeField(fields[n:])
		n += length
	}
	return false
}

func TestErrorsDoNotQuoteRecords(t *testing.T) {
	for _, record := range []string{"\x01{\"id\":\"secret\",,", "\x02\x0a\x06secret\x0a\x01\xff"} {
		err := Decode([]byte(record), new(ExchangeInfo))
		if err == nil || err.Error() != kv.ErrRecord.Error() {
			t.Errorf("got %v", err)
		}
	}
}
