package record

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/redact"
)

// SessionSummary is a model's summary of a session. It is deleted with every exchange that leaves the session, because
// it may repeat what is erased.
type SessionSummary struct {
	Text    string    `json:"text"`
	By      string    `json:"by"`      // "model NAME"
	Written time.Time `json:"written"` // UTC
	Through string    `json:"through"` // the last exchange it covers
}

// MaxSummary is the longest summary kept, in bytes.
const MaxSummary = 8 << 10

// ReadSummary reads a summary's record.
func ReadSummary(record []byte) (*SessionSummary, error) {
	m := new(SessionSummary)
	return m, Decode(record, m)
}

// Record returns the record of a summary. Credentials in it are masked, and it is truncated if too long.
func (m SessionSummary) Record(r *redact.Redactor) ([]byte, error) {
	for _, text := range []*string{&m.Text, &m.By} {
		RedactText(r, text, new(redact.Tally))
		*text = strings.ToValidUTF8((*text)[:min(len(*text), MaxSummary)], "")
	}
	return kv.EncodeRecord(m)
}

// Same reports whether two summaries are one and the same, as stored.
func (m SessionSummary) Same(as *SessionSummary) bool {
	return m.Text == as.Text && m.Written.Equal(as.Written)
}

// UnsummarizedSession is a session that has grown, or has lost its summary, since it was last checked.
type UnsummarizedSession struct {
	Account AccountNumber
	Session string
	Grew    time.Time // last
}
