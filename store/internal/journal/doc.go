// Package journal reads exchanges in a transaction of the database: the record, the bytes of request and answer, and the
// turn, whose text is a part of these. It also reads the notes of exchanges that are open.
package journal
