// Package opensearch finds the candidates of searches in OpenSearch, 2.13 or later, for a memory in Postgres.
//
// The engine has a copy of what finds each turn: its terms, made by the analysis of this program, and its vector. All copies are in
// one index, in the shard of their account, and each request for candidates is limited to one account by a filter. Statistics are
// those of the account too, so that the words of one account do not affect what another one finds. What an answer names is read
// from Postgres and ranked there.
package opensearch
