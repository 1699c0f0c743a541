// Package ship defines how exchanges travel from the store that recorded them to the one that keeps them.
//
// A store that ships numbers its exchanges in the order in which they ended: its log. A [Frame] is a range of the log
// and names the number that it follows, so a receiver applies frames in order and once each, however often and in
// whatever order they arrive. Frames are cut into packets that fit a broker's messages, and every packet is signed with
// the key that all nodes of a cluster share ([Key]).
package ship
