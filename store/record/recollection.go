package record

import (
	"math"
	"slices"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// RecollectionKey identifies a place in a conversation by all text before it.
type RecollectionKey [16]byte

// Recollection is what was recalled at a place in a conversation, or silence. It is decided once, and its text is in
// every later request at the same place. It is erased with the exchange that it was decided for, and with each exchange
// that it quotes.
type Recollection struct {
	Exchange string   `json:"exchange"`
	Text     string   `json:"text,omitempty"` // "": silence
	Quotes   []string `json:"quotes,omitempty"`
	Reason   string   `json:"reason,omitempty"` // of silence
	Coverage float64  `json:"coverage,omitempty"`
	Tokens   int      `json:"tokens,omitempty"`
}

// maxRecollection is the longest text of a recollection, in bytes.
const maxRecollection = 8 << 10

// Erased returns the silence that remains of a recollection when an exchange that it quotes is gone.
func (r *Recollection) Erased() Recollection {
	return Recollection{Exchange: r.Exchange, Reason: reasonErased}
}

// Check returns the fault of a recollection that is to be stored.
func (r *Recollection) Check() error {
	if _, ok := kv.ParseExchangeID(r.Exchange); !ok {
		return codec.Invalid("exchange", "%q is not an exchange id", r.Exchange)
	}
	if len(r.Text) > maxRecollection {
		return codec.Invalid("text", "what is recalled has at most %d bytes", maxRecollection)
	}
	return nil
}

// reasonErased is the reason for silence if the recalled text was erased.
const reasonErased = "erased"

// IsOf reports whether a recollection is erased with an exchange.
func (r *Recollection) IsOf(exchange string) bool {
	return r.Exchange == exchange || slices.Contains(r.Quotes, exchange)
}

// RecallInfo is what an exchange's record says about recall.
type RecallInfo struct {
	Exchanges []string `json:"exchanges,omitempty"` // quoted
	Tokens    int      `json:"tokens,omitempty"`
	Coverage  float64  `json:"coverage,omitempty"`
	Reason    string   `json:"reason,omitempty"`   // of silence
	Replayed  int      `json:"replayed,omitempty"` // earlier places of the conversation whose texts were inserted again
}

func (r *RecallInfo) fields(f *fieldCodec) {
	f.strings(1, &r.Exchanges)
	number(f, 2, &r.Tokens)
	thousandths := int64(math.Round(r.Coverage * 1000))
	number(f, 3, &thousandths)
	if f.reading { // a record that is written may be read by others meanwhile
		r.Coverage = float64(thousandths) / 1000
	}
	f.string(4, &r.Reason)
	number(f, 5, &r.Replayed)
}
