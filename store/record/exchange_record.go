package record

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mnemeproxy/mneme/codec"
)

// FORMAT.md has the field numbers. New fields take the next number.

func (x *ExchangeInfo) writeFields(w *fieldWriter) {
	w.text(1, x.ID)
	w.text(2, x.Account)
	w.text(3, x.KeyID)
	w.number(4, int64(x.Outcome))
	w.time(5, x.Started)
	w.time(6, x.Imported)
	w.time(7, x.FirstByte)
	w.time(8, x.LastByte)
	w.number(9, int64(x.Status))
	w.text(10, x.Surface)
	w.text(11, x.Format)
	w.text(12, x.Provider)
	w.flag(13, x.Stream)
	w.flag(14, x.Simulated)
	w.text(15, x.ModelAsked)
	w.text(16, x.ModelSent)
	w.text(17, x.ModelServed)
	w.text(18, x.ChatKey)
	w.text(19, x.ExternalSession)
	w.text(20, x.NativeSession)
	w.text(21, x.NativeAgent)
	w.text(22, x.Auxiliary)
	x.Usage.write(w, 23)
	w.text(24, x.FinishReason)
	w.text(25, x.ResponseID)
	w.text(26, x.ProviderReqID)
	x.Error.write(w, 27)
	w.texts(28, x.Translation)
	for i := range x.Attempts {
		x.Attempts[i].write(w, 29)
	}
	for i := range x.Header {
		x.Header[i].write(w, 30)
	}
	w.text(31, x.RequestType)
	w.text(32, x.ResponseType)
	w.number(33, x.RequestSize)
	w.number(34, x.ResponseSize)
	w.number(35, x.ResponseUnrecorded)
	for i := range x.Redactions {
		x.Redactions[i].write(w, 36)
	}
	w.text(37, x.Project)
	x.Cost.write(w, 38)
	x.Recall.write(w, 39)
	w.texts(40, x.Tags)
	w.text(41, x.Note)
	w.text(42, x.Committed)
	w.text(43, x.PreviousResponse)
	w.text(44, x.Target)
	w.number(45, x.RequestUnrecorded)
	w.text(46, x.Repeats)
	w.text(47, x.Burst)
	w.key(fieldPart, x.Part)
}

// fieldPart is a short answer.
const fieldPart = 48

func (x *ExchangeInfo) readField(r *fieldReader) {
	switch r.field {
	case 1:
		x.ID = r.string()
	case 2:
		x.Account = r.string()
	case 3:
		x.KeyID = r.string()
	case 4:
		x.Outcome = r.outcome()
	case 5:
		x.Started = r.time()
	case 6:
		x.Imported = r.time()
	case 7:
		x.FirstByte = r.time()
	case 8:
		x.LastByte = r.time()
	case 9:
		x.Status = int(r.number())
	case 10:
		x.Surface = r.string()
	case 11:
		x.Format = r.string()
	case 12:
		x.Provider = r.string()
	case 13:
		x.Stream = r.flag()
	case 14:
		x.Simulated = r.flag()
	case 15:
		x.ModelAsked = r.string()
	case 16:
		x.ModelSent = r.string()
	case 17:
		x.ModelServed = r.string()
	case 18:
		x.ChatKey = r.string()
	case 19:
		x.ExternalSession = r.string()
	case 20:
		x.NativeSession = r.string()
	case 21:
		x.NativeAgent = r.string()
	case 22:
		x.Auxiliary = r.string()
	case 23:
		r.into(&x.Usage)
	case 24:
		x.FinishReason = r.string()
	case 25:
		x.ResponseID = r.string()
	case 26:
		x.ProviderReqID = r.string()
	case 27:
		x.Error = new(ErrorInfo)
		r.into(x.Error)
	case 28:
		x.Translation = append(x.Translation, r.string())
	case 29:
		x.Attempts = append(x.Attempts, Attempt{})
		r.into(&x.Attempts[len(x.Attempts)-1])
	case 30:
		x.Header = append(x.Header, HeaderField{})
		r.into(&x.Header[len(x.Header)-1])
	case 31:
		x.RequestType = r.string()
	case 32:
		x.ResponseType = r.string()
	case 33:
		x.RequestSize = r.number()
	case 34:
		x.ResponseSize = r.number()
	case 35:
		x.ResponseUnrecorded = r.number()
	case 36:
		x.Redactions = append(x.Redactions, Redaction{})
		r.into(&x.Redactions[len(x.Redactions)-1])
	case 37:
		x.Project = r.string()
	case 38:
		x.Cost = new(Cost)
		r.into(x.Cost)
	case 39:
		x.Recall = new(RecallInfo)
		r.into(x.Recall)
	case 40:
		x.Tags = append(x.Tags, r.string())
	case 41:
		x.Note = r.string()
	case 42:
		x.Committed = r.string()
	case 43:
		x.PreviousResponse = r.string()
	case 44:
		x.Target = r.string()
	case 45:
		x.RequestUnrecorded = r.number()
	case 46:
		x.Repeats = r.string()
	case 47:
		x.Burst = r.string()
	case fieldPart:
		x.Part = r.bytes()
	}
}

// ExchangeSizes are the sizes of an exchange's bodies, and its answer if that is in its record, read without the rest.
type ExchangeSizes struct {
	Request  int64  `json:"request_bytes"`
	Response int64  `json:"response_bytes"`
	Part     []byte `json:"-"`
}

func (s *ExchangeSizes) readField(r *fieldReader) {
	switch r.field {
	case 33:
		s.Request = r.number()
	case 34:
		s.Response = r.number()
	case fieldPart:
		s.Part = r.bytes()
	}
}

func (r *fieldReader) outcome() Outcome {
	n := r.number()
	if n < 0 || n >= int64(len(outcomeNames)) {
		r.fail()
		return OutcomeOpen
	}
	return Outcome(n)
}

func (u *UsageInfo) write(w *fieldWriter, field protowire.Number) {
	if *u == (UsageInfo{}) {
		return
	}
	at := w.begin(field)
	w.number(1, u.InputUncached)
	w.number(2, u.CacheRead)
	w.number(3, u.CacheWrite)
	w.number(4, u.Output)
	w.number(5, u.Reasoning)
	w.flag(6, u.Estimated)
	w.number(7, u.CacheLong)
	w.number(8, int64(u.Tier))
	w.end(at)
}

func (u *UsageInfo) readField(r *fieldReader) {
	switch r.field {
	case 1:
		u.InputUncached = r.number()
	case 2:
		u.CacheRead = r.number()
	case 3:
		u.CacheWrite = r.number()
	case 4:
		u.Output = r.number()
	case 5:
		u.Reasoning = r.number()
	case 6:
		u.Estimated = r.flag()
	case 7:
		u.CacheLong = r.number()
	case 8:
		u.Tier = codec.Tier(r.number())
	}
}

func (c *Cost) write(w *fieldWriter, field protowire.Number) {
	if c == nil {
		return
	}
	at := w.begin(field)
	w.number(1, int64(c.USD))
	w.number(2, int64(c.Saved))
	w.text(3, c.Price)
	w.flag(4, c.Estimated)
	w.flag(5, c.Notional)
	w.end(at)
}

func (c *Cost) readField(r *fieldReader) {
	switch r.field {
	case 1:
		c.USD = USD(r.number())
	case 2:
		c.Saved = USD(r.number())
	case 3:
		c.Price = r.string()
	case 4:
		c.Estimated = r.flag()
	case 5:
		c.Notional = r.flag()
	}
}

func (s *Spending) write(w *fieldWriter, field protowire.Number) {
	if *s == (Spending{}) {
		return
	}
	at := w.begin(field)
	w.number(1, int64(s.USD))
	w.number(2, int64(s.Notional))
	w.number(3, int64(s.Saved))
	w.number(4, s.Unpriced)
	w.number(5, s.Estimated)
	w.end(at)
}

func (s *Spending) readField(r *fieldReader) {
	switch r.field {
	case 1:
		s.USD = USD(r.number())
	case 2:
		s.Notional = USD(r.number())
	case 3:
		s.Saved = USD(r.number())
	case 4:
		s.Unpriced = r.number()
	case 5:
		s.Estimated = r.number()
	}
}

func (e *ErrorInfo) write(w *fieldWriter, field protowire.Number) {
	if e == nil {
		return
	}
	at := w.begin(field)
	w.text(1, e.Kind)
	w.text(2, e.Message)
	w.text(3, e.Code)
	w.text(4, e.Param)
	w.end(at)
}

func (e *ErrorInfo) readField(r *fieldReader) {
	switch r.field {
	case 1:
		e.Kind = r.string()
	case 2:
		e.Message = r.string()
	case 3:
		e.Code = r.string()
	case 4:
		e.Param = r.string()
	}
}

func (a *Attempt) write(w *fieldWriter, field protowire.Number) {
	at := w.begin(field)
	w.text(1, a.Provider)
	w.text(2, a.Endpoint)
	w.number(3, int64(a.Key))
	w.text(4, a.Model)
	w.number(5, int64(a.Status))
	w.text(6, a.Failure)
	w.number(7, a.Took)
	w.end(at)
}

func (a *Attempt) readField(r *fieldReader) {
	switch r.field {
	case 1:
		a.Provider = r.string()
	case 2:
		a.Endpoint = r.string()
	case 3:
		a.Key = int(r.number())
	case 4:
		a.Model = r.string()
	case 5:
		a.Status = int(r.number())
	case 6:
		a.Failure = r.string()
	case 7:
		a.Took = r.number()
	}
}

func (h *HeaderField) write(w *fieldWriter, field protowire.Number) {
	at := w.begin(field)
	w.text(1, h.Name)
	w.text(2, h.Value)
	w.end(at)
}

func (h *HeaderField) readField(r *fieldReader) {
	switch r.field {
	case 1:
		h.Name = r.string()
	case 2:
		h.Value = r.string()
	}
}

func (d *Redaction) write(w *fieldWriter, field protowire.Number) {
	at := w.begin(field)
	w.text(1, d.Name)
	w.number(2, int64(d.Request))
	w.number(3, int64(d.Response))
	w.end(at)
}

func (d *Redaction) readField(r *fieldReader) {
	switch r.field {
	case 1:
		d.Name = r.string()
	case 2:
		d.Request = int(r.number())
	case 3:
		d.Response = int(r.number())
	}
}
