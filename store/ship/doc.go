// Package ship is the form in which exchanges travel from the store that recorded them to the one that keeps them.
//
// A store that ships numbers its exchanges in the order in which they ended: that is its log. A [Frame] is a stretch of the
// log. It says which number it follows, so that a receiver takes frames in order, each once, however often and in whatever
// order they arrive. Frames are cut into packets that fit a broker's messages, and every packet is signed with the key that
// all nodes of a cluster share ([Key]).
package ship
