// Package blob keeps the bytes of bodies and answers, each block once per account.
//
// Agents send their whole history again every turn. A request body is therefore cut along its own structure into
// items (messages, tools, system blocks), each kept once per account under its hash, and what remains of a request is
// a skeleton: a list of pieces whose bytes, joined, are the body.
//
// A list of messages grows with every turn, so a skeleton does not name them all: the front of a run of items is a
// node, kept under a hash that stands for the whole sequence up to there, which names the node before it and the items
// since. Only the last few items of a run stand in the skeleton itself, because clients change those again (a cache
// mark moves on to the newest message) and a node that held them would be of no use to the next turn.
//
// A [Planner] takes a body apart on the goroutine of its request, a [Batch] adds what is not stored yet on the writer's, and
// a [Reader] gives the body back byte for byte. Nothing counts references: [MarkLive] finds what skeletons still reach.
package blob
