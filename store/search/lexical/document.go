package lexical

import (
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
	a := analysers.Get().(*analyser)
	defer a.release()
	a.read(d.Text, &a.words, &a.names)
	a.read(d.Names, nil, &a.names)
	a.read(d.Output, &a.output, nil)
	doc := &indexedDocument{
		id:      Key{d.Account, d.ID}.internal(),
		lengths: lengths{uint64(a.words.total), uint64(a.names.total), uint64(a.output.total)},
		fields:  make([]indexedField, 0, 6),
	}
	if a.output.total > 0 {
		doc.fields = append(doc.fields, a.output.field(fieldOutput, d.Account, index.IndexField))
	}
	doc.fields = append(doc.fields,
		a.words.field(fieldText, d.Account, index.IndexField),
		a.names.field(fieldName, d.Account, index.IndexField),
	)
	a.words.add(newTerm("")) // what all documents of the account have
	for _, f := range d.Facets {
		a.words.add(newTerm(facetTerm(f.Name, f.Value)))
	}
	doc.fields = append(doc.fields,
		a.words.field(fieldFacet, d.Account, index.IndexField|index.SkipFreqNorm),
		indexedField{name: fieldLength, value: encodeStored(doc.lengths, GroupKey(d.Account, d.Group)), options: index.StoreField},
	)
	return doc
}

// facetTerm gives the term of a facet. Values are found in whatever case they are written.
func facetTerm(name, value string) string { return name + "\x00" + strings.ToLower(value) }

func (d *indexedDocument) ID() string { return d.id }

// AddIDField adds the field that the index finds the document by.
func (d *indexedDocument) AddIDField() {
	value := []byte(d.id)
	only := &index.TokenFreq{Term: value}
	only.SetFrequency(1)
	d.fields = append(d.fields, indexedField{
		name: fieldID, value: value, options: index.IndexField | index.StoreField,
		length: 1, terms: index.TokenFrequencies{d.id: only},
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

func (f *indexedField) Name() string                                     { return f.name }
func (f *indexedField) Value() []byte                                    { return f.value }
func (f *indexedField) Options() index.FieldIndexingOptions              { return f.options }
func (f *indexedField) AnalyzedLength() int                              { return f.length }
func (f *indexedField) AnalyzedTokenFrequencies() index.TokenFrequencies { return f.terms }
func (*indexedField) Analyze()                                           {} // has been done
func (*indexedField) ArrayPositions() []uint64                           { return nil }
func (*indexedField) EncodedFieldType() byte                             { return 't' }
func (*indexedField) NumPlainTextBytes() uint64                          { return 0 }
