// Package sessions keeps the records of sessions: which session an exchange belongs to, and what a session counts.
//
// [Writing] is the sessions as the writer sees them. It applies the rules of package conversation to what is stored, and to
// what the operations of the group have put. [Records] is how readers see them: the newest record of a session may be in
// memory, ahead of the stored one, because it can be counted again from the session's exchanges.
package sessions
