// Package lexical finds documents by their words and by the names of things in them. bleve's scorch keeps the postings
// and merges them; analysis and scoring are this package's own, because bleve's scorers take the number of distinct
// terms for the length of a field, square the weight of rare terms, and punish long questions.
//
// Every term in the index begins with the number of the account it belongs to. A search looks up the terms of one
// account, so that no document of another can come out of it, and how rare a term is, is counted inside the account.
package lexical
