package lexical

import (
	"encoding/binary"
	"strings"

	index "github.com/blevesearch/bleve_index_api"
)

// indexedDocument is a document in the form in which bleve takes it: its terms are counted. It implements
// [index.Document].
type indexedDocument struct {
	id      string
	lengths lengths
	fields  []indexedField
}

// analyse counts the terms of a document.
func analyse(d *Document) *indexedDocument {
	text := prose([]byte(d.Text))
	names := append(identifiers([]byte(d.Text)), identifiers([]byte(d.Names))...)
	output := outputWords([]byte(d.Output))
	facets := make([]token, 1, 1+len(d.Facets)) // the empty one is what all documents of the account have
	for _, f := range d.Facets {
		facets = append(facets, token{term: facetTerm(f.Name, f.Value)})
	}
	a := &indexedDocument{
		id:      Key{d.Account, d.ID}.internal(),
		lengths: lengths{uint64(len(text)), uint64(len(names)), uint64(len(output))},
		fields:  make([]indexedField, 0, 6),
	}
	if len(output) > 0 {
		a.fields = append(a.fields, termsField(fieldOutput, d.Account, output, index.IndexField))
	}
	a.fields = append(a.fields,
		termsField(fieldText, d.Account, text, index.IndexField),
		termsField(fieldName, d.Account, names, index.IndexField),
		termsField(fieldFacet, d.Account, facets, index.IndexField|index.SkipFreqNorm),
		indexedField{name: fieldLength, value: encodeStored(a.lengths, GroupKey(d.Account, d.Group)), options: index.StoreField},
	)
	return a
}

// facetTerm gives the term of a facet. Values are found in whatever case they are written.
func facetTerm(name, value string) string { return name + "\x00" + strings.ToLower(value) }

func (d *indexedDocument) ID() string { return d.id }

// AddIDField adds the field that the index finds the document by.
func (d *indexedDocument) AddIDField() {
	value := []byte(d.id)
	d.fields = append(d.fields, indexedField{
		name: fieldID, value: value, options: index.IndexField | index.StoreField,
		length: 1, terms: index.TokenFrequencies{d.id: newTerm(value, 1)},
	})
}

func (d *indexedDocument) VisitFields(visit index.FieldVisitor) {
	for i := range d.fields {
		visit(&d.fields[i])
	}
}

// These go into bleve's counters only, or are about kinds of fields that there are none of here.

func (*indexedDocument) Size() int                                  { return 0 }
func (*indexedDocument) NumPlainTextBytes() uint64                  { return 0 }
func (*indexedDocument) StoredFieldsBytes() uint64                  { return 0 }
func (*indexedDocument) Indexed() bool                              { return false }
func (*indexedDocument) HasComposite() bool                         { return false }
func (*indexedDocument) VisitComposite(index.CompositeFieldVisitor) {}

// indexedField is a field of an indexedDocument. It implements [index.Field].
type indexedField struct {
	name    string
	value   []byte // that is stored
	options index.FieldIndexingOptions
	length  int // terms, with those that repeat
	terms   index.TokenFrequencies
}

// termsField makes a field that is found by terms. Their memory is one piece for all, not one each.
func termsField(name string, account uint32, tokens []token, options index.FieldIndexingOptions) indexedField {
	size := 0
	for _, t := range tokens {
		size += accountSize + len(t.term)
	}
	written := make([]byte, 0, size)
	for _, t := range tokens {
		written = append(binary.BigEndian.AppendUint32(written, account), t.term...)
	}
	keys := string(written)
	terms := make(index.TokenFrequencies, len(tokens))
	different := make([]index.TokenFreq, 0, len(tokens))
	end := 0
	for _, t := range tokens {
		start := end
		end += accountSize + len(t.term)
		term := terms[keys[start:end]]
		if term == nil {
			different = append(different, index.TokenFreq{Term: written[start:end:end]})
			term = &different[len(different)-1]
			terms[keys[start:end]] = term
		}
		if !options.SkipFreqNorm() {
			term.SetFrequency(term.Frequency() + 1)
		}
	}
	return indexedField{name: name, options: options, length: len(tokens), terms: terms}
}

func newTerm(written []byte, times int) *index.TokenFreq {
	term := &index.TokenFreq{Term: written}
	term.SetFrequency(times)
	return term
}

func (f *indexedField) Name() string                                     { return f.name }
func (f *indexedField) Value() []byte                                    { return f.value }
func (f *indexedField) Options() index.FieldIndexingOptions              { return f.options }
func (f *indexedField) AnalyzedLength() int                              { return f.length }
func (f *indexedField) AnalyzedTokenFrequencies() index.TokenFrequencies { return f.terms }
func (*indexedField) Analyze()                                           {} // has been done
func (*indexedField) ArrayPositions() []uint64                           { return nil }
func (*indexedField) EncodedFieldType() byte                             { return 't' }
func (*indexedField) NumPlainTextBytes() uint64                          { return 0 }
