// Package blob keeps the bytes of bodies and answers, each block once per account.
//
// Agents send their whole history again every turn. A request body is therefore cut along its own structure into items
// (messages, tools, system blocks), each stored once per account under its hash. The rest of the request is a skeleton:
// a list of pieces whose bytes, joined, are the body.
//
// A list of messages grows with every turn, so a skeleton does not name them all: the front of a run of items is a
// node, stored under a hash of the whole sequence up to there. A node names the previous node and the items since. Only
// the last few items of a run are in the skeleton itself, because clients change those again (a cache mark moves on to
// the newest message), and the next turn could not reuse a node that held them.
//
// A [Planner] splits a body on the goroutine of its request, a [Batch] adds what is not stored yet on the writer's, and
// a [Reader] returns the body byte for byte. There are no reference counts: [MarkLive] finds what skeletons still
// reach.
package blob
