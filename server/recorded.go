package server

import (
	"bytes"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/store/record"
)

// recorded finds an account's answers by id: ids of translated answers and their items contain the id of their
// exchange; other ids are a Responses provider's own.
type recorded struct {
	answers  Answers
	account  string
	most     int64                         // bytes of the record that are read for a request
	previous elsewhere                     // the previous response, if it was looked up before
	leaves   bool                          // the provider knows its own ids: a request that continues one of these keeps it
	asSent   func(*record.Exchange) []byte // returns the request with what was recalled for it; nil: unchanged
	within   bool                          // the conversation is being followed back and must be found whole

	continues *responses.Conversation // that the connection of the request remembers; nil: none
}

func (r *recorded) Response(id string) (request, answer []byte, err error) {
	if request, answer = r.continues.Response(id); request != nil {
		r.within = true
		return request, answer, nil
	}
	asked := !r.within
	if r.leaves && !r.within && !isOwnAnswer(id) {
		return nil, nil, nil
	}
	first := r.leaves && !r.within
	r.within = true
	x, err := r.own(id)
	if !first && codec.AsError(err, "").Kind == codec.KindNotFound {
		exchange, unknown := r.answers.AnsweredAs(r.account, id)
		if unknown != nil {
			return nil, nil, sooner(err, unknown)
		}
		x, err = r.exchange(exchange)
	}
	if err == nil && asked && scan.IsFalse(scan.Get(x.RawRequest, "store")) {
		err = codec.Errorf(codec.KindNotFound, "not stored")
	}
	if err != nil {
		return nil, nil, err
	}
	if r.asSent != nil {
		return r.asSent(x), x.RawResponse, nil
	}
	return x.RawRequest, x.RawResponse, nil
}

// sooner returns the first of two errors if it says when to try again, else the other.
func sooner(first, other error) error {
	if codec.AsError(first, "").RetryAfter > 0 {
		return first
	}
	return other
}

// Account implements [responses.Record].
func (r *recorded) Account() string { return r.account }

func (r *recorded) Item(id string) (answer []byte, err error) {
	x, unknown := r.own(id)
	switch {
	case unknown == nil:
		return x.RawResponse, nil
	case codec.AsError(unknown, "").Kind != codec.KindNotFound:
		return nil, unknown
	case r.leaves:
		return nil, nil
	}
	page, err := r.answers.Exchanges(r.account, record.ExchangeQuery{Limit: newestAnswers})
	if err != nil {
		return nil, err
	}
	quoted := []byte(`"` + id + `"`)
	for i := range page.Data {
		if !recordsAnswers(page.Data[i].Surface) || page.Data[i].Outcome != record.OutcomeComplete {
			continue
		}
		if x, err := r.exchange(page.Data[i].ID); err == nil && bytes.Contains(x.RawResponse, quoted) {
			return x.RawResponse, nil
		}
	}
	return nil, sooner(unknown, codec.Errorf(codec.KindNotFound, "no answer has that item"))
}

// The length of an exchange's id after its prefix, and of the longest item id, which ends with the item's place in the
// answer. OpenAI's ids are longer by half.
const (
	exchangeIDLength = 26
	itemIDLength     = exchangeIDLength + 6
	longestPrefix    = 32
)

// isOwnID reports whether an id has the form of ids of translated answers and their items. Other providers' ids may
// have it too.
func isOwnID(id string) bool {
	_, ok := exchangeOf(id)
	return ok
}

// isOwnAnswer reports whether an id has the form of ids of translated answers.
func isOwnAnswer(id string) bool {
	return strings.HasPrefix(id, "resp_") && len(id) == len("resp_")+exchangeIDLength
}

// exchangeOf returns the exchange in an id of that form.
func exchangeOf(id string) (exchange string, ok bool) {
	_, own, _ := strings.Cut(id, "_")
	if len(own) != exchangeIDLength && (len(own) < exchangeIDLength+2 || len(own) > itemIDLength) {
		return "", false
	}
	return "exch_" + own[:exchangeIDLength], true
}

// own returns the exchange of one of our ids.
func (r *recorded) own(id string) (*record.Exchange, error) {
	exchange, ok := exchangeOf(id)
	if !ok {
		return nil, codec.Errorf(codec.KindNotFound, "not an id of this proxy")
	}
	return r.exchange(exchange)
}

func (r *recorded) exchange(id string) (*record.Exchange, error) {
	if p := &r.previous; p.id == id && (p.found != nil || p.err != nil) {
		return p.found, p.err
	}
	x, err := r.answers.Exchange(r.account, id)
	if err == nil && !recordsAnswers(x.Surface) {
		err = codec.Errorf(codec.KindNotFound, "an answer of another surface")
	}
	return x, err
}

// resolve inserts into the body what it refers to. It reserves room for as much as may be read of the record, and then
// only for the result.
func (r *recorded) resolve(request *request) (body []byte, names []string, err error) {
	if err := request.share.Take(r.most); err != nil {
		return nil, nil, err
	}
	body, names, err = responses.Resolve(request.body, int(r.most), r)
	request.share.Give(r.most)
	if err != nil || len(names) == 0 {
		return nil, nil, err
	}
	if err := request.share.Take(int64(cap(body))); err != nil {
		return nil, nil, err
	}
	return body, names, nil
}

var (
	itemReference = []byte(`"item_reference"`)
	itemID        = []byte(`"id"`)
)

// mayReferToOwn reports whether the body may refer to an item of a translated answer. References need no type; a client
// that stores nothing sends the items themselves, with ids.
func (r *request) mayReferToOwn() bool {
	if r.envelope.StoreOff {
		return bytes.Contains(r.body, itemReference)
	}
	for rest := r.body; ; {
		i := bytes.Index(rest, itemID)
		if i < 0 {
			return bytes.Contains(r.body, itemReference)
		}
		rest = bytes.TrimLeft(rest[i+len(itemID):], ": \t\r\n")
		quoted := rest[:min(len(rest), longestPrefix+itemIDLength+2)]
		if end := bytes.IndexByte(quoted[min(len(quoted), 1):], '"'); end > 0 && quoted[0] == '"' && isOwnID(string(quoted[1:1+end])) {
			return true
		}
	}
}
