package search

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/vector"
)

// Vectors makes the vectors of turns for an engine that stores them, and of the queries that they are compared with. An
// account for which the embedder has failed is not tried again for a while. All methods may be called concurrently.
type Vectors struct {
	encoder    encoder
	resting    restingAccounts // for documents
	unanswered restingAccounts // for queries
}

// NewVectors returns the vectors of an embedder.
func NewVectors(e Embedder, log *slog.Logger) (*Vectors, error) {
	space, err := vector.NewSpace(e.Dimensions())
	if err != nil {
		return nil, err
	}
	return &Vectors{encoder: encoder{e, space, log}}, nil
}

// Identity is that of the embedder.
func (v *Vectors) Identity() string { return v.encoder.embedder.Identity() }

// VectorMark is the length of the front of a stored vector which says what text it was made of.
const VectorMark = vectorHeader

// StoredVector is the vector of a turn as an engine stores it.
type StoredVector struct {
	Exchange string
	Value    []byte // begins with a mark, see [VectorMark]
	Signs    []byte // a bit for each dimension; vectors that share more of them are more alike, as a rule. nil: the turn has no vector
}

// Codes returns the values of a stored vector up to a factor, which likeness does not depend on; nil if there are none.
func (s *StoredVector) Codes() []int8 {
	if len(s.Value) <= vectorHeader {
		return nil
	}
	return codesOf(s.Value[vectorHeader:])
}

func codesOf(stored []byte) []int8 {
	made := vector.Codes(stored)
	values := make([]int8, len(made))
	for i, code := range made {
		values[i] = int8(code)
	}
	return values
}

// Resting returns the accounts that are not to be tried yet.
func (v *Vectors) Resting() []record.AccountNumber { return v.resting.present() }

// errUnknownAccount is the error for turns of an account whose credentials are not known.
var errUnknownAccount = codec.Errorf(codec.KindNotFound, "the account is not known here yet, or was deleted")

// Embed returns the vectors of turns of an account. It leaves out those whose text is still the one that the mark of the
// stored vector stands for. Errors are those of [Embedder]; after one the account rests, and so does one without a name.
func (v *Vectors) Embed(ctx context.Context, account string, number record.AccountNumber, turns []record.TimelineEntry, marks map[string][]byte) ([]StoredVector, error) {
	if account == "" {
		v.resting.begin(number, errUnknownAccount)
		return nil, errUnknownAccount
	}
	var changed []*pending
	for i := range turns {
		p := &pending{exchange: turns[i].Exchange.ID}
		if d := newDocument(&turns[i]); d != nil {
			p.text = d.embedded()
			p.stored = newVectorHeader(p.text)
		}
		if mark := marks[p.exchange]; mark == nil || !bytes.Equal(mark, p.stored) {
			changed = append(changed, p)
		}
	}
	if err := v.encoder.embed(ctx, account, changed); err != nil {
		if ctx.Err() == nil && v.resting.begin(number, err) {
			v.encoder.log.Warn("turns cannot be embedded; it is tried again", "account", account, "embedder", v.Identity(), "error", err)
		}
		return nil, err
	}
	v.resting.end(number)
	made := make([]StoredVector, len(changed))
	for i, p := range changed {
		made[i] = StoredVector{Exchange: p.exchange, Value: p.stored}
		if len(p.stored) > vectorHeader {
			signs, err := v.encoder.space.Signs(p.stored[vectorHeader:])
			if err != nil {
				return nil, err
			}
			made[i].Signs = signs
		}
	}
	return made, nil
}

// VectorQuery is a query to compare with vectors.
type VectorQuery struct {
	Signs    []byte // as those of stored vectors
	Codes    []int8 // as those of stored vectors, see [StoredVector.Codes]
	Embedder string // its identity

	query *vector.Query
}

// Query makes the vector of a query.
func (v *Vectors) Query(ctx context.Context, account string, number record.AccountNumber, text string) (*VectorQuery, error) {
	if err := v.unanswered.why(number); err != nil {
		return nil, err
	}
	e := &v.encoder
	made, err := embedQuery(ctx, e.embedder, account, text)
	if err != nil {
		if ctx.Err() == nil {
			v.unanswered.begin(number, err)
		}
		return nil, err
	}
	v.unanswered.end(number)
	stored, err := e.space.Append(nil, made)
	if err != nil {
		return nil, err
	}
	q := &VectorQuery{Codes: codesOf(stored), Embedder: v.Identity()}
	if q.Signs, err = e.space.Signs(stored); err == nil {
		q.query, err = e.space.Query(made)
	}
	return q, err
}

// Centre returns what stored vectors have in common: likeness is relative to it. A sample of an account's vectors will do.
func (v *Vectors) Centre(values [][]byte) ([]float32, error) {
	set, err := v.encoder.space.Load(func(put func(vector.ID, []byte) error) error {
		for i, value := range values {
			id := vector.ID{byte(i), byte(i >> 8), byte(i >> 16), byte(i >> 24)}
			if len(value) > vectorHeader && put(id, value[vectorHeader:]) != nil {
				v.encoder.log.Warn("a vector cannot be read and is left out; rebuild them with: mneme reindex vectors")
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return set.Centre(), nil
}

// Likes returns the text whose vector helps to find what is wanted; "" if none does.
func (w *Wanted) Likes(v *Vectors) string {
	mode := cmp.Or(w.request.Mode, Auto)
	if v == nil || w.Sessions || w.Demand != nil || mode == Lexical || mode == Auto && !knowsMeaning(v.encoder.embedder) {
		return ""
	}
	return w.query.Text()
}

// Compare has [Wanted.Rank] compare candidates with a query by their stored vectors, around the centre of the account. It
// is called once. note says what the vectors lack; failed is why there are none.
func (w *Wanted) Compare(v *Vectors, q *VectorQuery, centre []float32, stored []StoredVector, note string, failed error) {
	source := &candidateVectors{meaning: knowsMeaning(v.encoder.embedder), note: note, failed: failed}
	if failed == nil {
		source.query = q.query
		source.set, source.failed = v.encoder.space.LoadAround(centre, func(put func(vector.ID, []byte) error) error {
			for _, s := range stored {
				id, ok := record.ParseExchangeID(s.Exchange)
				if ok && len(s.Value) > vectorHeader && put(id, s.Value[vectorHeader:]) != nil {
					v.encoder.log.Warn("a vector cannot be read and is left out; rebuild them with: mneme reindex vectors", "exchange", s.Exchange)
				}
			}
			return nil
		})
	}
	w.vectors = source
}

// candidateVectors are the vectors of the turns found by an engine.
type candidateVectors struct {
	meaning bool
	query   *vector.Query
	set     *vector.Set
	note    string
	failed  error
}

func (c *candidateVectors) knowMeaning() bool { return c.meaning }

func (c *candidateVectors) compare(context.Context, string, record.AccountNumber, string) (*vector.Query, *vector.Set, string, error) {
	return c.query, c.set, c.note, c.failed
}
