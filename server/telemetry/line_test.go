package telemetry

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestALineTellsOfAnExchangeWhatIsKnown(t *testing.T) {
	began := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		report Report
		line   string
	}{
		"all": {Report{
			ID: "exch_1", Session: "sess_1", Account: "acme", KeyID: "key_1", Surface: codec.Messages, Format: codec.Chat,
			Provider: "openai", Model: "gpt-5.5", StandIn: "gpt-4.1", Stream: true, Status: 200, Outcome: record.OutcomeUpstreamError,
			Error: codec.Errorf(codec.KindTimeout, "late"), Attempts: 2, Usage: codec.Usage{InputUncached: 3, Output: 4, Estimated: true},
			Started: began, FirstByte: began.Add(time.Second), Ended: began.Add(2 * time.Second),
		}, `{"time":"2026-11-20T08:00:02Z","level":"INFO","msg":"exchange","exchange":"exch_1","session":"sess_1","account":"acme","key":"key_1",` +
			`"surface":"messages","provider":"openai","format":"chat","model":"gpt-5.5","stream":true,"status":200,"outcome":"upstream_error","error":"timeout",` +
			`"attempts":2,"stand_in":"gpt-4.1","input_tokens":3,"output_tokens":4,"tokens_estimated":true,"first_byte_ms":1000,"duration_ms":2000}` + "\n"},
		"little": {
			Report{ID: "exch_1", Surface: codec.Chat, Outcome: record.OutcomeRefused, Status: 400, Started: began, Ended: began},
			`{"time":"2026-11-20T08:00:00Z","level":"INFO","msg":"exchange","exchange":"exch_1","surface":"chat","stream":false,"status":400,"outcome":"refused","duration_ms":0}` + "\n",
		},
		"not on record": {Report{Surface: codec.Chat, Ended: began, Started: began}, ""}, // for debugging only
	} {
		var out bytes.Buffer
		New(Options{Log: slog.New(slog.NewJSONHandler(&out, nil))}).Report(&test.report, nil)
		if out.String() != test.line {
			t.Errorf("%s: the line is\n%s, want\n%s", name, out.String(), test.line)
		}
	}
}
