package responses

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// kept is a record of answers by the ids of their responses.
type kept map[string]struct{ request, answer string }

func (k kept) Response(id string) (request, answer []byte, err error) {
	x, there := k[id]
	if !there {
		return nil, nil, codec.Errorf(codec.KindNotFound, "nothing")
	}
	return []byte(x.request), []byte(x.answer), nil
}

func (kept) Account() string { return "acme" }

func (k kept) Item(id string) (answer []byte, err error) {
	for _, x := range k {
		if strings.Contains(x.answer, id) {
			return []byte(x.answer), nil
		}
	}
	return nil, codec.Errorf(codec.KindNotFound, "nothing")
}

const (
	hello  = `{"type":"message","role":"user","content":"hello"}`
	fine   = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"output_text","text":"fine"}]}`
	thinks = `{"id":"rs_2","type":"reasoning","summary":[]}`
	calls  = `{"id":"fc_2","type":"function_call","call_id":"c","name":"look","arguments":"{}"}`
)

var record = kept{
	"resp_1": {`{"model":"m","instructions":"not carried over","input":"hello"}`, `{"id":"resp_1","output":[` + fine + `]}`},
	"resp_2": {
		`{"previous_response_id":"resp_1","input":[{"role":"user","content":"look"}]}`,
		"event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"item\":" + thinks + "}\n\n" +
			"data: {\"type\":\"response.output_text.delta\",\"delta\":\"response.output_item.done\"}\n\n" +
			"data: {\"type\":\"response.output_item.done\",\ndata: \"item\":" + calls + "}\n\n",
	},
	"resp_3": {`{"previous_response_id":"resp_0","input":"lost"}`, `{"output":[]}`},
}

func TestWhatARequestRefersToIsPutIntoIt(t *testing.T) {
	for name, row := range map[string]struct{ body, want, names string }{
		"nothing": {`{"model":"m","input":[` + hello + `]}`, `{"model":"m","input":[` + hello + `]}`, ""},
		"a conversation of one answer": {
			`{"model":"m","previous_response_id":"resp_1","input":"and you?","stream":true}`,
			`{"model":"m","stream":true,"input":[` + hello + `,` + fine + `,{"type":"message","role":"user","content":"and you?"}]}`,
			"previous_response_id",
		},
		"a conversation of two, the second streamed": {
			`{"input":[{"type":"function_call_output","call_id":"c","output":"x"}],"previous_response_id":"resp_2"}`,
			`{"input":[` + hello + `,` + fine + `,{"role":"user","content":"look"},` + thinks + `,` + calls + `,{"type":"function_call_output","call_id":"c","output":"x"}]}`,
			"previous_response_id",
		},
		"items": {
			`{"input":[` + hello + `,{"type":"item_reference","id":"msg_1"},{"id":"fc_2"},{"id":"x","role":"user","content":"an item with an id"}]}`,
			`{"input":[` + hello + `,` + fine + `,` + calls + `,{"id":"x","role":"user","content":"an item with an id"}]}`,
			"item_reference",
		},
		"neither is null": {`{"previous_response_id":null,"input":"x"}`, `{"previous_response_id":null,"input":"x"}`, ""},
	} {
		got, names, err := Resolve([]byte(row.body), 1<<20, record)
		if err != nil || string(got) != row.want || strings.Join(names, ",") != row.names || !json.Valid(got) {
			t.Errorf("%s: %s %v, %v\nwant %s", name, got, names, err, row.want)
		}
	}
}

func TestWhatIsNotOnRecordIsSaidToBeMissing(t *testing.T) {
	endless := kept{}
	for n := range longestChain + 1 {
		endless[fmt.Sprint("resp_", n)] = struct{ request, answer string }{fmt.Sprintf(`{"previous_response_id":"resp_%d","input":"x"}`, n+1), `{}`}
	}
	for name, row := range map[string]struct {
		body   string
		limit  int
		record kept
		says   string
	}{
		"a response":            {`{"previous_response_id":"resp_0","input":"x"}`, 1 << 20, record, "resp_0 is not on record here"},
		"one further back":      {`{"previous_response_id":"resp_3","input":"x"}`, 1 << 20, record, "resp_0 is not on record here"},
		"an item":               {`{"input":[{"type":"item_reference","id":"msg_0"}]}`, 1 << 20, record, "msg_0 is not on record here"},
		"a part of an id":       {`{"input":[{"type":"item_reference","id":"msg_"}]}`, 1 << 20, record, "msg_ is not on record here"},
		"more than fits":        {`{"previous_response_id":"resp_2","input":"x"}`, 200, record, "larger than a request may be"},
		"more than anyone says": {`{"previous_response_id":"resp_0","input":"x"}`, 1 << 20, endless, "more than 1000 responses"},
	} {
		body, names, err := Resolve([]byte(row.body), row.limit, row.record)
		if err == nil || !strings.Contains(err.Error(), row.says) || names != nil || string(body) != row.body {
			t.Errorf("%s: %v %v, want %q", name, names, err, row.says)
		}
		if missing := strings.Contains(row.says, "not on record"); missing != (codec.AsError(err, "").Kind == codec.KindNotFound) {
			t.Errorf("%s: an error of the kind %s", name, codec.AsError(err, "").Kind)
		}
	}
}

// away is a record whose answers are where nobody answers now.
func (away) Account() string { return "acme" }

type away struct{}

func (away) Response(string) (request, answer []byte, err error) { return nil, nil, errAway }

func (away) Item(string) (answer []byte, err error) { return nil, errAway }

var errAway = &codec.Error{Kind: codec.KindNotFound, RetryAfter: time.Second}

func TestWhatMayBeElsewhereIsToBeAskedForAgain(t *testing.T) {
	for _, body := range []string{`{"previous_response_id":"resp_0","input":"x"}`, `{"input":[{"type":"item_reference","id":"msg_0"}]}`} {
		_, _, err := Resolve([]byte(body), 1<<20, away{})
		if e := codec.AsError(err, ""); e.Kind != codec.KindNotFound || e.RetryAfter != time.Second {
			t.Errorf("%s: %v, try again after %v", body, err, e.RetryAfter)
		}
	}
}

// countingRecord counts how often it is asked for items; each answer holds one item, and the first a second one.
type countingRecord struct{ asked int }

func (c *countingRecord) Response(string) (request, answer []byte, err error) {
	return nil, nil, codec.Errorf(codec.KindNotFound, "nothing")
}

func (*countingRecord) Account() string { return "acme" }

func (c *countingRecord) Item(id string) (answer []byte, err error) {
	c.asked++
	return fmt.Appendf(nil, `{"output":[{"id":"msg_again","type":"message"},{"id":%q,"type":"message"}]}`, id), nil
}

// However many items a request refers to, each answer is looked up once, and no more of them than a conversation may have.
func TestAnAnswerIsLookedUpOnceForAllOfItsItems(t *testing.T) {
	references := func(n int, id func(int) string) []byte {
		items := make([]string, n)
		for i := range items {
			items[i] = fmt.Sprintf(`{"type":"item_reference","id":%q}`, id(i))
		}
		return []byte(`{"input":[` + strings.Join(items, ",") + `]}`)
	}
	same := &countingRecord{}
	if _, names, err := Resolve(references(5000, func(int) string { return "msg_again" }), 1<<20, same); err != nil || len(names) != 1 || same.asked != 1 {
		t.Errorf("asked %d times for one answer: %v", same.asked, err)
	}
	others := &countingRecord{}
	if _, _, err := Resolve(references(5000, func(i int) string { return fmt.Sprint("msg_", i) }), 1<<20, others); err == nil || others.asked != longestChain {
		t.Errorf("asked for %d answers: %v", others.asked, err)
	}
	large := kept{"resp_1": {`{"input":"x","tools":"` + strings.Repeat("t", 5000) + `"}`, `{"output":[]}`}}
	if _, _, err := Resolve([]byte(`{"previous_response_id":"resp_1","input":"y"}`), 1000, large); err == nil || !strings.Contains(err.Error(), "larger than a request may be") {
		t.Errorf("a record of 5,000 bytes is read for 1,000: %v", err)
	}
}
