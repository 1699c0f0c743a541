// Package journal reads what is on record of an exchange in a transaction of the database: its record, the bytes of its
// request and answer, and its turn, whose text is a part of these.
package journal
