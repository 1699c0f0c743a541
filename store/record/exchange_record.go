package record

func (x *ExchangeInfo) fields(f *fieldCodec) {
	f.string(1, &x.ID)
	f.string(2, &x.Account)
	f.string(3, &x.KeyID)
	f.outcome(4, &x.Outcome)
	f.time(5, &x.Started)
	f.time(6, &x.Imported)
	f.time(7, &x.FirstByte)
	f.time(8, &x.LastByte)
	number(f, 9, &x.Status)
	f.string(10, &x.Surface)
	f.string(11, &x.Format)
	f.string(12, &x.Provider)
	f.flag(13, &x.Stream)
	f.flag(14, &x.Simulated)
	f.string(15, &x.ModelAsked)
	f.string(16, &x.ModelSent)
	f.string(17, &x.ModelServed)
	f.string(18, &x.ChatKey)
	f.string(19, &x.ExternalSession)
	f.string(20, &x.NativeSession)
	f.string(21, &x.NativeAgent)
	f.string(22, &x.Auxiliary)
	message(f, 23, &x.Usage)
	f.string(24, &x.FinishReason)
	f.string(25, &x.ResponseID)
	f.string(26, &x.ProviderReqID)
	optional(f, 27, &x.Error)
	f.strings(28, &x.Translation)
	messages(f, 29, &x.Attempts)
	messages(f, 30, &x.Header)
	f.string(31, &x.RequestType)
	f.string(32, &x.ResponseType)
	number(f, 33, &x.RequestSize)
	number(f, 34, &x.ResponseSize)
	number(f, 35, &x.ResponseUnrecorded)
	messages(f, 36, &x.Redactions)
	f.string(37, &x.Project)
	optional(f, 38, &x.Cost)
	optional(f, 39, &x.Recall)
	f.strings(40, &x.Tags)
	f.string(41, &x.Note)
	f.string(42, &x.Committed)
	f.string(43, &x.PreviousResponse)
	f.string(44, &x.Target)
	number(f, 45, &x.RequestUnrecorded)
	f.string(46, &x.Repeats)
	f.string(47, &x.Burst)
	f.bytes(48, &x.Part)
}

// ExchangeSizes are the sizes of an exchange's bodies, and its answer if that is in its record, read without the rest.
type ExchangeSizes struct {
	Request  int64  `json:"request_bytes"`
	Response int64  `json:"response_bytes"`
	Part     []byte `json:"-"`
}

func (s *ExchangeSizes) fields(f *fieldCodec) {
	number(f, 33, &s.Request)
	number(f, 34, &s.Response)
	f.bytes(48, &s.Part)
}

func (u *UsageInfo) fields(f *fieldCodec) {
	number(f, 1, &u.InputUncached)
	number(f, 2, &u.CacheRead)
	number(f, 3, &u.CacheWrite)
	number(f, 4, &u.Output)
	number(f, 5, &u.Reasoning)
	f.flag(6, &u.Estimated)
	number(f, 7, &u.CacheLong)
	number(f, 8, &u.Tier)
}

func (c *Cost) fields(f *fieldCodec) {
	number(f, 1, &c.USD)
	number(f, 2, &c.Saved)
	f.string(3, &c.Price)
	f.flag(4, &c.Estimated)
	f.flag(5, &c.Notional)
}

func (s *Spending) fields(f *fieldCodec) {
	number(f, 1, &s.USD)
	number(f, 2, &s.Notional)
	number(f, 3, &s.Saved)
	number(f, 4, &s.Unpriced)
	number(f, 5, &s.Estimated)
}

func (e *ErrorInfo) fields(f *fieldCodec) {
	f.string(1, &e.Kind)
	f.string(2, &e.Message)
	f.string(3, &e.Code)
	f.string(4, &e.Param)
}

func (a *Attempt) fields(f *fieldCodec) {
	f.string(1, &a.Provider)
	f.string(2, &a.Endpoint)
	number(f, 3, &a.Key)
	f.string(4, &a.Model)
	number(f, 5, &a.Status)
	f.string(6, &a.Failure)
	number(f, 7, &a.Took)
}

func (h *HeaderField) fields(f *fieldCodec) {
	f.string(1, &h.Name)
	f.string(2, &h.Value)
}

func (d *Redaction) fields(f *fieldCodec) {
	f.string(1, &d.Name)
	number(f, 2, &d.Request)
	number(f, 3, &d.Response)
}
